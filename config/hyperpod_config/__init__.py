"""Stage 1: config files become a typed fleet with source places, or findings."""

from hyperpod_config.findings import RULES, Finding, Place, Rule, Severity, rule
from hyperpod_config.load import Loaded, load
from hyperpod_config.model import KINDS, Cluster, Department, Document, Fleet, FleetDocument, Team

__all__ = [
    "KINDS",
    "RULES",
    "Cluster",
    "Department",
    "Document",
    "Finding",
    "Fleet",
    "FleetDocument",
    "Loaded",
    "Place",
    "Rule",
    "Severity",
    "Team",
    "load",
    "rule",
]

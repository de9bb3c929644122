"""Stacks and app wiring: the resolved fleet as CloudFormation."""

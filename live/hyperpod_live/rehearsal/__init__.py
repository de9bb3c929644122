"""Rehearse a cluster's policy: its Kueue objects, fake nodes and jobs on a real Kueue."""

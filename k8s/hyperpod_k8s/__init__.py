"""Kubernetes objects of a resolved fleet: files to apply or to review, Helm charts, cdk8s charts.

Only ``hyperpod_k8s.charts`` starts jsii.
"""

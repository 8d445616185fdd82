"""A campaign as a Kubernetes Job: its objects, and the reasons why it does not progress. This code contacts no
cluster."""

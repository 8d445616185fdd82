"""A campaign as a Job of Kubernetes: its objects, and what holds it up. Nothing here talks to a cluster."""

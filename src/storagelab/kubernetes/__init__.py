"""A campaign as a Kubernetes Job: its objects, and the obstacles to its progress. Contacts no cluster."""

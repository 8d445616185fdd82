"""A campaign as a Job of Kubernetes: its objects, and the obstacles to its progress. Contacts no cluster."""

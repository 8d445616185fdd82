"""Makes the runs of a plan, and stores their measurements."""

"""Makes the sections of a report from findings and runs. Pure."""

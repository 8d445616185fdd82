"""Make the runs of a plan, and keep what they measured."""

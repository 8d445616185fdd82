"""Makes the runs of a plan, and stores what they measured."""

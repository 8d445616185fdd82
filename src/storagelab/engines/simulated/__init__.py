"""The simulated server as a target. `scenario` translates plans for the core, and `measurement` translates the core's
outcomes. `preflight` refuses plans before anything runs. `engine` makes the runs of blocks and saves the drives."""

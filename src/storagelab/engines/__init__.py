"""The engines: one folder for each. `run.engine` is their interface, and finds an engine by the name of its folder."""

"""The engines, one folder each. `run.engine` is their interface, and finds each by its folder's name."""

"""Reads a TOML file into an Experiment, and expands it to a Plan. Each error names the file, the key and the allowed
values."""

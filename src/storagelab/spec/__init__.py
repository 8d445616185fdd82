"""Reads a spec (a TOML file) into an Experiment, and expands the Experiment to a Plan. Each error names the file, the
key and the allowed values."""

"""From a TOML file to an Experiment, and from an Experiment to its plan. Each error names file, key and what is allowed."""

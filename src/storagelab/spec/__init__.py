"""TOML file -> Experiment -> Plan. Each error names the file, the key and what is allowed."""

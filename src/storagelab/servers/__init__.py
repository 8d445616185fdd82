"""The servers of runs: private, attached, or with a template's data."""

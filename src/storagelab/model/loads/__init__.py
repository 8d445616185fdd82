"""The loads: a file for each, which `model.workload` finds."""

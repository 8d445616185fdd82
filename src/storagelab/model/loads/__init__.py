"""The loads, one file for each; `model.workload` finds them."""

"""The loads, one file for each; `model.config` finds them."""

"""The loads. Each has its own file, and `model.config` finds these files."""

"""Measured drives: their law with few figures, its fit, and the profile that stores every measured point."""

"""Measured drives: a law with few figures, its fit to measured points, and the profile that stores every measured
point."""

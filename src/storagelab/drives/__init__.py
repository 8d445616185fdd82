"""Drives that were measured: their law with few figures, the fit, and the profile that keeps every measured point."""

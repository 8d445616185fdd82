"""Compares the model with published figures.

`articles` and published/*.toml hold the figures as data, with the way in which each is read from runs; `making` makes
the runs and compares; `table` shows the comparison with the model's parameters.
"""

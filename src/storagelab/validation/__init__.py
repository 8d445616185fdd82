"""Compares the model with published figures.

`articles` and published/*.toml hold the figures as data, and say how each is read from runs; `making` makes the runs
and compares; `table` shows it all, with the model's parameters.
"""

"""Compares the model with published figures.

published/*.toml and `articles` have the figures as data, and say how to read each figure from runs. `making` makes the
runs and compares the figures. `table` shows the comparison and the parameters of the model.
"""

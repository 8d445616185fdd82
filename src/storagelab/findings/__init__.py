"""Runs -> findings: statistics, verdicts, effects, cautions. Pure."""

from typing import Literal

FitKind = Literal["robust", "least-squares"]
"""The ways to fit the means of cells. They are here because the command line names them before it loads any
statistics.
"""

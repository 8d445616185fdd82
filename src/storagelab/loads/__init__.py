"""Runs of well-known load generators, and readers of their logs of transactions."""

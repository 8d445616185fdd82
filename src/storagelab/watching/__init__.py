"""Readings during a run: waits, series, clocks, and counters of the server and of this machine."""

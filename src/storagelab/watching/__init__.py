"""Measurements during a run: waits, time series, clocks, and counters of the server and of this machine."""

"""What is read while a run is measured: waits, series, clocks, and counters of the server and of this machine."""

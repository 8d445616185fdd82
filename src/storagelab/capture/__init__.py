"""Captures the I/O of a running server from its counters and the kernel's, stores it in a folder, and reads it."""

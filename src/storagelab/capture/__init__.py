"""Captures the I/O of a running server from the server's and the kernel's counters. Stores captures in folders, and
reads them.
"""

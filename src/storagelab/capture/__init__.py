"""What a running server reads and writes: taken from its own counters and the kernel's, kept in a folder, and read
again.
"""

"""The I/O of a running server: captured from its own counters and the kernel's, stored in a folder, and read again."""

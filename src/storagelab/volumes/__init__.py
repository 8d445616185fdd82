"""Makes volumes for a run, and removes them: drives from files, file systems, limits, and the user's own commands.

Each part of a volume is a context manager: it makes the part at its beginning, and removes it at its end. The remains
of a killed run are found through the kernel (mounts, loop devices), so no notes about them are needed.
"""

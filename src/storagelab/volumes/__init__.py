"""Makes volumes for a run, and removes them: drives from files, file systems, limits, and the user's own commands.

A part of a volume is a context manager: entering makes it, leaving removes it. The remains of a killed run are found
through the kernel (mounts, loop devices), so no notes are needed.
"""

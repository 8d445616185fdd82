"""Makes volumes for a run, and removes them: drives from files, file systems, limits, and commands of the user's own.

A part of a volume is a context manager: entering makes it, leaving removes it. What is left by a killed run is found in
what the kernel shows (mounts, loop devices), so nothing has to be remembered.
"""

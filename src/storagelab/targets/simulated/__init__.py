"""The simulated server as a target: what a plan is to the core (`scenario`), what an outcome is to storagelab
(`measurement`), what is refused before anything runs (`preflight`), and a block of runs with its saved drives (`block`)."""

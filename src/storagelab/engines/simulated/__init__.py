"""The simulated server as a target: translates plans for the core (`scenario`) and outcomes for storagelab
(`measurement`), refuses plans before anything runs (`preflight`), and runs blocks with saved drives (`block`)."""

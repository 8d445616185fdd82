"""What the verbs of the command line do, one module each, so that a verb loads only what it needs."""

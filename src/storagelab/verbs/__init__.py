"""What the verbs of the command line do, a room each, so that a verb loads only what it needs."""

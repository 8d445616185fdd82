"""Well-known load generators: how each runs, and its own log of every transaction."""

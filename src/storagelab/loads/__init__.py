"""Well-known load generators: their runs, and their logs of every transaction."""

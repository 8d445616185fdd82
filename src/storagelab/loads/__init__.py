"""Well-known load generators: how each runs beside a server, and what its own log says of every transaction."""

"""Load generators that people know: how each is run beside a server, and what its own log says of every transaction."""

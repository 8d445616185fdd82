"""How names and figures read, for everything that writes sentences: findings, reports and verbs. Pure."""

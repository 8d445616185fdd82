"""Names and figures as text, for everything that writes sentences: findings, reports and verbs. Pure."""

"""The sections of a report: findings and runs -> parts of a document. Pure."""

"""Every kind of private PostgreSQL that a plan needs."""

from __future__ import annotations

from storagelab.targets.postgres.server import STARTER

kinds = STARTER.kinds

"""Its waits and settings mean what MariaDB's mean."""

from storagelab.engines.mariadb.meanings import KNOWN

__all__ = ["KNOWN"]

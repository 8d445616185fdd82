"""storagelab: which storage layout is fastest for this database, by how much, and why?"""

__version__ = "0.1.0"

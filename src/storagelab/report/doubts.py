from __future__ import annotations
from storagelab.findings import Caution, Findings
def caution_sentence(caution: Caution, findings: Findings) -> str:
    """One doubt as a sentence: what, how much, and what to do about it."""
    return caution.kind

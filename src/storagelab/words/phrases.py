"""Adapts parts of sentences that come from elsewhere. Pure."""

from __future__ import annotations


def without_stop(text: str) -> str:
    """A server's message without its final full stop."""
    return text.strip().rstrip(".")


def in_brackets(*texts: str) -> str:
    """`texts` in brackets, after a space; unknown ones are left out."""
    known = ", ".join(text for text in texts if text)
    return f" ({known})" if known else ""


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]

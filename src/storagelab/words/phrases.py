"""Parts of sentences that come from elsewhere, made to fit. Pure."""

from __future__ import annotations


def without_stop(text: str) -> str:
    """A server's message without its final full stop."""
    return text.strip().rstrip(".")


def in_brackets(*texts: str) -> str:
    """What is known of `texts`, in brackets after a space."""
    known = ", ".join(text for text in texts if text)
    return f" ({known})" if known else ""


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""What a mistyped word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def _letters(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())


def closest(word: str, allowed: Iterable[str]) -> str | None:
    """Give the allowed word that `word` most resembles, or None when nothing comes near.

    Case and separators do not count: `MinInstanceCount` and `min_instance_count` are `minInstanceCount`.
    """
    import difflib  # noqa: PLC0415  (a clean config never needs it)

    candidates = {_letters(candidate): candidate for candidate in sorted(allowed, reverse=True)}
    near = difflib.get_close_matches(_letters(word)[:100], candidates, n=1, cutoff=0.6)
    return candidates[near[0]] if near else None


def did_you_mean(word: object, allowed: Iterable[str]) -> str:
    """Word the suggestion as a hint; empty when nothing comes near."""
    near = closest(word, allowed) if isinstance(word, str) else None
    return f"did you mean {near}?" if near and near != word else ""


def one_of(allowed: Iterable[str], most: int = 8) -> str:
    """List what is allowed, at most `most` of it."""
    words = list(allowed)
    listed = ", ".join(words[:most])
    return f"{listed} and {len(words) - most} more" if len(words) > most else listed

"""Task files as tests write them."""

from __future__ import annotations

from collections.abc import Mapping


def properties(keys: Mapping[str, object]) -> str:
    """The text of a properties file with these keys."""
    return "".join(f"{key}={value}\n" for key, value in keys.items())


def dotted(keys: Mapping[str, str]) -> dict[str, str]:
    """Keys that were given as arguments of a function: `__` stands for a dot."""
    return {key.replace("__", "."): value for key, value in keys.items()}

"""Regular expressions of the other tools, which Java reads."""

from __future__ import annotations

import re

from cdcbus.plugins.transform.table_list import split_outside_brackets


def split_regexes(text: str) -> list[str]:
    """The regular expressions separated by commas; commas in brackets or after a backslash do not
    separate."""
    # The backslash was needed only in the list.
    parts = [re.sub(r"\\.", _plain_comma, part) for part in split_outside_brackets(text)]
    return list(filter(None, map(str.strip, parts)))


def _plain_comma(escape: re.Match[str]) -> str:
    return "," if escape[0] == "\\," else escape[0]


def either(regexes: list[str]) -> str:
    return f"(?:{'|'.join(regexes)})"

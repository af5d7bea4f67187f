"""Regular expressions of the other tools, which Java reads."""

from __future__ import annotations

import re

from cdcbus.plugins.transform.table_list import PIECE, split_outside_brackets

BEGINS, ENDS = {"^", r"\A"}, {"$", r"\Z", r"\z"}


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


def part_of_name(regex: str, around: str = "", is_database: bool = False) -> str:
    """An expression for the database's or the table's name, as one within `schema.table`. `around`:
    what may stand before and behind it where no anchor holds it. Raises ValueError for one that
    would fit other names there."""
    # The table's name follows there.
    if is_database and re.search(r"\(\?[=!]", regex):
        raise ValueError("it looks ahead, past the database's name; write it without (?= and (?!")
    return either([_unanchored(each, around) for each in split_outside_brackets(regex, "|")])


def _unanchored(regex: str, around: str) -> str:
    pieces = PIECE.findall(regex)
    before, after = around, around
    if pieces and pieces[0] in BEGINS:
        before, pieces = "", pieces[1:]
    if pieces and pieces[-1] in ENDS:
        after, pieces = "", pieces[:-1]
    if not (BEGINS | ENDS).isdisjoint(pieces):
        raise ValueError("it has ^ or $ within; write them only at its begin and end")
    return f"{before}{''.join(pieces)}{after}"


def check(regex: str) -> None:
    """Raises ValueError for a regular expression that Python reads otherwise than Java, or not at
    all."""
    for piece in PIECE.findall(regex):
        # A class of characters, without those that are escaped.
        if piece[0] == "[" and re.search(r"&&|\[", re.sub(r"\\.", "", piece[1:])):
            raise ValueError(f"{piece} has && or [ within")
        # The numbers are others once several expressions have become one.
        if re.fullmatch(r"\\[1-9]", piece):
            raise ValueError(f"{piece} refers to a group")
    try:
        re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error

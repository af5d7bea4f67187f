"""Tokens are those of the session and of the server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.producer.ddl.tokens import (
    ANSI_QUOTES,
    NO_BACKSLASH_ESCAPES,
    PLAIN,
    Kind,
    NoTokens,
    Session,
    tokens,
)

MYSQL, MARIADB = Session(version=90_700), Session(version=110_405, is_mariadb=True)


def texts(sql: str, session: Session = PLAIN) -> list[str]:
    return [token.text for token in tokens(sql, session)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a/* b */c -- d\ne # f\ng--h", ["a", "c", "e", "g", "-", "-", "h"]),
        ("`a``b` 'c''d\\n' \"e\"", ["a`b", "c'd\n", "e"]),
        (
            "t.1a 1.5 .5 1e3 0x1F x'0a' 2x",
            ["t", ".", "1a", "1.5", ".5", "1e3", "0x1F", "x'0a'", "2x"],
        ),
        ("größe 表;", ["größe", "表", ";"]),
    ],
)
def test_tokens(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_quotes_and_escapes_are_those_of_the_sql_mode() -> None:
    assert [token.kind for token in tokens('"a"', Session(ANSI_QUOTES))] == [Kind.NAME]
    assert [token.kind for token in tokens('"a"', PLAIN)] == [Kind.STRING]
    assert texts(r"'a\' b", Session(NO_BACKSLASH_ESCAPES)) == ["a\\", "b"]
    with pytest.raises(NoTokens):
        tokens(r"'a\' b", PLAIN)


@pytest.mark.parametrize(
    ("sql", "mysql", "mariadb"),
    [
        ("/*! a */ b", "a b", "a b"),
        ("/*!50000 a */ b", "a b", "a b"),
        ("/*!80023 a */ b", "a b", "b"),
        ("/*!100100 a */ b", "b", "a b"),
        ("/*M! a */ b", "b", "a b"),
        ("/*M!100100 a */ b", "b", "a b"),
        ("/*!999999 a /* c */ d */ b", "b", "b"),
        ("/*!50000 a /* c */ d */ b", "a d b", "a d b"),
    ],
)
def test_executable_comments_are_run_by_version_and_server(
    sql: str, mysql: str, mariadb: str
) -> None:
    assert " ".join(texts(sql, MYSQL)) == mysql
    assert " ".join(texts(sql, MARIADB)) == mariadb


@pytest.mark.parametrize("sql", ["'a", "`a", "/* a", "/*! a", "a\xa0b", "/*!999999 a"])
def test_what_no_server_reads_so_is_refused(sql: str) -> None:
    with pytest.raises(NoTokens):
        tokens(sql, MYSQL)


@given(st.text(st.sampled_from("ab1.'\"`\\/*!M# -\n0xé表@;(),_")))
def test_no_text_raises_anything_else(sql: str) -> None:
    for session in (MYSQL, MARIADB, Session(ANSI_QUOTES | NO_BACKSLASH_ESCAPES)):
        try:
            tokens(sql, session)
        except NoTokens:
            continue

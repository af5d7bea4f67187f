"""Cookies: only what the token has signed is a session, until it ends."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from cdcbus.ops.web.access.sessions import SESSION_SECONDS, new_session, read_cookie
from cdcbus.ops.web.auth import NAME

TOKEN = "0123456789abcdef-token"


@given(st.text(max_size=80))
def test_no_made_up_cookie_is_a_session(text: str) -> None:
    assert read_cookie(TOKEN, text) is None


@given(st.from_regex(NAME, fullmatch=True), st.integers(0, 200), st.characters(codec="ascii"))
def test_a_changed_cookie_is_no_session(name: str, place: int, letter: str) -> None:
    session = new_session(name, time.time())
    good = session.cookie(TOKEN)
    assert read_cookie(TOKEN, good) == session
    changed = good[: place % len(good)] + letter + good[place % len(good) + 1 :]
    assert read_cookie(TOKEN, changed) == (session if changed == good else None)


def test_another_token_and_the_end_of_its_time_end_a_session() -> None:
    good = new_session("ada", time.time()).cookie(TOKEN)
    assert read_cookie(TOKEN + "2", good) is None
    over = new_session("ada", time.time() - SESSION_SECONDS).cookie(TOKEN)
    assert read_cookie(TOKEN, over) is None

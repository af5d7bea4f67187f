"""Users of a source with few rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from pymysql.cursors import Cursor
from pymysql.err import OperationalError

PASSWORD: Final = "cdc-pass"


@contextmanager
def user_with(cursor: Cursor, name: str, *grants: str) -> Iterator[None]:
    """Creates a user with PASSWORD and these grants, such as `SELECT ON shop.*`, and drops it at
    the end. Skips the test where its own user may not grant them."""
    cursor.execute(f"CREATE USER '{name}'@'%' IDENTIFIED BY '{PASSWORD}'")
    try:
        try:
            for grant in grants:
                cursor.execute(f"GRANT {grant} TO '{name}'@'%'")
        except OperationalError as error:
            pytest.skip(f"the user of the tests may not grant: {error}")
        yield
    finally:
        cursor.execute(f"DROP USER '{name}'@'%'")

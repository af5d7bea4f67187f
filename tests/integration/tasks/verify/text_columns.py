"""Text columns in MySQL and MariaDB."""

from __future__ import annotations

from typing import Any

from tests.support.changes.shop import Shop

NOPAD = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"


def exact(shop: Shop) -> str:
    """A collation of the source that tells all texts apart."""
    connection: Any = shop.cursor.connection
    is_mariadb = "mariadb" in connection.get_server_info().lower()
    return NOPAD if is_mariadb else "CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"

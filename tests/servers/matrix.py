"""The servers that the source tests run on (`make test-servers`), and where each is had from.
This is the one place that names them."""

from __future__ import annotations

from tests.servers.packages import Deb, Maven
from tests.servers.server import Kind

_DEBIAN = "https://deb.debian.org/debian"
_UBUNTU = "https://archive.ubuntu.com/ubuntu"

SERVERS = (
    Kind("MariaDB 10.2", Maven("10.2.11"), is_old=True),
    Kind("MariaDB 10.5", Deb(_DEBIAN, ("bullseye",), "mariadb-server-core-10.5"), is_old=True),
    Kind("MariaDB 10.11", Maven("10.11.5")),
    Kind("MariaDB 11.4", Maven("11.4.5")),
    Kind("MariaDB 11.8", Deb(_DEBIAN, ("trixie",), "mariadb-server-core")),
    Kind(
        "MySQL 8.0", Deb(_UBUNTU, ("noble", "noble-updates"), "mysql-server-core-8.0"), is_old=True
    ),
    Kind("MySQL 8.4", Deb(_UBUNTU, ("resolute",), "mysql-server-core"), is_old=True),
    Kind("MySQL 9.7", Deb(_DEBIAN, ("sid",), "mysql-server-core")),
)

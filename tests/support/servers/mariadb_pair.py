"""A MariaDB source and its replica, which can change roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cdcbus.ops.stack.addresses import Database
from tests.integration.producer.reading import connect
from tests.support.servers.private_mariadb import PrivateMariadb, private_mariadb
from tests.support.waiting import wait_until

REPLICA, REPLICA_PASSWORD = "anywhere", "anywhere-pass"


def access_for_replicas() -> list[str]:
    """A user that a replica brings along."""
    return [
        f"CREATE USER {REPLICA} IDENTIFIED BY '{REPLICA_PASSWORD}'",
        f"GRANT ALL ON *.* TO {REPLICA}",
    ]


def replicating(server: PrivateMariadb) -> list[str]:
    """A replica of the server."""
    at = server.database
    return [
        f"CHANGE MASTER TO MASTER_HOST='{at.host}', MASTER_PORT={at.port}, "
        f"MASTER_USER='{REPLICA}', "
        f"MASTER_PASSWORD='{REPLICA_PASSWORD}', MASTER_USE_GTID=slave_pos, MASTER_SSL=0, "
        "MASTER_SSL_VERIFY_SERVER_CERT=0",
        "START SLAVE",
    ]


class MariadbPair:
    """`primary` is written to, and `replica` follows it. Both know the same user."""

    def __init__(self, primary: PrivateMariadb, replica: PrivateMariadb) -> None:
        self.primary, self.replica = primary, replica
        primary.execute(*access_for_replicas())
        # The same places are not the same transactions.
        replica.execute("FLUSH BINARY LOGS", *replicating(primary))

    def wait_for_replica(self) -> None:
        """Returns when the replica has all that the primary has now."""
        wanted = _gtid(self.primary)
        wait_until(lambda: _gtid(self.replica) == wanted, "the replica to have everything")

    def promote(self) -> None:
        """The replica becomes the primary. The former one may be down, and follows nobody yet."""
        self.replica.execute("STOP SLAVE", "RESET SLAVE ALL")
        self.primary, self.replica = self.replica, self.primary

    def follow(self) -> None:
        """The former primary, which answers again, follows the new one."""
        self.replica.execute("SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos")
        self.replica.execute(*replicating(self.primary))


@contextmanager
def mariadb_pair() -> Iterator[MariadbPair]:
    with (
        private_mariadb("--log-slave-updates") as first,
        private_mariadb("--server-id=2", "--log-slave-updates") as second,
    ):
        yield MariadbPair(first, second)


def login(server: PrivateMariadb) -> Database:
    """As the user that both know."""
    return replace(server.database, user=REPLICA, password=REPLICA_PASSWORD)


def _gtid(server: PrivateMariadb) -> str:
    """The last transactions in its binlog."""
    with connect(server.database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        return str(cursor.fetchall()[0][0])

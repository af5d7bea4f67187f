"""The transaction that a reader of events is in: its GTID, its time, and how far it has come."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from cdcbus.producer.binlog import tagged_gtid
from cdcbus.producer.binlog.gtid import commit_us, mysql_gtid

# Flags of MariaDB's GTID events.
_STANDALONE: Final = 1
_PREPARED_XA: Final = 64


@dataclass(slots=True)
class Transaction:
    """Begins with all that is known before its first event. `server_uuid`: where it originates;
    `gtid_source`: the part of its GTID that says so, which is empty where it has none. `has_begun`:
    it ends at a later event. `is_first`: none of its row events has come. `is_given_out`: some of
    its rows are no longer in the batch. `is_elsewhere`: it is left out by its origin."""

    server_uuid: str
    gtid: str = ""
    gtid_source: str = ""
    commit_us: int = 0
    has_begun: bool = False
    is_xa: bool = False
    is_first: bool = True
    is_given_out: bool = False
    is_elsewhere: bool = False

    @property
    def is_open(self) -> bool:
        """Whether an event of it has come, and not its end."""
        return bool(self.has_begun or self.gtid or self.commit_us)

    def take_mysql_gtid(self, body: bytes) -> None:
        """Takes a GTID event of MySQL without tags."""
        self.gtid = mysql_gtid(body)
        self.server_uuid = self.gtid[:36]
        self.gtid_source = self.server_uuid.lower()
        self.commit_us = commit_us(body)

    def take_anonymous_gtid(self, body: bytes) -> None:
        """Takes what MySQL writes in the place of a GTID where it has none."""
        self.commit_us = commit_us(body)

    def take_tagged_gtid(self, body: bytes) -> None:
        """Takes a GTID event of MySQL with tags. Raises UnreadableEvent."""
        self.gtid, self.server_uuid, self.commit_us = tagged_gtid.parse(body)
        self.gtid_source = self.server_uuid.lower()

    def take_mariadb_gtid(self, server_id: int, body: bytes) -> None:
        """Takes a GTID event of MariaDB, which is also BEGIN."""
        sequence, domain, flags = struct.unpack_from("<QIB", body)
        self.gtid_source = f"{domain}-{server_id}"
        self.gtid = f"{self.gtid_source}-{sequence}"
        self.has_begun = not flags & _STANDALONE
        self.is_xa = bool(flags & _PREPARED_XA)

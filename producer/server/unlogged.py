"""Rows that a source does not write to its binlog by its settings: it is read on, with no lag, and
without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pymysql

from cdcbus.plugins.errors import SourceRefused, SourceUnavailable
from cdcbus.producer.config import Elsewhere, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.table_filter import TableFilter

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

# The first by MySQL's name since 8.0.26.
_UPDATES: Final = ("log_replica_updates", "log_slave_updates")
_SETTINGS: Final = ("version", *_UPDATES, "read_only", "wsrep_on", "wsrep_provider")
SCHEMAS: Final = "SELECT schema_name FROM information_schema.schemata"
# Also shows the named connections, and is MariaDB's only.
_ALL_OF_MARIADB: Final = "SHOW ALL SLAVES STATUS"
_OF_MYSQL: Final = ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
_NO_PRIVILEGE: Final = 1227
_COPY: Final = "rows that were missed so far must be copied (cdcbus verify --repair, or a snapshot)"
# Usually left out on purpose, and no task's.
_SYSTEM: Final = {"mysql", "sys", "information_schema", "performance_schema"}


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that are missing from a binlog. `is_sure`: the task wants them; else it may. `may_pass`:
    by the server's role, which changes without a person at a failover."""

    subject: str
    found: str
    remedy: str
    is_sure: bool
    may_pass: bool = False

    def __str__(self) -> str:
        return f"{self.found}. {self.remedy}"


def find_gaps(connection: Connection, tables: TableFilter, elsewhere: Elsewhere) -> list[Gap]:
    """The rows that the task may want, and that the server does not log."""
    gaps: list[Gap] = []
    for status in servers.either(connection, *servers.STATUS):
        do, ignore = (_names(listed) for listed in status[2:4])
        if do or ignore:
            found = servers.query(connection, SCHEMAS)
            gaps += _of_schemas(do, ignore, tables, {str(name).lower() for (name,) in found})
    settings = servers.global_variables(connection, _SETTINGS)
    return gaps + list(_of_replica(connection, settings, elsewhere))


def refuse_sure(gaps: list[Gap], config: SourceConfig) -> None:
    """Raises SourceRefused for rows that the task wants, SourceUnavailable while that may pass."""
    if sure := [gap for gap in gaps if gap.is_sure]:
        host, port = config.addresses[0]
        kind = SourceUnavailable if all(gap.may_pass for gap in sure) else SourceRefused
        raise kind(
            f"source {host}:{port} cannot be read completely: {'; '.join(g.found for g in sure)}. "
            f"{' '.join(gap.remedy for gap in sure)}"
        )


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]


def _of_schemas(
    do: list[str], ignore: list[str], tables: TableFilter, there: set[str]
) -> Iterator[Gap]:
    """Where binlog-do-db is set, the server does not look at binlog-ignore-db. `there`: the schemas
    that the user sees."""
    named, is_open = tables.named_schemas()
    # One of the filter's may have been dropped, or be another server's.
    is_open, named = is_open or bool(named - there), named & there
    if do:
        subject, logged = "binlog-do-db", {schema.lower() for schema in do}
        sure, others = sorted(named - logged), is_open
        open_ones = f"other schemas than {', '.join(do)}"
    else:
        subject = "binlog-ignore-db"
        sure = [schema for schema in ignore if schema.lower() in named]
        rest = [
            schema
            for schema in ignore
            if schema.lower() not in named | _SYSTEM and tables.may_accept_any(schema)
        ]
        others, open_ones = bool(rest), f"schema {', '.join(rest)}"
    unlogged = "as its binlog has no rows of"
    if sure:
        yield Gap(
            subject,
            f"{subject} leaves out schema {', '.join(sure)}, which the task's filter names",
            f"Remove {subject} from the server's [mysqld] section, or the schema from the task's "
            f"filter; {_COPY}.",
            is_sure=True,
        )
    if others:
        yield Gap(
            subject,
            f"{subject} is set, {unlogged} {open_ones}, and the task's filter would let them in",
            f"Nothing to do if the task is not to have them; else remove {subject} from the "
            "server's [mysqld] section.",
            is_sure=False,
        )


def _of_replica(
    connection: Connection, settings: Mapping[str, str], elsewhere: Elsewhere
) -> Iterator[Gap]:
    subject = next((name for name in _UPDATES if name in settings), "")
    if settings.get(subject, "ON").upper() != "OFF":
        return
    remedy = f"Set {subject}=ON in the server's [mysqld] section, or read another server"
    if _is_in_cluster(settings):
        what, lacks = "a node of a Galera cluster", "that others write"
    else:
        replicates = _replicates(connection, "mariadb" in settings["version"].lower())
        if replicates is None:
            yield Gap(
                subject,
                f"{subject} is OFF, and the user may not ask whether the server is a replica: what "
                "it replicates is not in its binlog",
                "Nothing to do if it is none; else set that to ON in the server's [mysqld] "
                "section. GRANT REPLICA MONITOR ON *.* TO that user, so that it can be checked.",
                is_sure=False,
            )
        if not replicates:
            return
        what, lacks = "a replica", "that it replicates"
        remedy += ", or, if it is a replica no longer, run RESET REPLICA ALL (RESET SLAVE ALL)"
    is_two_way = bool(elsewhere.server_ids or elsewhere.gtid_sources or elsewhere.marks)
    # One that is written to may replicate nothing: of two that replicate each other, the one in
    # use; or a former replica.
    is_sure = settings.get("read_only", "OFF").upper() != "OFF" and not is_two_way
    if not is_sure:
        remedy = f"Nothing to do if the task is to have none of them; else: {remedy}"
    else:
        remedy += (
            "; if the task is to have none of these rows, name the servers that write them in "
            "consumer.source.excludeServerIds"
        )
    yield Gap(
        subject,
        f"{subject} is OFF, and the server is {what}: the rows {lacks} are not in its binlog",
        f"{remedy}. Then {_COPY}.",
        is_sure,
        may_pass=True,
    )


def _is_in_cluster(settings: Mapping[str, str]) -> bool:
    """Percona's servers have wsrep_on also where they are in none."""
    has_provider = settings.get("wsrep_provider", "none").lower() not in ("", "none")
    return has_provider and settings.get("wsrep_on", "").upper() == "ON"


def _replicates(connection: Connection, is_mariadb: bool) -> bool | None:
    """Whether the server is a replica, also one that stands still; None: not known."""
    try:
        if not is_mariadb:
            return bool(servers.either(connection, *_OF_MYSQL))
        return bool(servers.query(connection, _ALL_OF_MARIADB))
    except pymysql.err.OperationalError as refusal:
        if refusal.args[0] != _NO_PRIVILEGE:
            raise
    if not is_mariadb:
        return None
    # MariaDB wants a privilege for it that the task does not need.
    running = servers.query(connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    if any(int(number) for _, number in running):
        return True
    has_replicated = servers.query(connection, "SELECT @@GLOBAL.gtid_slave_pos")[0][0]
    return None if has_replicated else False

"""What a source does not log: refused where the task wants it, else told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pymysql
import pytest

from cdcbus.plugins.errors import SourceRefused, SourceUnavailable
from cdcbus.producer.config import Elsewhere, FilterConfig, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.unlogged import SCHEMAS, Gap, find_gaps, refuse_sure
from cdcbus.producer.table_filter import TableFilter

Rows = Sequence[Sequence[object]]
MARIADB, MYSQL = "11.4.5-MariaDB-log", "8.0.46"
ALL, REPLICA, SLAVE = "SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"
NEW_END, OLD_END = servers.STATUS
RUNNING = "SHOW GLOBAL STATUS LIKE 'Slaves_running'"
REPLICATED = "SELECT @@GLOBAL.gtid_slave_pos"
UNKNOWN = pymysql.err.ProgrammingError(1064, "You have an error in your SQL syntax")
FORBIDDEN = pymysql.err.OperationalError(1227, "Access denied; you need REPLICA MONITOR")
SHOP = FilterConfig((r"shop\..*",))
Find = Callable[..., list[Gap]]


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Find:
    """What is found at a server with these settings and answers."""

    def find(
        tables: FilterConfig = SHOP,
        *,
        do: str = "",
        ignore: str = "",
        settings: dict[str, str] | None = None,
        answers: dict[str, Rows | Exception] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> list[Gap]:
        known: dict[str, Rows | Exception] = {
            NEW_END: UNKNOWN,
            OLD_END: [("bin.1", 4, do, ignore)],
            SCHEMAS: [("Shop",), ("crm",), ("ops",), ("mysql",)],
            **(answers or {}),
        }

        def query(_: object, sql: str) -> Rows:
            answer = known[sql]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(servers, "query", query)
        monkeypatch.setattr(
            servers, "global_variables", lambda *_: {"version": MARIADB, **(settings or {})}
        )
        return find_gaps(cast(Any, None), TableFilter(tables), elsewhere or Elsewhere())

    return find


def outcomes(gaps: list[Gap]) -> list[tuple[str, bool]]:
    return [(gap.subject, gap.is_sure) for gap in gaps]


OPEN = FilterConfig((r".*\..*",))
DO, IGNORE, OFF = "binlog-do-db", "binlog-ignore-db", "log_slave_updates"


@pytest.mark.parametrize(
    ("tables", "do", "ignore", "expected"),
    [
        (SHOP, "", "", []),
        (SHOP, "", "crm,mysql", []),
        (SHOP, "", "crm,shop", [(IGNORE, True)]),
        (FilterConfig(includes=frozenset({"SHOP.A"})), "", "shop", [(IGNORE, True)]),
        (FilterConfig(include_patterns=(r"shop\..*",)), "", "shop", [(IGNORE, True)]),
        (OPEN, "", "mysql", []),
        (OPEN, "", "shop", [(IGNORE, False)]),
        (FilterConfig((r"sho.*\..*",)), "", "shop", [(IGNORE, False)]),
        (FilterConfig((r"sho.*\..*",)), "", "crm", []),
        (FilterConfig(black_regexes=(r"crm\..*",)), "", "crm", []),
        (FilterConfig((r"(shop|archive)\..*",)), "shop", "", [(DO, False)]),  # dropped long ago
        (FilterConfig((r"archive\..*",)), "", "archive", [(IGNORE, False)]),
        (SHOP, "Shop", "", []),
        (SHOP, "Shop", "shop", []),  # which is not looked at then
        (SHOP, "crm,ops", "", [(DO, True)]),
        (FilterConfig((r"(shop|crm)\.a",)), "shop", "", [(DO, True)]),
        (FilterConfig((r"shop\.a|crm.b",)), "shop", "", [(DO, True)]),
        (FilterConfig((r"shop\.a", r"crm\..*"), frozenset({"SHOP.A"})), "shop", "", []),
        (FilterConfig((r"crm\..*",), frozenset({"SHOP.A"})), "ops", "", []),
        (OPEN, "shop", "", [(DO, False)]),
        (FilterConfig((), frozenset({"CRM.A"})), "shop", "", [(DO, True)]),
        (FilterConfig(OPEN.regexes, frozenset({"SHOP.A"})), "shop", "", []),
        (FilterConfig((r"crm\..*", r".*\.a")), "shop", "", [(DO, True), (DO, False)]),
    ],
)
def test_schemas_that_are_not_logged(
    find: Find, tables: FilterConfig, do: str, ignore: str, expected: list[tuple[str, bool]]
) -> None:
    assert outcomes(find(tables, do=do, ignore=ignore)) == expected


def test_the_newer_form_of_the_statement_is_asked_first(find: Find) -> None:
    """With a column for GTIDs."""
    status: Rows = [("bin.1", 4, "", "shop", "")]
    assert outcomes(find(answers={NEW_END: status})) == [(IGNORE, True)]


def test_what_is_refused_names_the_settings_and_what_to_do(find: Find) -> None:
    gaps = find(ignore="shop", settings={OFF: "OFF", **READ}, answers={ALL: [("",)]})
    with pytest.raises(SourceRefused) as refused:
        refuse_sure(gaps, SourceConfig((("db1", 3306),), "cdc"))
    for part in (
        "source db1:3306 cannot be read completely: binlog-ignore-db leaves out schema shop, which",
        "; log_slave_updates is OFF, and the server is a replica: the rows that it replicates are",
        "Remove binlog-ignore-db from the server's [mysqld] section",
        "Set log_slave_updates=ON in the server's [mysqld] section",
        "consumer.source.excludeServerIds",
    ):
        assert part in str(refused.value)


def test_a_role_may_pass(find: Find) -> None:
    """At a failover one server becomes a replica, and the other none."""
    gaps = find(settings={OFF: "OFF", **READ}, answers={ALL: [("",)]})
    with pytest.raises(SourceUnavailable, match="the server is a replica"):
        refuse_sure(gaps, SourceConfig((("db1", 3306),), "cdc"))


def test_what_the_task_may_not_want_is_not_refused(find: Find) -> None:
    gaps = find(OPEN, do="shop")
    assert gaps
    refuse_sure(gaps, SourceConfig((("db1", 3306),), "cdc"))


READ = {"read_only": "ON"}
CLUSTER = {"wsrep_on": "ON", "wsrep_provider": "/usr/lib/libgalera_smm.so"}


@pytest.mark.parametrize(
    ("settings", "answers", "expected"),
    [
        ({OFF: "ON"}, {}, []),
        ({}, {}, []),
        ({OFF: "OFF"}, {ALL: []}, []),
        ({OFF: "OFF", **READ}, {ALL: [("one",)]}, [(OFF, True)]),
        ({OFF: "OFF", "read_only": "OFF"}, {ALL: [("one",)]}, [(OFF, False)]),
        ({OFF: "OFF", **CLUSTER}, {}, [(OFF, False)]),
        ({OFF: "OFF", **CLUSTER, "wsrep_provider": "none"}, {ALL: []}, []),
        ({OFF: "OFF", **CLUSTER, "wsrep_on": "OFF"}, {ALL: []}, []),
        (
            {OFF: "OFF", "read_only": "NO_LOCK"},
            {ALL: FORBIDDEN, RUNNING: [("Slaves_running", "1")]},
            [(OFF, True)],
        ),
        (
            {OFF: "OFF"},
            {ALL: FORBIDDEN, RUNNING: [("Slaves_running", "0")], REPLICATED: [("",)]},
            [],
        ),
        ({OFF: "OFF"}, {ALL: FORBIDDEN, RUNNING: [], REPLICATED: [("0-1-7",)]}, [(OFF, False)]),
        ({OFF: "OFF", **READ, "version": MYSQL}, {REPLICA: [("",)]}, [(OFF, True)]),
        ({OFF: "OFF", "version": MYSQL}, {REPLICA: []}, []),
        ({OFF: "OFF", "version": MYSQL}, {REPLICA: FORBIDDEN}, [(OFF, False)]),
        (
            {OFF: "OFF", **READ, "version": "5.7.44"},
            {REPLICA: UNKNOWN, SLAVE: [("",)]},
            [(OFF, True)],
        ),
        (
            {"log_replica_updates": "OFF", OFF: "OFF", **READ, "version": MYSQL},
            {REPLICA: [("",)]},
            [("log_replica_updates", True)],
        ),
    ],
)
def test_a_replica_that_does_not_log_what_it_replicates(
    find: Find,
    settings: dict[str, str],
    answers: dict[str, Rows | Exception],
    expected: list[tuple[str, bool]],
) -> None:
    assert outcomes(find(settings=settings, answers=answers)) == expected


@pytest.mark.parametrize(
    "elsewhere",
    [
        Elsewhere(server_ids=frozenset({1})),
        Elsewhere(gtid_sources=frozenset({"0-1"})),
        Elsewhere(marks=frozenset({"a"})),
    ],
)
def test_a_task_that_leaves_out_rows_of_others_is_only_told(
    find: Find, elsewhere: Elsewhere
) -> None:
    settings = {OFF: "OFF", **READ}
    (gap,) = find(settings=settings, answers={ALL: [("",)]}, elsewhere=elsewhere)
    assert not gap.is_sure
    assert "Nothing to do if the task is to have none of them" in str(gap)


def test_another_error_than_a_missing_right_is_not_taken_for_one(find: Find) -> None:
    lost = pymysql.err.OperationalError(2013, "Lost connection")
    with pytest.raises(pymysql.err.OperationalError):
        find(settings={OFF: "OFF"}, answers={ALL: lost})

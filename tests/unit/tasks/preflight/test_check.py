"""What findings of the servers mean, without the servers."""

from dataclasses import replace
from typing import Any, cast

import pytest

from cdcbus.plugins.contracts import CascadingKey, OffsetTable, TargetColumn, TargetTable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import TopicShape
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.server.unlogged import Gap
from cdcbus.tasks.preflight.fetch import bytes_behind, describe_behind, describe_topic
from cdcbus.tasks.preflight.load import describe_offset_table, describe_table
from cdcbus.tasks.preflight.privileges import describe_grants
from cdcbus.tasks.preflight.result import CheckResult, Outcome
from cdcbus.tasks.preflight.server import describe_logged, describe_settings
from cdcbus.tasks.preflight.source_tables import describe_filter, describe_partition_key

SOURCE = SourceConfig((("db1", 3306),), "cdc")
SOUND = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "binlog_expire_logs_seconds": "2592000",
}


def odd(results: list[CheckResult]) -> list[tuple[str, str]]:
    return [(seen.outcome, seen.subject) for seen in results if seen.outcome != "ok"]


def test_sound_settings_are_all_ok() -> None:
    assert odd(list(describe_settings(SOUND, SOURCE))) == []


def test_partial_row_images_are_no_error_where_the_task_takes_them() -> None:
    settings = {**SOUND, "binlog_row_image": "MINIMAL"}
    assert odd(list(describe_settings(settings, replace(SOURCE, takes_partial=True)))) == [
        ("warning", "binlog_row_image")
    ]


@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("log_bin", "OFF", "error"),
        ("binlog_format", "MIXED", "error"),
        ("binlog_row_image", "MINIMAL", "error"),
        ("binlog_row_metadata", "MINIMAL", "warning"),
    ],
)
def test_each_setting_is_told_with_its_remedy(name: str, value: str, outcome: str) -> None:
    (seen,) = (
        seen for seen in describe_settings({**SOUND, name: value}, SOURCE) if seen.outcome != "ok"
    )
    assert (seen.outcome, seen.subject) == (outcome, name)
    assert value in seen.found
    assert name in seen.remedy


def test_less_than_a_day_of_binlogs_is_a_warning() -> None:
    assert odd(
        list(describe_settings({**SOUND, "binlog_expire_logs_seconds": "86399"}, SOURCE))
    ) == [("warning", "binlog retention")]
    assert (
        odd(list(describe_settings({**SOUND, "binlog_expire_logs_seconds": "86400"}, SOURCE))) == []
    )


SLAVE, CLIENT, SELECT = "grant REPLICATION SLAVE", "grant REPLICATION CLIENT", "grant SELECT"


@pytest.mark.parametrize(
    ("lines", "has_full_metadata", "wanted"),
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION"], False, []),
        (["GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%`"], True, []),
        (["GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `a`@`%`"], True, []),
        (
            ["GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%`"],
            False,
            [("error", SELECT)],
        ),
        (["GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%`"], False, []),
        (
            [
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO a",
                "GRANT SELECT (`id`, `n`), INSERT ON `my b`.`c` TO `a`@`%`",
            ],
            False,
            [("warning", "grant SELECT (my b.c)")],
        ),
        (
            [
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO a",
                "GRANT SELECT ON `my\\_b`.* TO a",
                "GRANT SELECT (`id`, `n`) ON `my_b`.`c` TO `a`@`%`",
            ],
            True,
            [],
        ),
        (["GRANT USAGE ON *.* TO `a`@`%`"], True, [("error", SLAVE), ("error", CLIENT)]),
        (
            ["GRANT REPLICATION SLAVE ON *.* TO `a`@`%`", "GRANT `reader`@`%` TO `a`@`%`"],
            True,
            [("warning", CLIENT)],
        ),
        (
            ["GRANT ALL PRIVILEGES ON `b`.* TO `a`@`%`"],
            False,
            [("error", SLAVE), ("error", CLIENT)],
        ),
    ],
)
def test_grants(lines: list[str], has_full_metadata: bool, wanted: list[tuple[str, str]]) -> None:
    assert odd(list(describe_grants(lines, has_full_metadata))) == wanted


def task(**filters: frozenset[str]) -> FetchTask:
    return FetchTask(
        "1",
        "s",
        SourceConfig((), "u"),
        FilterConfig(**filters),  # type: ignore[arg-type]
        PublishConfig("", "t", "canalRow"),
    )


A, B = TableId("s", "a"), TableId("s", "b")


def test_a_filter_that_lets_nothing_in_is_a_warning() -> None:
    (seen,) = describe_filter(task(), [], set())
    assert seen.outcome == "warning"
    assert "GRANT SELECT" in seen.remedy


def test_tables_without_key_and_names_that_are_not_there_are_told() -> None:
    found = [
        seen.found
        for seen in describe_filter(task(includes=frozenset({"S.A", "S.C"})), [A, B], {A})
    ]
    assert found[0] == "2 read: s.a, s.b"
    assert found[1].endswith("S.C")
    assert found[2].startswith("without primary key: s.b;")


def test_many_tables_are_cut_short() -> None:
    tables = [TableId("s", f"t{number:02}") for number in range(12)]
    (seen,) = describe_filter(task(), tables, set(tables))
    assert seen.found.endswith("s.t09 and 2 more")


@pytest.mark.parametrize(("columns", "outcome"), [(["id", "order_id"], "ok"), (["id"], "error")])
def test_partition_key_columns_match_in_any_case(columns: list[str], outcome: str) -> None:
    config = PublishConfig("", "t", "canalRow", {"S.A": ("ORDER_ID",)})
    assert describe_partition_key("S.A", A, columns, config).outcome == outcome
    assert describe_partition_key("S.A", None, [], config).outcome == "warning"


def test_a_partition_key_outside_of_the_primary_key_is_a_warning() -> None:
    config = PublishConfig("", "t", "canalRow", {"S.A": ("ORDER_ID",)})
    seen = describe_partition_key("S.A", A, ["id", "order_id"], config, ["id"])
    assert (seen.outcome, "these are not in the primary key: order_id" in seen.found) == (
        "warning",
        True,
    )
    assert (
        describe_partition_key("S.A", A, ["id", "order_id"], config, ["id", "order_id"]).outcome
        == "ok"
    )
    assert describe_partition_key("S.A", A, ["id", "order_id"], config, []).outcome == "ok"


def test_bytes_behind_count_from_the_position_to_the_end() -> None:
    files = [("b.1", 100), ("b.2", 50), ("b.3", 7)]
    assert bytes_behind(BinlogPosition("b.2", 4), files) == 53
    assert bytes_behind(BinlogPosition("b.3", 7), files) == 0
    assert describe_behind(BinlogPosition("b.3", 7), files) == "0 bytes"
    assert describe_behind(BinlogPosition("b.2", 4), files) == "53 bytes and 1 file"


@pytest.mark.parametrize(
    ("replicas", "brokers", "outcome"), [(1, 1, "ok"), (1, 3, "warning"), (2, 3, "ok")]
)
def test_one_replica_is_odd_only_where_there_could_be_more(
    replicas: int, brokers: int, outcome: str
) -> None:
    assert describe_topic("t", TopicShape(4, replicas, brokers)).outcome == outcome


def test_keys_of_a_target_table() -> None:
    columns = {"id": TargetColumn("id", "int")}
    assert odd(describe_table("S.A", TargetTable(A, columns, ("id",)))) == []
    assert odd(describe_table("S.A", TargetTable(A, columns, ()))) == [
        ("warning", "target table s.a")
    ]
    [seen] = describe_table("S.A", TargetTable(A, columns, ("id",), (("mail",), ())))
    assert seen.outcome == "ok"
    assert "(mail), (an expression" in seen.found


def test_foreign_keys_with_actions_are_a_warning_that_names_some() -> None:
    columns = {"id": TargetColumn("id", "integer")}
    keys = [CascadingKey(TableId("s", f"c{number}"), A, "CASCADE", "") for number in range(5)]
    found = describe_table("S.A", TargetTable(A, columns, ("id",), cascades=tuple(keys)))
    assert odd(found) == [("warning", "target table s.a")]
    assert "s.c2 to s.a ON DELETE CASCADE, and 2 more" in found[-1].found
    assert "one partition" in found[-1].remedy


@pytest.mark.parametrize(
    ("table", "outcome"),
    [
        (OffsetTable(True, True), "ok"),
        (OffsetTable(False, True), "ok"),
        (OffsetTable(False, False), "warning"),
        (OffsetTable(False, None), "warning"),
    ],
)
def test_whether_the_offset_table_can_be_had(table: OffsetTable, outcome: str) -> None:
    assert describe_offset_table(table).outcome == outcome


def test_rows_that_the_source_does_not_log_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = [Gap("a", "left out", "Remove it.", is_sure=sure) for sure in (True, False)]
    monkeypatch.setattr("cdcbus.tasks.preflight.server.find_gaps", lambda *_: gaps)
    task = FetchTask("t", "shop", SOURCE, FilterConfig(), PublishConfig("", "t", "canalRow"))
    assert list(describe_logged(task, cast(Any, None))) == [
        CheckResult(Outcome.ERROR, "a", "left out", "Remove it."),
        CheckResult(Outcome.WARNING, "a", "left out", "Remove it."),
    ]
    gaps.clear()
    assert odd(list(describe_logged(task, cast(Any, None)))) == []

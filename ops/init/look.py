"""Checks of source, Kafka, ZooKeeper and target before anything is made. They change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from sqlalchemy import literal, select, table

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.errors import BusError, BusUnavailable, ConfigError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals
from cdcbus.plugins.kafka.client.options import Client, client_options
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.source.event_tables import is_own_table
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.source_of import Feed, source_connection
from cdcbus.tasks.local.memory import MemoryPositions
from cdcbus.tasks.preflight.fetch import check_source, check_written_topics
from cdcbus.tasks.preflight.load import check_target
from cdcbus.tasks.preflight.result import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    CheckResult,
    Outcome,
    has_failed,
    warning,
)
from cdcbus.tasks.preflight.source_tables import FILTER
from cdcbus.tasks.schema.compare import Difference
from cdcbus.tasks.schema.plan import SchemaPlan, make_plan, refuse_impossible, target_database
from cdcbus.tasks.zookeeper.position.znodes import stored_positions

REPLICAS = 3
CHECK = click.style("✓", "green")
SIGNS = {
    Outcome.OK: CHECK,
    Outcome.WARNING: click.style("!", "yellow"),
    Outcome.ERROR: click.style("✗", "red"),
}


@dataclass(frozen=True, slots=True)
class Tasks:
    """Both tasks as they are read from their texts, and their files."""

    fetch: FetchTask
    load: LoadTask
    fetch_file: Path
    load_file: Path

    @property
    def feeds(self) -> list[Feed]:
        topics = frozenset(self.load.source.topics)
        return [Feed(self.fetch, self.load, str(self.fetch_file), topics)]


def read_tasks(
    texts: Mapping[Path, str], bus: BusSettings, passwords: Mapping[str, str] | None = None
) -> Tasks:
    """The tasks of two texts, the fetch task's first. `passwords`: by variable, besides those of
    the environment. Raises ConfigError unless the tasks belong together."""
    fetch_file, load_file = texts
    filling = {**bus.filling, **(passwords or {})}
    read = []
    for file, text in texts.items():
        inspection = inspect_text(text, filling, Severity.ERROR, bus.source_lookup(file))
        read.append(inspection.ready(str(file)).task)
    fetch, load = read
    if not isinstance(fetch, FetchTask) or not isinstance(load, LoadTask):
        raise ConfigError(
            f"{fetch_file} and {load_file} are not a task from a binlog to Kafka and one from "
            "Kafka to a database: name another copy with --name"
        )
    return Tasks(fetch, load, fetch_file, load_file)


def tables_at(fetch: FetchTask) -> dict[str, list[str]]:
    """The tables by schema that the user sees at the source; possibly none. Raises CdcError where
    the user cannot log in."""
    source = replace(fetch.source, connect_timeout_seconds=CONNECT_SECONDS)
    found: dict[str, list[str]] = {}
    with source_connection(source, ANSWER_SECONDS) as connection:
        for each in sorted(SchemaReader(connection).tables()):
            # A source that is itself a target holds tables of its tasks, which are not copied.
            if not is_own_table(each):
                found.setdefault(each.schema, []).append(each.table)
    return found


def replicas_at(servers: str) -> int:
    """How many replicas a topic should have: three, or as many as there are brokers. Raises
    BusUnavailable."""
    refusals = Refusals()
    own: dict[str, Any] = {"bootstrap.servers": servers, "error_cb": refusals}
    try:
        options = client_options({}, Client.LOOK_UP, lambda *_: None)
        client = AdminClient({**options, **own}, logger=LIBRARY_LOG)
    except KafkaException as error:
        raise BusUnavailable(f"Kafka brokers {servers}: {error.args[0].str()}") from None
    try:
        return min(REPLICAS, len(client.list_topics(timeout=CONNECT_SECONDS).brokers))
    except KafkaException as error:
        raise BusUnavailable(
            f"{refusals.unanswered(client, servers, error)}; check that it runs, and the address "
            "(--kafka)"
        ) from None


def check_tasks(tasks: Tasks) -> list[CheckResult]:
    """All results of the source and of the topic, except what is normal before a first start: there
    is no position."""
    short = replace(
        tasks.fetch, source=replace(tasks.fetch.source, connect_timeout_seconds=CONNECT_SECONDS)
    )
    return check_source(short, MemoryPositions()) + check_written_topics(tasks.fetch.publish)


def print_results(results: Iterable[CheckResult]) -> None:
    """Prints what is wrong, with its remedy, and which tables are read. What is right needs no
    lines."""
    for each in results:
        if each.outcome is Outcome.OK and each.subject != FILTER:
            continue
        click.echo(f"{SIGNS[each.outcome]} {each.subject}: {each.found}", err=True)
        if each.remedy:
            click.echo(f"  → {each.remedy}", err=True)


def refuse_failed(results: Sequence[CheckResult]) -> None:
    """Raises ConfigError with the number of errors, which have been printed."""
    if has_failed(results):
        count = sum(each.outcome is Outcome.ERROR for each in results)
        what = "this is"
        if count > 1:
            what = f"these {count} are"
        raise ConfigError(f"nothing was made: {what} to be corrected first, see the lines with →")


def plan_tables(tasks: Tasks) -> tuple[SchemaPlan, list[CheckResult]]:
    """The target's tables as they should be, and what is wrong with the existing ones. Raises
    CdcError where the target does not answer, or a table cannot be created."""
    # A first copy is faster without indexes; `cdcbus schema apply --indexes` adds them later.
    plan = make_plan(tasks.load, tasks.feeds, with_indexes=False, with_schemas=True)
    refuse_impossible(plan)
    seen: list[CheckResult] = []
    for each in plan.tables:
        subject = f"target table {each.definition.id}"
        for difference in each.differences:
            seen.append(_difference(subject, difference))
        if not each.is_there:
            for note in each.definition.notes:
                seen.append(warning(subject, note, ""))
    # A missing schema would fail this check, although the plan creates it.
    if not plan.missing_schemas:
        seen += check_target(tasks.load)[0]
    return plan, seen


def _difference(subject: str, difference: Difference) -> CheckResult:
    found = f"exists, and {difference.what}"
    if difference.column:
        found = f"exists, and column {difference.column} {difference.what}"
    outcome = Outcome.WARNING
    if difference.is_lost:
        outcome = Outcome.ERROR
    remedy = difference.remedy
    if remedy:
        remedy += ";"
    return CheckResult(outcome, subject, found, remedy)


def foreign_rows(tasks: Tasks, plan: SchemaPlan, client: KazooClient) -> list[str]:
    """What the copy would write into although it is not its own: target tables with rows, a topic
    with records. Empty where the tasks have run before."""
    found = []
    # Neither a position nor an offset at the target: the task has not run yet.
    if not stored_positions(client, tasks.load.task_id) and not _has_applied(tasks, plan):
        there = [each.definition.id for each in plan.tables if each.is_there]
        for table in _with_rows(tasks, there):
            found.append(f"target table {table} has rows already")
    if not stored_positions(client, tasks.fetch.task_id):
        for topic in _with_records(tasks):
            found.append(f"topic {topic} has records already")
    return found


def _has_applied(tasks: Tasks, plan: SchemaPlan) -> bool:
    return not plan.missing_schemas and bool(check_target(tasks.load)[1].applied)


def _with_rows(tasks: Tasks, tables: Sequence[TableId]) -> list[TableId]:
    if not tables:
        return []
    found = []
    with (
        target_database(tasks.load) as database,
        database.reported("rows of tables"),
        database.engine.connect() as connection,
    ):
        for each in tables:
            # One row is enough to know; a count would read the whole table.
            rows = select(literal(1)).select_from(table(each.table, schema=each.schema or None))
            if connection.execute(rows.limit(1)).first() is not None:
                found.append(each)
    return found


def _with_records(tasks: Tasks) -> list[str]:
    found = []
    for topic in tasks.load.source.topics:
        with TopicLogs(tasks.load, ANSWER_SECONDS) as logs:
            try:
                partitions = [each for each in logs.all_partitions() if each.topic == topic]
            except BusError as error:
                # Subclasses say that Kafka does not answer or refuses.
                if type(error) is not BusError:
                    raise
                continue  # the topic does not exist yet
            for partition in partitions:
                low, high = logs.bounds(partition)
                if low < high:
                    found.append(topic)
                    break
    return found


def try_target(load: LoadTask) -> None:
    """Raises CdcError where the target does not let the task's user in. The database that MySQL's
    address names need not exist yet."""
    with target_database(load) as database, database.reported("login"):
        database.engine.connect().close()

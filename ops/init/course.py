"""The course of `cdcbus init`: answers, checks, files, topic, tables, tasks, comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import click
from kazoo.client import KazooClient

from cdcbus.ops.cli.interrupts import is_interrupted
from cdcbus.ops.cli.new_file import write_new
from cdcbus.ops.cli.output import print_json
from cdcbus.ops.cli.verify.lines import lines_of
from cdcbus.ops.init.answers import Wishes, answered, draft_tasks
from cdcbus.ops.init.closing import commands, print_how_to_go_on
from cdcbus.ops.init.look import (
    CHECK,
    Tasks,
    check_tasks,
    foreign_rows,
    plan_tables,
    print_results,
    read_tasks,
    refuse_failed,
)
from cdcbus.ops.init.questions import Questions
from cdcbus.ops.init.running import running, stay, until_equal
from cdcbus.ops.init.task_files import (
    Copy,
    Files,
    changed_keys,
    found_files,
    in_environment,
    keep_passwords,
    kept_passwords,
    places_of,
    texts,
)
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.schema.plan import SchemaPlan, apply_plan
from cdcbus.tasks.verify.report import TableReport, exit_code

CREATED = re.compile(
    r"create (?P<what>table|schema|database)\s+(?:if not exists\s+)?(?P<name>.*?)\s*(?:\(|$)",
    re.IGNORECASE,
)


def take_course(wishes: Wishes, bus: BusSettings) -> int:
    """Runs the command and returns its exit code. Raises CdcError at the first step that fails.
    What was made before stays, and the next call continues after it."""
    asked = Questions(not wishes.yes)
    # First an earlier call: its files answer all questions.
    files = _earlier(wishes, asked)
    if files is not None:
        with _interruptible(files), bus_client(bus) as client:
            tasks = _tasks_of(files, bus)
            plan = _looked_at(wishes, asked, tasks, client)
            return _run(wishes, asked, tasks, plan, bus, client)
    # A new copy: answers and checks come first, and change nothing.
    with _nothing_made():
        copy = answered(wishes, asked, bus)
        bus = _with_zookeeper(wishes, asked, bus)
    with bus_client(bus) as client:
        with _nothing_made():
            files = Files(wishes.folder, copy.name, copy.target.kind)
            plan = _looked_at(wishes, asked, draft_tasks(copy, bus, files), client)
            _ask_to_begin(asked, files, plan)
        # From here on something is made, which the next call finds.
        with _interruptible(files):
            tasks = _write(wishes, asked, copy, files, bus)
            return _run(wishes, asked, tasks, plan, bus, client)


def _earlier(wishes: Wishes, asked: Questions) -> Files | None:
    """The files of an earlier call to continue, if no servers are given."""
    if wishes.source is not None or wishes.target is not None:
        return None
    found = found_files(wishes.folder, wishes.name)
    if not found:
        return None
    if len(found) > 1:
        if not wishes.yes:
            return None
        names = ", ".join(dict.fromkeys(each.name for each in found))
        raise click.UsageError(f"there are several copies here ({names}): choose with --name")
    files = found[0]
    names = f"{click.format_filename(files.fetch)} and {click.format_filename(files.load)}"
    question = f"{names} are here: continue with them?"
    if asked.is_asking and not asked.confirm(question, default=True):
        return None
    click.echo(f"{CHECK} {names} exist: continuing with them", err=True)
    return files


def _with_zookeeper(wishes: Wishes, asked: Questions, bus: BusSettings) -> BusSettings:
    if not (asked.is_asking and wishes.asks_zookeeper):
        return bus

    def once() -> BusSettings:
        address = asked.text("ZooKeeper, HOST:PORT[,...][/CHROOT]", bus.zookeeper)
        chosen = read_bus_settings({"zookeeper": address}, bus.file)
        with bus_client(chosen):
            click.echo(f"{CHECK} ZooKeeper {address} answers", err=True)
        return chosen

    return asked.until_good(once)


def _tasks_of(files: Files, bus: BusSettings) -> Tasks:
    texts = {file: file.read_text(encoding="utf-8") for file in (files.fetch, files.load)}
    return read_tasks(texts, bus)


def _looked_at(wishes: Wishes, asked: Questions, tasks: Tasks, client: KazooClient) -> SchemaPlan:
    """Checks everything, and returns the tables to create. Raises ConfigError for what would fail
    or lose rows later."""
    results = check_tasks(tasks)
    print_results(results)
    refuse_failed(results)
    plan, results = plan_tables(tasks)
    print_results(results)
    refuse_failed(results)
    if not wishes.existing:
        _ask_about_rows(asked, foreign_rows(tasks, plan, client))
    return plan


def _ask_about_rows(asked: Questions, found: Sequence[str]) -> None:
    """`found`: tables and topics with foreign rows that the copy would write into."""
    if not found:
        return
    sentence = "; ".join(found)
    if not asked.is_asking:
        raise ConfigError(
            f"{sentence}: these are not overwritten unasked; choose another --target-schema or "
            "--topic, or add --existing"
        )
    question = f"{sentence}. Copy into them anyway? For a key that both have, the source's row wins"
    if not asked.confirm(question, default=False):
        raise click.Abort


def _ask_to_begin(asked: Questions, files: Files, plan: SchemaPlan) -> None:
    missing = [str(each.definition.id) for each in plan.tables if not each.is_there]
    names = ""
    if missing:
        names = f": {', '.join(missing)}"
    click.echo(
        f"\nTo be created: {files.fetch} and {files.load}, the topic if it is missing, and "
        f"{len(missing)} of {len(plan.tables)} target tables{names}",
        err=True,
    )
    if asked.is_asking and not asked.confirm("Begin?", default=True):
        raise click.Abort


def _write(wishes: Wishes, asked: Questions, copy: Copy, files: Files, bus: BusSettings) -> Tasks:
    """Writes what is missing, and returns the tasks in the files."""
    places = places_of(copy, files)
    wishes.folder.mkdir(parents=True, exist_ok=True)
    # The passwords first, as the task files refer to them.
    _keep(wishes, asked, copy, files)
    for file, text in texts(copy, files, places).items():
        _put(wishes, asked, file, text)
    return _tasks_of(files, bus)


def _keep(wishes: Wishes, asked: Questions, copy: Copy, files: Files) -> None:
    """Stores the passwords that the environment does not have."""
    kept = kept_passwords(files)
    new = {}
    changed = {}
    for name, password in copy.passwords().items():
        if name in copy.variables or kept.get(name) == password:
            continue
        if name in kept:
            changed[name] = password
        else:
            new[name] = password
    if changed:
        question = f"{files.passwords} has another {' and '.join(changed)}"
        if _may_overwrite(wishes, asked, question):
            new |= changed
    if new:
        keep_passwords(files, new)
        click.echo(f"{CHECK} {files.passwords} is written, for its owner only", err=True)


def _put(wishes: Wishes, asked: Questions, file: Path, text: str) -> None:
    if file.exists():
        old = file.read_text(encoding="utf-8")
        if old == text:
            click.echo(f"{CHECK} {file} exists already", err=True)
            return
        keys = ", ".join(changed_keys(old, text)) or "remarks only"
        if not _may_overwrite(wishes, asked, f"{file} exists, and differs ({keys})"):
            click.echo(f"{CHECK} {file} stays as it is", err=True)
            return
    write_new(file, text, force=True)
    click.echo(f"{CHECK} {file} is written", err=True)


def _may_overwrite(wishes: Wishes, asked: Questions, what: str) -> bool:
    if wishes.force:
        return True
    if not asked.is_asking:
        raise ConfigError(
            f"{what}: it is not overwritten unasked; --force overwrites it, --name begins a copy "
            "beside it, and without --source and --target this command continues with it"
        )
    return asked.confirm(f"{what}. Overwrite it? No continues with it as it is", default=False)


@contextmanager
def _nothing_made() -> Iterator[None]:
    """At Ctrl-C, says that nothing was made."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        click.echo("\ninterrupted; nothing was made", err=True)
        raise


@contextmanager
def _interruptible(files: Files) -> Iterator[None]:
    """At Ctrl-C, says how to continue."""
    try:
        yield
    except BaseException as error:
        # Ctrl-C, or an error that a library has made of it.
        if not isinstance(error, click.Abort) and not is_interrupted(error):
            raise
        click.echo(
            f"\ninterrupted; what is made stays: cdcbus init --name {files.name} continues",
            err=True,
        )
        raise


def _make(tasks: Tasks, plan: SchemaPlan) -> None:
    """Creates the topic and the tables that are missing."""
    config = tasks.fetch.publish
    # Opening the publisher creates the topic, as a start of the task would.
    with KafkaPublisher(config, make_converter(config.converter), Event()):
        topic = ", ".join(tasks.load.source.topics)
    click.echo(f"{CHECK} topic {topic} exists", err=True)
    for sql in apply_plan(tasks.load, plan):
        made = CREATED.match(sql.splitlines()[0])
        if made:  # comments and indexes need no lines
            click.echo(f"{CHECK} {made['what'].lower()} {made['name']} is created", err=True)
    if not plan.statements:
        click.echo(f"{CHECK} all {len(plan.tables)} target tables exist", err=True)


def _run(
    wishes: Wishes,
    asked: Questions,
    tasks: Tasks,
    plan: SchemaPlan,
    bus: BusSettings,
    client: KazooClient,
) -> int:
    _make(tasks, plan)
    variables = _variables(tasks)
    reports: Sequence[TableReport] = ()
    if not wishes.no_run:
        reports = _copy(wishes, asked, tasks, plan, bus, client)
    # Also where something differs: programs read it from the reports.
    if wishes.as_json:
        print_json(_fields(tasks, bus, variables, reports))
    code = exit_code(list(reports))
    if code:
        raise_different(tasks, bus, variables)
    print_how_to_go_on(tasks, bus, variables)
    return code


def _copy(
    wishes: Wishes,
    asked: Questions,
    tasks: Tasks,
    plan: SchemaPlan,
    bus: BusSettings,
    client: KazooClient,
) -> Sequence[TableReport]:
    """Runs both tasks until source and target are equal, and longer if that is wanted."""
    sources = set[TableId]()
    for each in plan.tables:
        sources.update(each.definition.sources)
    with running(tasks, bus, client) as processes:
        reports = until_equal(tasks, processes, bus, client, len(sources), wishes.patience)
        if not wishes.as_json:
            for report in reports:
                click.echo("\n".join(lines_of(report)))
        is_equal = exit_code(list(reports)) == 0
        if is_equal and processes and _stays(wishes, asked):
            click.echo(
                "Both tasks keep running: change rows at the source, and look at the target. "
                "Ctrl-C ends them.",
                err=True,
            )
            try:
                stay(processes)
            except KeyboardInterrupt:
                # Ctrl-C is the way to end this, and no interruption.
                click.echo(err=True)
    return reports


def raise_different(tasks: Tasks, bus: BusSettings, variables: list[str]) -> None:
    raise CdcError(
        "source and target are not proven to be equal, see above; once the cause is fixed, run "
        f"this command again, or: {commands(tasks, bus, variables)[-1]}"
    )


def _stays(wishes: Wishes, asked: Questions) -> bool:
    if wishes.stays is not None:
        return wishes.stays
    return asked.is_asking and asked.confirm(
        "Equal. Let both tasks keep running here, until Ctrl-C?", default=True
    )


def _variables(tasks: Tasks) -> list[str]:
    """The variables that the tasks take from the environment."""
    text = tasks.fetch_file.read_text(encoding="utf-8")
    text += tasks.load_file.read_text(encoding="utf-8")
    found = []
    for name, placeholder in in_environment().items():
        if placeholder in text:
            found.append(name)
    return found


def _fields(
    tasks: Tasks, bus: BusSettings, variables: list[str], reports: Sequence[TableReport]
) -> dict[str, Any]:
    """The outcome for programs. `equal`: null where nothing was run."""
    is_equal = None
    if reports:
        is_equal = exit_code(list(reports)) == 0
    # Without the remarks behind them.
    lines = [line.partition("   #")[0] for line in commands(tasks, bus, variables)]
    return {
        "fetchTask": {"id": tasks.fetch.task_id, "file": str(tasks.fetch_file)},
        "consumerTask": {"id": tasks.load.task_id, "file": str(tasks.load_file)},
        "topics": list(tasks.load.source.topics),
        "equal": is_equal,
        "tables": [each.to_fields() for each in reports],
        "commands": lines,
    }

"""`cdcbus alarm list|test|silence`: list alarms and their notices, test the channels, silence
tasks."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.tasks.process_identity import operator

if TYPE_CHECKING:
    from cdcbus.ops.alarms.store import Sent, Silence, TaskAlarms
    from cdcbus.tasks.control.bus_settings import BusSettings

HEADING = ("task", "alarm", "since (UTC)", "sent", "accepted by", "what")


def _read_duration(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    """Seconds, written as 90s, 30m, 2h or 1d."""
    from cdcbus.ops.alarms.silence import duration_seconds

    try:
        return duration_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.group()
def alarm() -> None:
    """List and silence the alarms that nodes raise for tasks, and test their channels."""


@alarm.command("list")
@click.option(
    "--sent", is_flag=True, help="Also the last accepted notices, and the channel of each."
)
@json_option
@bus_options
def list_alarms(sent: bool, as_json: bool, bus: BusSettings) -> None:
    """List the alarms that are raised, who accepted the last notice of each, and which tasks are
    silenced."""
    from cdcbus.ops.alarms.store import AlarmNodes
    from cdcbus.tasks.zookeeper.connection import is_silence
    from cdcbus.tasks.zookeeper.tasks import TaskNodes

    with bus_client(bus) as client:
        nodes = AlarmNodes(client)
        known = []
        for task_id in TaskNodes(client).ids():
            try:
                alarms, _ = nodes.get(task_id)
                known.append((task_id, alarms, nodes.silence(task_id)))
            except PositionError as error:
                if is_silence(error):
                    raise
                click.secho(f"task {task_id}: {error}", fg="red", err=True)
    now = time.time()
    if as_json:
        found = []
        for task_id, alarms, silence in known:
            if alarms.raised or alarms.sent or silence.is_on(now):
                found.append(_as_fields(task_id, alarms, silence, now))
        print_json(found)
        return
    rows = []
    for task_id, alarms, _ in known:
        rows += _rows(task_id, alarms)
    if rows:
        print_table(HEADING, rows)
    else:
        click.echo(f"no alarm is raised at {bus.zookeeper}", err=True)
    for task_id, alarms, silence in known:
        if alarms.waiting:
            click.secho(
                f"task {task_id}: {len(alarms.waiting)} notices are not accepted by any channel "
                "yet; the log of its node says why",
                fg="red",
            )
        if silence.is_on(now):
            click.echo(f"task {task_id} is silent until {_utc(silence.until)} UTC, by {silence.by}")
        if sent:
            _print_sent(task_id, alarms.sent)


def _print_sent(task_id: str, sent: Sequence[Sent]) -> None:
    for each in sent:
        click.echo(
            f"{_utc(each.notice.at)} UTC, task {task_id}: {each.notice.rule} {each.notice.kind}, "
            f"accepted by {each.by}"
        )


def _rows(task_id: str, alarms: TaskAlarms) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for rule, each in alarms.raised.items():
        times = f"{each.times} times"
        by = alarms.reported_by(rule)
        rows.append((task_id, rule, _utc(each.since), times, by, each.sentence))
    return rows


def _as_fields(task_id: str, alarms: TaskAlarms, silence: Silence, now: float) -> dict[str, object]:
    raised = []
    for rule, each in alarms.raised.items():
        raised.append({"rule": rule, **asdict(each)})
    fields: dict[str, object] = {
        "task_id": task_id,
        "alarms": raised,
        "waiting": list(map(asdict, alarms.waiting)),
        "sent": list(map(asdict, alarms.sent)),
        "silent_until": None,
        "silent_by": "",
    }
    if silence.is_on(now):
        fields["silent_until"] = silence.until
        fields["silent_by"] = silence.by
    return fields


@alarm.command()
@json_option
@bus_options
def test(as_json: bool, bus: BusSettings) -> None:
    """Send a test notice through each channel in the settings, and show which accepted it. Exits 1
    when one did not."""
    from cdcbus.ops.alarms.added_channels import all_channels
    from cdcbus.ops.alarms.channels import NotAccepted
    from cdcbus.ops.alarms.grouping import Entry, message_of
    from cdcbus.ops.alarms.state import Kind, Notice
    from cdcbus.plugins.task_status import State

    channels = all_channels(bus.alarm)
    if not channels:
        raise ConfigError(
            "alarms go to the log only; set alarm.smtp.host, alarm.webhook.url, "
            "alarm.exec.command or alarm.channels in cdcbus.properties"
        )
    now = time.time()
    sentence = f"this is a test by {operator()}; nothing is wrong"
    notice = Notice(Kind.TEST, "test", sentence, now, now)
    message = message_of([Entry("test", notice, State.WORKING)], bus.node_id)
    answers = []
    for channel in channels:
        try:
            refused = channel.send(message)
            is_accepted = True
        except NotAccepted as error:
            # The other channels are tested as well.
            refused = str(error)
            is_accepted = False
        answers.append({"channel": channel.name, "is_accepted": is_accepted, "refused": refused})
        if not as_json:
            _print_answer(channel.name, is_accepted, refused)
    if as_json:
        print_json(answers)
    if not all(answer["is_accepted"] for answer in answers):
        sys.exit(1)


def _print_answer(channel: str, is_accepted: bool, refused: str) -> None:
    if is_accepted:
        but = ""
        if refused:
            but = f", but {refused}"
        click.echo(f"{channel}: accepted{but}")
    else:
        click.secho(f"{channel}: not accepted: {refused}", fg="red", err=True)


@alarm.command("silence")
@task_argument("task_ids", "ID...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All tasks that exist now.")
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    callback=_read_duration,
    default="1h",
    show_default=True,
    help="90s, 30m, 2h, 1d.",
)
@click.option("--off", "is_off", is_flag=True, help="End the silence: alarms are sent again.")
@json_option
@bus_options
def silence_tasks(
    task_ids: tuple[str, ...],
    is_all: bool,
    seconds: float,
    is_off: bool,
    as_json: bool,
    bus: BusSettings,
) -> None:
    """Send no alarms of tasks for a while. What is still wrong at its end is sent then."""
    from cdcbus.ops.alarms.silence import silence
    from cdcbus.tasks.control.named_task import unknown_task
    from cdcbus.tasks.zookeeper.tasks import TaskNodes

    # Exactly one of the two: no ids must not stand for all.
    if bool(task_ids) == is_all:
        raise click.UsageError("give ids of tasks, or --all")
    with bus_client(bus) as client:
        known = TaskNodes(client).ids()
        # All ids are checked before the first task is silenced.
        if unknown := set(task_ids) - set(known):
            raise unknown_task(min(unknown), known, bus.zookeeper)
        untils: dict[str, float | None] = {}
        for task_id in task_ids or known:
            if is_off:
                silence(client, task_id, 0, operator())
                untils[task_id] = None
            else:
                untils[task_id] = silence(client, task_id, seconds, operator()).until
    if as_json:
        fields = []
        for task_id, until in untils.items():
            fields.append({"task_id": task_id, "silent_until": until})
        print_json(fields)
        return
    for task_id, until in untils.items():
        state = "no longer silent"
        if until is not None:
            state = f"silent until {_utc(until)} UTC"
        click.echo(f"task {task_id} is {state}")


def _utc(epoch_seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(epoch_seconds))

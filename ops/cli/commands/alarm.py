"""`cdcbus alarm list|test|silence`: what is wrong with tasks, who was told, and when nobody
shall be."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.options import bus_options
from cdcbus.ops.cli.output import json_option, print_json, print_table
from cdcbus.ops.cli.task_argument import task_argument
from cdcbus.ops.services.zookeeper_client import bus_client
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.process_identity import operator

if TYPE_CHECKING:
    from cdcbus.ops.alarms.store import Silence, TaskAlarms
    from cdcbus.tasks.control.bus_settings import BusSettings

HEADING = ("task", "alarm", "since (UTC)", "told", "by", "what")


def _read_duration(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    """Seconds, written as 90s, 30m, 2h or 1d."""
    from cdcbus.ops.alarms.silence import duration_seconds

    try:
        return duration_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.group()
def alarm() -> None:
    """Alarms of tasks, which nodes raise: list them, silence them, try the ways to people."""


@alarm.command("list")
@click.option(
    "--sent", is_flag=True, help="Also the last notices that were accepted, and by which channel."
)
@json_option
@bus_options
def list_alarms(sent: bool, as_json: bool, bus: BusSettings) -> None:
    """List the alarms that are raised, who accepted the last notice of each, and what is
    silenced."""
    from cdcbus.ops.alarms.store import AlarmNodes
    from cdcbus.tasks.zookeeper.tasks import TaskNodes

    with bus_client(bus) as client:
        nodes = AlarmNodes(client)
        known = [
            (task_id, nodes.get(task_id)[0], nodes.silence(task_id))
            for task_id in TaskNodes(client).ids()
        ]
    now = time.time()
    if as_json:
        print_json(
            [
                _as_fields(*each, now)
                for each in known
                if each[1].raised or each[1].sent or each[2].is_on(now)
            ]
        )
        return
    rows = [row for task_id, alarms, _ in known for row in _rows(task_id, alarms)]
    if rows:
        print_table(HEADING, rows)
    else:
        click.echo(f"no alarm is raised at {bus.zookeeper}", err=True)
    for task_id, alarms, silence in known:
        if alarms.waiting:
            click.secho(
                f"task {task_id}: {len(alarms.waiting)} notices were accepted by nobody yet; the "
                "log of its node says why",
                fg="red",
            )
        if silence.is_on(now):
            click.echo(f"task {task_id} is silent until {_utc(silence.until)} UTC, by {silence.by}")
        for each in alarms.sent if sent else ():
            click.echo(
                f"{_utc(each.notice.at)} UTC, task {task_id}: {each.notice.rule} "
                f"{each.notice.kind}, accepted by {each.by}"
            )


def _rows(task_id: str, alarms: TaskAlarms) -> list[tuple[str, ...]]:
    return [
        (
            task_id,
            rule,
            _utc(each.since),
            f"{each.times} times",
            alarms.told_by(rule),
            each.sentence,
        )
        for rule, each in alarms.raised.items()
    ]


def _as_fields(task_id: str, alarms: TaskAlarms, silence: Silence, now: float) -> dict[str, object]:
    return {
        "task_id": task_id,
        "alarms": [{"rule": rule, **asdict(each)} for rule, each in alarms.raised.items()],
        "waiting": list(map(asdict, alarms.waiting)),
        "sent": list(map(asdict, alarms.sent)),
        "silent_until": silence.until if silence.is_on(now) else None,
        "silent_by": silence.by if silence.is_on(now) else "",
    }


@alarm.command()
@json_option
@bus_options
def test(as_json: bool, bus: BusSettings) -> None:
    """Send a notice by each channel of the settings, and say who has accepted it. Exits 1 when
    one has not."""
    from cdcbus.ops.alarms.channels import NotAccepted, channels_of
    from cdcbus.ops.alarms.state import Kind, Notice
    from cdcbus.ops.alarms.watch import message_of
    from cdcbus.plugins.task_status import State

    channels = channels_of(bus.alarm)
    if not channels:
        raise ConfigError(
            "alarms go to the log only; set alarm.smtp.host, alarm.webhook.url or "
            "alarm.exec.command in cdcbus.properties"
        )
    now, answers = time.time(), []
    notice = Notice(
        Kind.TEST, "test", f"this is a test by {operator()}; nothing is wrong", now, now
    )
    for channel in channels:
        try:
            answers.append(
                (
                    channel.name,
                    True,
                    channel.send(message_of("test", notice, bus.node_id, State.WORKING)),
                )
            )
        except NotAccepted as error:
            answers.append((channel.name, False, str(error)))
        if not as_json:
            _print_answer(*answers[-1])
    if as_json:
        print_json(
            [
                {"channel": name, "is_accepted": accepted, "refused": refused}
                for name, accepted, refused in answers
            ]
        )
    if not all(accepted for _, accepted, _ in answers):
        sys.exit(1)


def _print_answer(channel: str, is_accepted: bool, refused: str) -> None:
    if is_accepted:
        click.echo(f"{channel}: accepted{f', but {refused}' if refused else ''}")
    else:
        click.secho(f"{channel}: not accepted: {refused}", fg="red", err=True)


@alarm.command("silence")
@task_argument("task_ids", "ID...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All tasks that there are now.")
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    callback=_read_duration,
    default="1h",
    show_default=True,
    help="90s, 30m, 2h, 1d.",
)
@click.option("--off", "is_off", is_flag=True, help="No longer: what is wrong is told again.")
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
    """Tell nothing of tasks for a while; what is still wrong then is told."""
    from cdcbus.ops.alarms.silence import silence
    from cdcbus.tasks.zookeeper.tasks import TaskNodes

    if bool(task_ids) == is_all:
        raise click.UsageError("give ids of tasks, or --all")
    with bus_client(bus) as client:
        known = TaskNodes(client).ids()
        if unknown := set(task_ids) - set(known):
            raise ConfigError(
                f"there is no task {min(unknown)} at {bus.zookeeper}; cdcbus task list shows all"
            )
        untils = {
            task_id: silence(client, task_id, 0 if is_off else seconds, operator()).until
            for task_id in task_ids or known
        }
    if as_json:
        print_json(
            [
                {"task_id": task_id, "silent_until": None if is_off else until}
                for task_id, until in untils.items()
            ]
        )
        return
    for task_id, until in untils.items():
        click.echo(
            f"task {task_id} is "
            f"{'no longer silent' if is_off else f'silent until {_utc(until)} UTC'}"
        )


def _utc(epoch_seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(epoch_seconds))

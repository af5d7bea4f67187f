"""`cdcbus task import` of canal, Debezium and Maxwell settings: writes task files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.new_file import make_folder, refuse_existing, write_new
from cdcbus.ops.cli.output import print_findings
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.foreign.files import task_text
from cdcbus.tasks.foreign.places import start_of

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings
    from cdcbus.tasks.foreign.conversion import Conversion
    from cdcbus.tasks.foreign.files import Settings


def write_task_files(
    found: list[Settings],
    output: str | None,
    offsets: str | None,
    force: bool,
    strict: bool,
    bus: BusSettings,
) -> None:
    """Writes a task file for each, and prints what could not be carried over. Exits 1 where one of
    them has errors: its file is written nevertheless, to be corrected."""
    if len(found) > 1 and (output is None or not _is_folder(output)):
        raise click.UsageError(f"these are {len(found)} tasks; name a folder with --output")
    converted: dict[str, tuple[Settings, Conversion, Path]] = {}
    for settings in found:
        made = settings.converted()
        task_id = made.keys["taskId"]
        if task_id in converted:
            raise ConfigError(f"two of these tasks are called {task_id}; import them one by one")
        converted[task_id] = settings, made, _file(made, output)
    # All of them before the first is written.
    for _, _, file in converted.values():
        refuse_existing(file, force)
    if output is not None and _is_folder(output):
        make_folder(Path(output))
    is_good = True
    for settings, made, file in converted.values():
        if offsets is not None:
            _take_over(made, settings, offsets)
        text = task_text(made, settings.tool)
        # Settings of other tools can hold passwords.
        write_new(file, text, force, is_secret=True)
        name = click.format_filename(file)
        click.echo(f"{name} written", err=True)
        # `&=`, not `and`: the findings of all files are printed.
        is_good &= print_findings(made.found, click.format_filename(settings.file), strict)
        checked = inspect_text(text, bus.filling, Severity.NOTE, bus.local_source_lookup(file))
        is_good &= print_findings(checked.diagnostics, name, strict)
    if not is_good:
        sys.exit(1)


def _file(made: Conversion, output: str | None) -> Path:
    name = f"{made.keys['taskId']}.properties"
    if output is None:
        return Path(name)
    return Path(output, name) if _is_folder(output) else Path(output)


def _is_folder(output: str) -> bool:
    """Also one that is not there yet: its name has no suffix, or a slash at the end."""
    path = Path(output)
    return output.endswith("/") or path.is_dir() or not (path.suffix or path.exists())


def _take_over(made: Conversion, settings: Settings, offsets: str) -> None:
    start = start_of(settings.tool, settings.entries, made.keys, offsets)
    if start.remark:
        made.warning("--offsets", start.remark)
    if start.is_snapshot:
        return
    if start.unfinished:
        words = " ".join(f"--table {table}" for table in start.unfinished)
        made.error(
            "--offsets",
            f"{settings.tool} was copying tables, whose remaining rows do not come by themselves: "
            f"once the task runs, cdcbus snapshot start {made.keys['taskId']} {words}",
        )
    made.put("consumer.offset", start.offset)
    # The tool whose place is taken over has sent the existing rows already.
    if "consumer.snapshot" in made.keys:
        made.put("consumer.snapshot", "never")
    # These findings advise what has been done now.
    others = [each for each in made.found.found if "--offsets" not in each.sentence]
    made.found.found[:] = others
    made.note(
        "--offsets",
        f"consumer.offset={start.offset}: stop {settings.tool} before the import, or it moves on",
    )

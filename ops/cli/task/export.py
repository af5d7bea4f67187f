"""`cdcbus task export`: writes a task in ZooKeeper to a task file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cdcbus.ops.cli.new_file import force_option, write_new
from cdcbus.ops.cli.options import bus_options
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.control.named_task import stored_task
from cdcbus.tasks.porter.dist_json import properties_text
from cdcbus.tasks.zookeeper.task_configs import has_inline_secret

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings


@click.command("export")
@click.argument("task_id", metavar="ID")
@click.option(
    "--output",
    metavar="FILE.properties",
    type=click.Path(path_type=Path),
    help="Write the task file here instead of printing it.",
)
@force_option
@bus_options
def export_task(task_id: str, output: Path | None, force: bool, bus: BusSettings) -> None:
    """Write task ID in ZooKeeper as a task file.

    Placeholders and encrypted secrets stay as they are. A task with a secret in plain text, as
    porter stores it, is not printed, only written to a file that only its owner can read.
    """
    text = properties_text(stored_task(task_id, bus))
    # Only what the text itself holds counts, so no named source is read.
    is_secret = has_inline_secret(inspect_text(text, sources=lambda _: None).entries)
    if output is not None:
        write_new(output, text, force, is_secret)
        click.echo(f"{click.format_filename(output)} written", err=True)
    elif is_secret:
        raise ConfigError(
            f"task {task_id} holds a secret in plain text, which is not printed; name a file with "
            "--output"
        )
    else:
        # In UTF-8 whatever the terminal's character set is, as it can become a file.
        click.echo(text.encode(), nl=False)

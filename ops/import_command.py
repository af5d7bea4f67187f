"""`cdcbus task import`: a task of porter, as its ZooKeeper node holds it, becomes a task file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cdcbus.ops.new_file import force_option, write_new
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.dist import parse_dist, properties_lines
from cdcbus.tasks.findings import Severity
from cdcbus.tasks.properties import inspect_text


@click.command("import")
@click.argument("file", metavar="FILE.json", type=click.Path(path_type=Path))
@click.option("--output", metavar="FILE.properties", type=click.Path(path_type=Path), help="Write the task file here; else it is printed.")
@force_option
def import_task(file: Path, output: Path | None, force: bool) -> None:
    """Make a task file of FILE.json, what porter keeps in ZooKeeper at /datas/task/ID/dist/SWIMLANE.

    What is odd or wrong in the task is said on standard error, as `cdcbus task check` does. Exit code 1: the task has errors, though the
    file was written.
    """
    text = _converted(file)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_new(output, text, force)
        click.echo(f"{click.format_filename(output)} written", err=True)
    findings = inspect_text(text).findings
    for severity in Severity:
        for finding in findings.of(severity):
            click.echo(f"{severity}: {finding.located(click.format_filename(output or file.with_suffix('.properties')))}", err=True)
    if findings.of(Severity.ERROR):
        sys.exit(1)


def _converted(file: Path) -> str:
    name = click.format_filename(file)
    try:
        config = parse_dist(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}; check its name and rights") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text; expected what porter's dist node holds") from error
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    return "".join(f"{line}\n" for line in properties_lines(config))

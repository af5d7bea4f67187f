"""`cdcbus prepare`: prepares a machine for its first consumer task."""

from __future__ import annotations

import click

from cdcbus.consumer.jvm.cds_archive import archive_file, make_archive
from cdcbus.consumer.jvm.class_path import class_path, make_unsigned


@click.command("prepare")
def prepare() -> None:
    """Fetch Spark's Kafka source, and archive Spark's classes, so that tasks start faster.

    Consumer tasks also run without it: the first one fetches what is missing, but archives nothing.
    The archive takes most of a minute and about 170 MB. It fits only this installation with this
    Java: repeat it after an upgrade of either.
    """
    from rich.console import Console

    console = Console(stderr=True)
    make_unsigned()
    archive = archive_file(class_path(console))
    if archive.is_file():
        click.echo(f"Spark's classes are archived already: {archive}")
        return
    sentence = "archiving Spark's classes, which takes most of a minute, once"
    # Without a terminal the spinner shows nothing.
    if not console.is_terminal:
        click.echo(sentence, err=True)
    with console.status(sentence):
        make_archive(archive)
    click.echo(f"archived Spark's classes, {archive.stat().st_size / 1e6:.0f} MB: {archive}")

"""Groups of commands that import a command when it is called; the outermost one turns errors into
a sentence and an exit code."""

from __future__ import annotations

import difflib
import io
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from cdcbus.ops.cli.interrupts import INTERRUPTED, is_interrupted
from cdcbus.ops.cli.options import EXIT_CODE
from cdcbus.ops.cli.output import OWES_JSON, print_json
from cdcbus.plugins.error_policy import NO_THREADS, policy_of
from cdcbus.plugins.errors import NO_ROOM, CdcError

# How standard streams treat a character that they lack; the second one in the locale C.
NOT_ESCAPED = ("strict", "surrogateescape")


class LazyGroup(click.Group):
    """A group that imports some of its commands only when they are called. `lazy` maps a name to
    (module:object, short help)."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.lazy])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lazy:
            # a placeholder for the list of commands; resolve_command imports the real one
            return click.Command(cmd_name, short_help=self.lazy[cmd_name][1])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            # click suggests only what is imported already
            near = difflib.get_close_matches(args[0], self.list_commands(ctx))
            if not near:
                raise
            suggested = " or ".join(f"'{each}'" for each in near)
            raise click.UsageError(
                f"No such command '{args[0]}'. Did you mean {suggested}?", ctx
            ) from error
        if name is not None and name in self.lazy:
            module, _, attribute = self.lazy[name][0].partition(":")
            command = getattr(import_module(module), attribute)
        return name, command, rest


class Cli(LazyGroup):
    """The outermost group: turns errors into one sentence and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # A closed standard input reads as an empty one: nobody can answer.
        if sys.stdin is None:
            sys.stdin = io.StringIO()
        # Where a terminal's character set lacks one, the character is escaped: no command ends by
        # what it prints.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors in NOT_ESCAPED:
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Help is printed before a command is invoked.
            click.echo(_sentence_of(error), err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)
        except CdcError as error:
            if is_interrupted(error):
                sys.exit(INTERRUPTED)
            _fail(ctx, str(error))
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            # click prints these itself, and ends quietly where the reader of a pipe has gone.
            raise
        except Exception as error:
            if is_interrupted(error):
                sys.exit(INTERRUPTED)
            _fail(ctx, _sentence_of(error))


def _sentence_of(error: Exception) -> str:
    """What to say about an error that nothing else has handled."""
    # A disk that is full or read-only: nothing in any text is at fault. No secret is in a path.
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        name = click.format_filename(error.filename)
        return f"{name}: {error.strerror}; check its name, its rights and the room on its disk"
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return f"{error.strerror}: make room on the disk, and run the command again"
    if policy_of(error) is NO_THREADS:
        return f"{error}: raise the limit of threads of this process (ulimit -u, pids), or end some"
    return (
        f"unexpected {type(error).__name__}; please report it with the output of `cdcbus "
        "--debug ...`"
    )


def _fail(ctx: click.Context, sentence: str) -> None:
    if ctx.params["debug"]:
        traceback.print_exc()
    if ctx.meta.get(OWES_JSON):
        print_json({"error": sentence})
    click.secho(sentence, fg="red", err=True)
    sys.exit(ctx.meta.get(EXIT_CODE, 1))

"""What `cdcbus init` asks a person, and what it assumes where nobody is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import click

from cdcbus.ops.init.server import EXAMPLES, PORTS, SOURCES, TARGETS, Server, read_server
from cdcbus.plugins.errors import CdcError

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Questions:
    """`is_asking`: a person answers; else each question takes its default, or is an error.
    `variables`: passwords that came from the environment."""

    is_asking: bool
    variables: set[str] = field(default_factory=set)

    def text(self, question: str, default: str, choices: Sequence[str] = ()) -> str:
        """An answer; the default where nobody is asked."""
        if not self.is_asking:
            return default
        answer_type: Any = str
        if choices:
            answer_type = click.Choice(choices)
        answer: str = click.prompt(
            question,
            default=default,
            show_default=bool(default),
            type=answer_type,
            err=True,
        )
        return answer.strip()

    def confirm(self, question: str, *, default: bool) -> bool:
        return click.confirm(question, default=default, err=True)

    def until_good(self, once: Callable[[], Answer]) -> Answer:
        """What `once` returns; it is repeated while it raises an error that a person can read and
        answer."""
        while True:
            try:
                return once()
            except (CdcError, click.BadParameter) as error:
                if not self.is_asking:
                    raise
                sentence = str(error)
                if isinstance(error, click.BadParameter):
                    sentence = error.message
                click.secho(sentence, fg="red", err=True)
                click.echo("Try again, or Ctrl-C:", err=True)


def given_server(url: str | None, side: str) -> Server | None:
    """The server of `--source` or `--target`. Raises BadParameter."""
    if url is None:
        return None
    try:
        return read_server(url, SOURCES if side == "source" else TARGETS)
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; example: {EXAMPLES[side]}", param_hint=f"--{side}"
        ) from None


def ask_server(asked: Questions, side: str, before: Server) -> Server:
    """Asks for a server's address and user, but not its password; `before` has the defaults."""
    question = f"{before.kind} server to write to, HOST:PORT"
    if side == "source":
        question = "MySQL or MariaDB server to read, HOST:PORT"
    address = asked.text(question, before.address)
    server = given_server(f"{before.kind}://{address}", side)
    assert server is not None
    if server.user or server.password or server.database:
        raise click.BadParameter(f"expected HOST:PORT alone; example: 127.0.0.1:{before.port}")
    user = asked.text("User there", before.user)
    return replace(server, user=user, database=before.database)


def with_password(
    asked: Questions, server: Server, variable: str, kept: Mapping[str, str], *, is_again: bool
) -> Server:
    """The server with a password: that of its address, else of the environment, else one that an
    earlier call has kept, else a person's. `is_again`: these were refused, so a person is asked.
    Raises UsageError."""
    side = variable.partition("_")[0].lower()
    if not is_again:
        if server.password is not None:
            return server
        if variable in os.environ:
            asked.variables.add(variable)
            return replace(server, password=os.environ[variable])
        if variable in kept:
            return replace(server, password=kept[variable])
    if not asked.is_asking:
        raise click.UsageError(
            f"no password for user {server.user} of --{side}: set {variable}, or write it into the "
            f"address, as in {server.kind}://{server.user}:PASSWORD@{server.address}"
        )
    # The one of the environment was refused: the task files must not refer to it.
    asked.variables.discard(variable)
    password: str = click.prompt(
        f"Password of {server.user} (not shown)",
        # An empty password is an answer as well.
        default="",
        show_default=False,
        hide_input=True,
        err=True,
    )
    return replace(server, password=password)


def default_server(kind: str) -> Server:
    """The proposed server where nothing is known."""
    return Server(kind, "127.0.0.1", PORTS[kind], "cdc")

"""`cdcbus task new`: asks for what a task file needs, and writes one that `cdcbus task check`
accepts without a warning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any

import click

from cdcbus.ops.cli.new_file import force_option, refuse_existing, write_new
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.editing.new_task import (
    QUESTIONS,
    ROUTES,
    Answers,
    Question,
    new_text,
    password_variable,
    questions_of,
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    def add(wrapped: Callable[..., Any], question: Question) -> Callable[..., Any]:
        text = f"{question.text}."
        if question.routes != ROUTES:
            text += f" For {' and '.join(question.routes)}."
        option = click.option(question.option, question.name, help=text)
        return option(wrapped)

    # The decorator applied last is the first option in the help, so in reverse.
    return reduce(add, reversed(QUESTIONS), command)


@click.command("new")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--route", type=click.Choice(ROUTES), help="Source and target.")
@_options
@force_option
def new(file: Path | None, route: str | None, force: bool, **given: str | None) -> None:
    """Write a commented task file, by default ID.properties. Asks for what no option gives.

    Passwords stay out of the file: set SOURCE_PASSWORD or TARGET_PASSWORD where the task runs.
    """
    if file is not None:
        refuse_existing(file, force)
    route = route or asked("Route", "--route", type=click.Choice(ROUTES))
    answers = answers_of(route, given)
    path = file or Path(f"{answers['id']}.properties")
    text = text_of(path, answers)
    write_new(path, text, force)
    name = click.format_filename(path)
    click.echo(f"{name} written; next: {_password(route)}cdcbus task check {name}")


def answers_of(route: str, given: Mapping[str, str | None]) -> dict[str, str]:
    """All answers that a route needs, checked: from options, the others from the user. Raises
    UsageError for one that is wrong, or has no meaning for the route."""
    for question in QUESTIONS:
        if given[question.name] is not None and route not in question.routes:
            raise click.UsageError(f"{question.option} has no meaning for {route}")
    answers = {"route": route}
    for question in questions_of(route):
        if question.name == "target_schema" and not answers["source_schema"]:
            continue  # there is no schema to rename
        value = given[question.name]
        if value is None:
            answers[question.name] = _ask(question, answers)
        else:
            answers[question.name] = _checked(question, route, value)
    return answers


def _ask(question: Question, answers: Answers) -> str:
    default = question.default(answers)
    convert = partial(_checked, question, answers["route"])
    return asked(
        question.text,
        question.option,
        default=default,
        show_default=bool(default),
        value_proc=convert,
    )


def asked(text: str, option: str, **how: Any) -> str:
    """The user's answer. Raises UsageError, which names the option, when nobody can answer."""
    try:
        answer: str = click.prompt(text, err=True, **how)
    except click.Abort:
        # Ctrl-C in a terminal; without one the input has ended.
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise click.UsageError(
            f"no answer to: {text}; give {option}, or run this in a terminal"
        ) from None
    return answer


def _checked(question: Question, route: str, text: str) -> str:
    value_type = question.type_for(route)
    try:
        value_type.read(text.strip())
    except ValueError:
        raise click.BadParameter(
            f"expected {value_type.expected}; example: {value_type.example}",
            param_hint=question.option,
        ) from None
    return text.strip()


def text_of(path: Path, answers: Answers, more: Mapping[str, str] | None = None) -> str:
    """The file's text. `more`: values of keys that no question asks for. Raises ConfigError where
    the text has errors or warnings."""
    text = new_text(answers, click.format_filename(path.name), more)
    diagnostics = inspect_text(text).diagnostics
    faults = diagnostics.of(Severity.ERROR) + diagnostics.of(Severity.WARNING)
    if faults:
        name = click.format_filename(path)
        raise ConfigError("\n".join(fault.located(name) for fault in faults))
    return text


def _password(route: str) -> str:
    """What to do about the password that the file refers to."""
    variable = password_variable(route)
    if not variable:
        return ""
    return f"set {variable}, then "

"""The command line: its commands, their help, and wrong usage. A real process where the process is
the point."""

import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.ops.cli.output import json_option, note_json, print_json
from cdcbus.plugins.errors import ConfigError
from tests.unit.ops.cli.runs import process


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def test_each_command_and_option_has_help() -> None:
    found = dict(commands(main, "cdcbus"))
    assert {"cdcbus task run", "cdcbus task check", "cdcbus offset show", "cdcbus stack up"} <= set(
        found
    )
    for path, command in found.items():
        assert command.help, path
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (
                f"{path} {parameter.name}"
            )


WITHOUT_JSON = {
    *(f"task {name}" for name in ("run", "logs", "new", "import", "export", "clone", "rm")),
    *(f"node {name}" for name in ("run", "spark", "verify")),
    "source add",
    "prepare",  # `doctor` tells whether it was done
    "topic schema",  # is JSON
}


def test_each_command_that_tells_something_tells_it_as_json_too() -> None:
    leaves = {
        path.removeprefix("cdcbus "): command
        for path, command in commands(main, "cdcbus")
        if not isinstance(command, click.Group)
    }
    silent = {
        path
        for path, command in leaves.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert {path for path in silent if not path.startswith("stack ")} == WITHOUT_JSON
    # Its rows are a line each, so an error is none of them.
    for path in leaves.keys() - silent - {"topic tail"}:
        [option] = [each for each in leaves[path].params if "--json" in each.opts]
        assert option.callback is note_json, path


def test_an_error_is_json_too_where_no_other_json_was_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = ["dlq", "list", str(tmp_path / "none.properties")]
    plain, told = CliRunner().invoke(main, wrong), CliRunner().invoke(main, [*wrong, "--json"])
    assert plain.exit_code == told.exit_code == 1
    assert (plain.stdout, plain.stderr) == ("", told.stderr)
    assert json.loads(told.stdout) == {"error": told.stderr.rstrip()}

    @click.command()
    @json_option
    def partly(as_json: bool) -> None:
        print_json({"equal": False})
        raise ConfigError("differs")

    monkeypatch.setitem(main.commands, "partly", partly)
    result = CliRunner().invoke(main, ["partly", "--json"])
    assert (result.exit_code, result.stderr) == (1, "differs\n")
    assert json.loads(result.stdout) == {"equal": False}


def test_help_answers_at_once_and_imports_nothing_slow() -> None:
    assert "Commands:" in process("--help").stdout
    fastest = min(_cpu_seconds("--help") for _ in range(3))
    assert fastest < 0.4
    check = (
        "import sys, cdcbus.ops.cli.main; print([m for m in ('pyspark', 'kazoo', "
        "'sqlalchemy', 'rich', 'pyarrow') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_commands_do_not_bring_the_web_server_with_them() -> None:
    names = (
        "task.list",
        "task.state",
        "commands.node",
        "offset.set",
        "commands.audit",
        "task.import_",
    )
    modules = ", ".join(f"cdcbus.ops.cli.{name}" for name in names)
    check = f"import sys, {modules}; print('fastapi' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
        == "False\n"
    )


def test_a_fetch_task_does_not_load_what_only_consumer_tasks_need() -> None:
    names = ("control.named_task", "control.until", "runtime.runner")
    modules = ", ".join(f"cdcbus.tasks.{name}" for name in names)
    check = (
        f"import sys, {modules}, cdcbus.producer.run; "
        "print([m for m in ('sqlalchemy', 'pyarrow', 'psycopg', 'pyspark') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout
        == "[]\n"
    )


def _cpu_seconds(*arguments: str) -> float:
    """What it costs: how long it takes depends on what else the machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_list_names_lazy_commands_without_importing_them() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert re.search(r"^  demo +Run", result.stdout, re.MULTILINE)
    assert re.search(r"^  stack +Start", result.stdout, re.MULTILINE)


def test_version() -> None:
    assert re.fullmatch(r"cdcbus \d+\.\d+\.\d+\n", CliRunner().invoke(main, ["--version"]).stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["task", "nope"],
        ["task", "check"],
        ["task", "run"],
        ["offset", "show"],
        ["--nope"],
    ],
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Usage: cdcbus" in result.stderr


@pytest.mark.parametrize("name", ["a/b", "..", "a\nb", ""])
@pytest.mark.parametrize(
    "command", [["offset", "show"], ["task", "clone", "a"], ["node", "drain"], ["source", "show"]]
)
def test_an_impossible_id_is_wrong_usage(command: list[str], name: str) -> None:
    """An empty one, as of a variable that is not set, would stand for the folder of all."""
    result = CliRunner().invoke(main, [*command, name])
    assert result.exit_code == 2
    assert "expected a name" in result.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["intt"], "init"),
        (["task", "startt", "1"], "start"),
        (["offset", "hystory", "1"], "history"),
    ],
)
def test_a_misspelt_command_is_answered_by_a_similar_one_though_not_imported_yet(
    words: list[str], meant: str
) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert f"No such command '{words[-1] if len(words) == 1 else words[1]}'." in result.stderr
    assert f"'{meant}'" in result.stderr.partition("Did you mean")[2]


def test_a_command_similar_to_none_is_only_named() -> None:
    result = CliRunner().invoke(main, ["task", "xyz"])
    assert (result.exit_code, "Did you mean" in result.stderr) == (2, False)
    assert "No such command 'xyz'." in result.stderr

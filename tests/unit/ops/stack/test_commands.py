"""The stack and its commands, as far as they need no server."""

import io
import json
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner
from rich.console import Console

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack import addresses, processes
from cdcbus.ops.stack import stack as servers
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.commands import stack
from cdcbus.ops.stack.parallel import side_by_side
from cdcbus.plugins.errors import CdcError, ConfigError


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_home_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCBUS_STACK_HOME", "/somewhere")
    assert servers.default_home() == Path("/somewhere")


def test_home_of_root_can_be_entered_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDCBUS_STACK_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert servers.default_home() == Path("/var/lib/cdcbus/stack")


def test_other_machines_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, console: Console
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(ConfigError, match=r"for Linux on x86_64 only, and this is .* on arm64"):
        servers.up(tmp_path, console)


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path, console: Console) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file/home"
    with pytest.raises(ConfigError, match=rf"cannot use {home} \(Not a directory\): choose"):
        servers.up(home, console)
    assert addresses.load(home) is None


@pytest.mark.parametrize("words", [["stack", "up"], ["demo"]])
def test_without_java_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(main, [*words, "--home", str(tmp_path / "home")])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"JAVA_HOME is {tmp_path}, which has no bin/java: install Java")
    assert not list(tmp_path.iterdir())


def test_down_where_nothing_is(tmp_path: Path, console: Console) -> None:
    servers.down(tmp_path / "none", purge=True, console=console)
    assert printed(console) == f"there is no stack in {tmp_path / 'none'}\n"
    assert not list(tmp_path.iterdir())


def test_purging_leaves_what_is_not_the_stacks(tmp_path: Path, console: Console) -> None:
    addresses.save(tmp_path, Plan.new())
    (tmp_path / "kafka/data").mkdir(parents=True)
    (tmp_path / "thesis.txt").touch()
    servers.down(tmp_path, purge=True, console=console)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_purging_removes_the_home(tmp_path: Path, console: Console) -> None:
    home = tmp_path / "home"
    (home / "kafka").mkdir(parents=True)
    servers.down(home, purge=True, console=console)
    assert not home.exists()


def test_down_keeps_data(tmp_path: Path, console: Console) -> None:
    (tmp_path / "kafka/data").mkdir(parents=True)
    servers.down(tmp_path, purge=False, console=console)
    assert (tmp_path / "kafka/data").exists()


def test_an_unknown_server_cannot_be_killed(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="no server oracle: the servers are zookeeper, kafka, source"
    ):
        servers.kill(tmp_path, "oracle")


def test_servers_without_their_addresses(tmp_path: Path, console: Console) -> None:
    (tmp_path / "kafka").mkdir()
    processes.start(tmp_path / "kafka", ["sleep", "100"], None)
    try:
        with pytest.raises(ConfigError, match="run `cdcbus stack down` first"):
            servers._plan(tmp_path, servers.SERVERS[:1], console)
    finally:
        servers.kill(tmp_path, "kafka")


def test_all_jobs_are_told_of_and_all_failures(console: Console) -> None:
    def fail(_: Event) -> str:
        raise CdcError("no luck")

    with pytest.raises(CdcError, match="no luck\nno luck"):
        side_by_side({"a": lambda _: "fine", "b": fail, "c": fail}, "trying", console)
    assert "a                  fine (0.0 s)" in printed(console)


def test_ctrl_c_reaches_the_jobs(console: Console) -> None:
    given_up = Event()

    def wait(cancelled: Event) -> str:
        if cancelled.wait(10):
            given_up.set()
        raise CdcError("given up")

    def interrupt(_: Event) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side({"waiting": wait, "interrupted": interrupt}, "trying", console)
    assert given_up.is_set()


def test_status_before_the_first_start(tmp_path: Path) -> None:
    result = CliRunner().invoke(stack, ["status", "--home", str(tmp_path)])
    assert result.exit_code == 0
    assert result.output.count("stopped") == 5
    assert f"cdcbus stack up --home {tmp_path}" in result.output


def test_status_gives_commands_to_paste(tmp_path: Path) -> None:
    plan = Plan.new()
    addresses.save(tmp_path, plan)
    output = CliRunner().invoke(stack, ["status", "--home", str(tmp_path)]).output
    assert f"cdcbus stack zkcli --home {tmp_path} ls /" in output
    assert (
        f"psql postgresql://cdc:{plan.password}@127.0.0.1:{plan.ports['postgresql']}/cdc" in output
    )
    assert f"-P{plan.ports['source']} -ucdc -p{plan.password} cdc" in output


def test_status_as_json(tmp_path: Path) -> None:
    plan = Plan.new()
    addresses.save(tmp_path, plan)
    found = json.loads(
        CliRunner().invoke(stack, ["status", "--json", "--home", str(tmp_path)]).output
    )
    assert [each["name"] for each in found["servers"]] == [
        "zookeeper",
        "kafka",
        "source",
        "mariadb",
        "postgresql",
    ]
    assert not any(each["running"] for each in found["servers"])
    assert found["addresses"]["source"]["password"] == plan.password


@pytest.mark.parametrize(
    "arguments",
    [["sql", "source", "SELECT 1"], ["zkcli", "ls", "/"], ["kafka-topics", "--list"]],
    ids=lambda a: a[0],
)
def test_clients_of_servers_that_do_not_run(tmp_path: Path, arguments: list[str]) -> None:
    line = [arguments[0], "--home", str(tmp_path), *arguments[1:]]
    assert "nothing was ever started" in str(CliRunner().invoke(stack, line).exception)
    addresses.save(tmp_path, Plan.new())
    assert "does not run: start it with `cdcbus stack up" in str(
        CliRunner().invoke(stack, line).exception
    )


def test_an_unknown_database_is_wrong_usage() -> None:
    assert CliRunner().invoke(stack, ["sql", "oracle", "SELECT 1"]).exit_code == 2


@pytest.mark.parametrize("name", sorted(stack.commands))
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(stack, [name, "--help"])
    assert result.exit_code == 0
    assert "--home" in result.output


def test_status_tells_of_a_spark_cluster(tmp_path: Path) -> None:
    plan = Plan.new().with_spark(2)
    addresses.save(tmp_path, plan)
    line = ["status", "--home", str(tmp_path)]
    found = json.loads(CliRunner().invoke(stack, [*line, "--json"]).output)
    assert [each["name"] for each in found["servers"]][5:] == [
        "spark-master",
        "spark-worker-1",
        "spark-worker-2",
    ]
    assert found["addresses"]["spark"] == plan.spark
    assert f"spark.master={plan.spark}" in CliRunner().invoke(stack, line).output


def test_a_worker_that_is_not_wanted_any_more_is_ended(tmp_path: Path, console: Console) -> None:
    addresses.save(tmp_path, Plan.new().with_spark(2))
    for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
        (tmp_path / name).mkdir()
        processes.start(tmp_path / name, ["sleep", "100"], None)
    servers._change_spark(tmp_path, 1)
    running = [each.name for each in servers.status(tmp_path) if each.running]
    assert running == ["spark-master", "spark-worker-1"]
    servers.down(tmp_path, purge=True, console=console)
    assert not tmp_path.exists()


def test_a_spark_cluster_of_a_home_without_plan_is_ended(tmp_path: Path, console: Console) -> None:
    (tmp_path / "spark-worker-1").mkdir()
    processes.start(tmp_path / "spark-worker-1", ["sleep", "100"], None)
    servers.down(tmp_path, purge=False, console=console)
    assert not processes.is_running(tmp_path / "spark-worker-1")

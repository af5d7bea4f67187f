"""docker-compose.yml and Dockerfile, as far as that can be seen without Docker: the schema, what
they name, and what must agree."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from cdcbus import __version__
from cdcbus.consumer.config import LoadTask
from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.read_task import read_task

ROOT = Path(__file__).parents[4]
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN_IMAGE = f"cdcbus:{__version__}"
TASKS = [name for name, service in SERVICES.items() if service["image"].startswith("cdcbus")]
PINNED = re.compile(r"[a-z/]+:\d+\.\d+(\.\d+)?")
TABLE = re.compile(r"CREATE TABLE (\w+) \((.+?)\n\);", re.DOTALL)


def filled(value: str) -> str:
    """A value with `${NAME:-default}` replaced by the default."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def environment(name: str) -> dict[str, str]:
    return {key: filled(value) for key, value in SERVICES[name].get("environment", {}).items()}


def mounts(name: str) -> dict[Path, str]:
    """Folders of the repository that a service sees -> where."""
    pairs = (volume.split(":") for volume in SERVICES[name].get("volumes", ()))
    return {ROOT / source: inside for source, inside, *_ in pairs if source.startswith(".")}


def task_of(name: str) -> FetchTask | LoadTask:
    """The task that a service runs, read as it would be there; there must be nothing to say
    about its file."""
    command = SERVICES[name]["command"]
    assert command[:2] == ["task", "run"]
    file = Path(command[2])
    folder = next(source for source, inside in mounts(name).items() if Path(inside) == file.parent)
    read = read_task(folder / file.name, environment(name))
    assert (read.warnings, read.notes) == ([], [])
    return read.task


def init_text(service: str) -> str:
    """All that a database's service runs when it makes its database."""
    (folder,) = mounts(service)
    return "".join(file.read_text(encoding="utf-8") for file in sorted(folder.iterdir()))


def check_schema(file: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(file),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_file_follows_the_compose_specification() -> None:
    checked = check_schema(FILE)
    assert checked.returncode == 0, checked.stdout


def test_the_check_of_the_specification_finds_a_fault(tmp_path: Path) -> None:
    kafka = {**SERVICES["kafka"], "depend_on": ["zookeeper"]}
    (tmp_path / "compose.json").write_text(
        json.dumps({"services": {"kafka": kafka}}), encoding="utf-8"
    )
    checked = check_schema(tmp_path / "compose.json")
    assert checked.returncode == 1
    assert "depend_on" in checked.stdout


def test_images_have_a_version() -> None:
    for name, service in SERVICES.items():
        assert PINNED.fullmatch(service["image"]), name
    assert {SERVICES[name]["image"] for name in TASKS} == {OWN_IMAGE}


def test_only_this_machine_reaches_the_ports() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_mounted_folders_are_there_and_read_only() -> None:
    for name, service in SERVICES.items():
        for source in mounts(name):
            assert any(source.iterdir()), source
        assert [
            v for v in service.get("volumes", ()) if v.startswith(".") and not v.endswith(":ro")
        ] == []


def test_named_volumes_are_declared_and_used_once() -> None:
    used = [
        v.split(":")[0]
        for service in SERVICES.values()
        for v in service.get("volumes", ())
        if not v.startswith(".")
    ]
    assert sorted(used) == sorted(COMPOSE["volumes"])


def test_a_service_waits_only_for_what_can_come() -> None:
    for name, service in SERVICES.items():
        for other, wanted in service.get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for {other}"
            else:
                assert wanted["condition"] == "service_completed_successfully"
                assert "restart" not in SERVICES[other], f"{name} waits for the end of {other}"


def test_passwords_have_one_default_each() -> None:
    """A default that differs between two services would lock them out from each other."""
    found = set(re.findall(r"\$\{(\w+):-([^}]*)\}", FILE.read_text(encoding="utf-8")))
    assert {name for name, _ in found} == {
        "MYSQL_ROOT_PASSWORD",
        "SOURCE_PASSWORD",
        "POSTGRES_PASSWORD",
        "TARGET_PASSWORD",
    }
    assert len(found) == 4
    assert all(default.startswith("demo-") for _, default in found)


def test_there_is_one_task_of_each_kind() -> None:
    assert {type(task_of(name)) for name in TASKS} == {FetchTask, LoadTask}


@pytest.mark.parametrize("name", TASKS)
def test_a_service_is_called_as_its_task(name: str) -> None:
    assert task_of(name).task_id == name


@pytest.mark.parametrize("name", TASKS)
def test_a_task_waits_for_all_that_it_talks_to(name: str) -> None:
    task = task_of(name)
    database = task.source.addresses[0][0] if isinstance(task, FetchTask) else jdbc(task)[0]
    zookeeper = environment(name)["CDCBUS_ZOOKEEPER"].split(":")[0]
    assert {database, zookeeper, "topic"} == set(SERVICES[name]["depends_on"])


@pytest.mark.parametrize("name", TASKS)
def test_a_task_finds_kafka_and_its_topic(name: str) -> None:
    task = task_of(name)
    servers, topics = (
        (task.publish.servers, [task.publish.topic])
        if isinstance(task, FetchTask)
        else (task.source.servers, list(task.source.topics))
    )
    options = dict(
        word.removeprefix("--").split("=") for word in SERVICES["topic"]["command"] if "=" in word
    )
    assert f"INSIDE://{servers}" in environment("kafka")["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert (options["bootstrap-server"], [options["topic"]]) == (servers, topics)


def test_the_fetch_task_logs_in_as_the_user_that_is_made() -> None:
    task = next(task for task in map(task_of, TASKS) if isinstance(task, FetchTask))
    (host, port) = task.source.addresses[0]
    assert (SERVICES[host]["image"].split(":")[0], port) == ("mysql", 3306)
    assert f"CREATE USER '{task.source.user}'@'%' IDENTIFIED BY '$password'" in init_text(host)
    assert "${SOURCE_PASSWORD" in init_text(host)
    assert task.source.password == environment(host)["SOURCE_PASSWORD"]
    assert f"CREATE DATABASE {task.swimlane} " in init_text(host)
    assert f"--server-id={task.source.server_id}" not in SERVICES[host]["command"]


def test_the_consumer_task_logs_in_as_the_user_that_is_made() -> None:
    task = next(task for task in map(task_of, TASKS) if isinstance(task, LoadTask))
    host, port, database = jdbc(task)
    assert (SERVICES[host]["image"].split(":")[0], port) == ("postgres", "5432")
    assert database == environment(host)["POSTGRES_DB"]
    assert isinstance(task.target, JdbcTarget)
    assert f"CREATE ROLE {task.target.user} LOGIN PASSWORD :'password'" in init_text(host)
    assert 'password="$TARGET_PASSWORD"' in init_text(host)
    assert task.target.password == environment(host)["TARGET_PASSWORD"]


def test_both_tasks_speak_of_the_same_records() -> None:
    fetch, load = sorted(map(task_of, TASKS), key=lambda task: isinstance(task, LoadTask))
    assert isinstance(fetch, FetchTask)
    assert isinstance(load, LoadTask)
    assert fetch.publish.converter == load.converter
    assert [rule.schema for rule in load.rules] == [(fetch.swimlane.upper(), "public")]
    keyed = {table.partition(".")[2].lower() for table in fetch.publish.partition_keys}
    assert keyed <= tables("mysql").keys()


def test_source_and_target_have_the_same_columns() -> None:
    assert tables("mysql") == tables("postgresql")
    assert len(tables("mysql")) == 3


def test_init_scripts_can_be_run() -> None:
    scripts = [
        script
        for service in ("mysql", "postgresql")
        for folder in mounts(service)
        for script in folder.glob("*.sh")
    ]
    assert len(scripts) == 2
    for script in scripts:
        assert os.access(script, os.X_OK), script
        subprocess.run(["bash", "-n", script], check=True)


def jdbc(task: LoadTask) -> tuple[str, str, str]:
    """Host, port, database of the target."""
    assert isinstance(task.target, JdbcTarget)
    found = re.fullmatch(r"jdbc:postgresql://([\w-]+):(\d+)/(\w+)", task.target.url)
    assert found
    return found[1], found[2], found[3]


def tables(service: str) -> dict[str, list[str]]:
    """Table -> names of its columns, in order."""
    found = TABLE.findall(init_text(service))
    return {
        table: [
            line.split()[0] for line in body.splitlines() if line and "PRIMARY KEY (" not in line
        ]
        for table, body in found
    }


# ---- Dockerfile


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continued lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words, of the JSON form or of the other."""
        return list(json.loads(self.text)) if self.text.startswith("[") else shlex.split(self.text)


def instructions() -> list[Instruction]:
    """What the Dockerfile says, without remarks."""
    lines = [
        line
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line]


def of(name: str) -> list[Instruction]:
    return [instruction for instruction in instructions() if instruction.name == name]


def is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path of the repository from the build."""
    patterns = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    parts = path.split("/")
    above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    return any(
        fnmatch(part, pattern.removeprefix("**/"))
        if pattern.startswith("**/")
        else fnmatch(part, pattern)
        for pattern in patterns
        for part in (parts if pattern.startswith("**/") else above)
    )


def test_every_package_and_the_build_files_are_copied() -> None:
    copied = [
        word
        for instruction in of("COPY")
        if "--from" not in instruction.text
        for word in instruction.words[:-1]
    ]
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    folders = {
        folder.split("/")[0] for folder in dict(lines(config["options"]["package_dir"])).values()
    }
    assert {word for word in copied if (ROOT / word).is_dir()} == folders
    assert {
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
        config["metadata"]["long_description"].split()[-1],
    } <= set(copied)
    assert [word for word in copied if not (ROOT / word).exists() or is_ignored(word)] == []


def lines(text: str) -> list[tuple[str, str]]:
    """`a = b` lines of a setting."""
    pairs = (line.partition("=") for line in text.strip().splitlines())
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def test_what_is_no_part_of_the_image_is_not_sent_to_the_build() -> None:
    for path in (
        ".git/config",
        ".env",
        ".venv/bin/python",
        "tests/conftest.py",
        "ops/docker/tasks",
        "ops/kubernetes",
        "plugins/__pycache__/errors.pyc",
        "producer/publish/_native.abi3.so",
    ):
        assert is_ignored(path), path
    assert not is_ignored("ops/cli/main.py")


def test_the_image_starts_cdcbus_as_a_user_without_rights() -> None:
    [entry_point] = of("ENTRYPOINT")
    assert entry_point.words[-1] == "cdcbus"
    (user,) = of("USER")
    assert f"useradd --create-home --uid 1000 {user.text}" in [run.text for run in of("RUN")]
    assert instructions().index(user) > max(
        index for index, each in enumerate(instructions()) if each.name == "RUN"
    )


def test_the_first_process_reaps_what_others_have_left_wherever_the_image_runs() -> None:
    """Kubernetes has no setting as `init: true` of Compose."""
    [entry_point] = of("ENTRYPOINT")
    assert entry_point.words[:-1] == ["tini", "-s", "--"]
    [packages] = [run.words for run in of("RUN") if "apt-get" in run.text]
    assert "tini" in packages
    assert [name for name in TASKS if {"init", "entrypoint"} & SERVICES[name].keys()] == []


def test_the_base_images_are_named_exactly_and_of_one_version() -> None:
    assert [instruction.text for instruction in of("FROM")] == [
        "python:3.11-bookworm AS built",
        "python:3.11-slim-bookworm",
    ]


def test_the_command_lines_are_ones_that_cdcbus_has() -> None:
    """`cdcbus task run FILE --help` is answered without running FILE."""
    for name in TASKS:
        result = CliRunner().invoke(main, [*SERVICES[name]["command"], "--help"])
        assert result.exit_code == 0, result.output

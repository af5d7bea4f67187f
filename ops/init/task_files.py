"""The two task files of a copy, and the file of its passwords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from cdcbus.ops.cli.new_file import write_new
from cdcbus.ops.cli.task.new import answers_of, text_of
from cdcbus.ops.init.server import Server
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.read_task import inspect_text

SOURCE_VARIABLE, TARGET_VARIABLE = "SOURCE_PASSWORD", "TARGET_PASSWORD"
FETCH_ENDING = "-to-kafka.properties"
LOAD_ENDINGS = ("-to-postgresql.properties", "-to-mysql.properties")


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of a copy are."""

    folder: Path
    name: str
    kind: str

    @property
    def fetch(self) -> Path:
        return self.folder / f"{self.name}{FETCH_ENDING}"

    @property
    def load(self) -> Path:
        return self.folder / f"{self.name}-to-{self.kind}.properties"

    @property
    def passwords(self) -> Path:
        return self.folder / f"{self.name}.passwords"


def found_files(folder: Path, name: str | None) -> list[Files]:
    """The copies that an earlier call has written completely; `name`: only this one."""
    found = []
    for fetch in sorted(folder.glob(f"*{FETCH_ENDING}")):
        own = fetch.name.removesuffix(FETCH_ENDING)
        for ending in LOAD_ENDINGS:
            if name in (None, own) and (folder / f"{own}{ending}").exists():
                kind = ending.removeprefix("-to-").removesuffix(".properties")
                found.append(Files(folder, own, kind))
    return found


@dataclass(frozen=True, slots=True)
class Copy:
    """What is copied, from where to where. `tables`: as `cdcbus task new` takes them, such as
    shop.*; `target_schema`: the target's name for their one schema; empty: each keeps its name.
    `variables`: passwords that the environment has, which are in no file."""

    name: str
    source: Server
    target: Server
    kafka: str
    topic: str
    tables: str
    schema: str
    target_schema: str
    partitions: int = 1
    replicas: int = 1
    variables: frozenset[str] = field(default=frozenset())

    def passwords(self) -> dict[str, str]:
        """The passwords by the names of their variables."""
        return {
            SOURCE_VARIABLE: self.source.password or "",
            TARGET_VARIABLE: self.target.password or "",
        }


def texts(copy: Copy, files: Files, places: Mapping[str, str]) -> dict[Path, str]:
    """Both texts by file. `places`: where each password is, as a placeholder; an empty password has
    none."""
    secrets = copy.passwords()
    passwords = dict.fromkeys(secrets, "")
    for name, secret in secrets.items():
        if secret:
            passwords[name] = places[name]
    fetch_keys = {
        "consumer.source.password": passwords[SOURCE_VARIABLE],
        "consumer.snapshot": "initial",
        "loader.source.oggJson": "false",
        "loader.source.createTopic": f"{copy.partitions}:{copy.replicas}",
    }
    load_keys = {
        "consumer.converter": "canalRow",
        "loader.source.password": passwords[TARGET_VARIABLE],
    }
    return {
        files.fetch: text_of(files.fetch, _fetch_answers(copy, files), fetch_keys),
        files.load: text_of(files.load, _load_answers(copy, files), load_keys),
    }


def _fetch_answers(copy: Copy, files: Files) -> dict[str, str]:
    given = {
        "id": files.fetch.stem,
        "source": copy.source.address,
        "source_user": copy.source.user,
        "servers": copy.kafka,
        "topic": copy.topic,
        "tables": copy.tables,
    }
    return answers_of("mysql->kafka", {**_NO_ANSWERS, **given})


def _load_answers(copy: Copy, files: Files) -> dict[str, str]:
    given = {
        "id": files.load.stem,
        "servers": copy.kafka,
        "topic": copy.topic,
        # The fetch task has chosen the tables already.
        "tables": "",
        "target": copy.target.address,
        "target_database": copy.target.database,
        "target_user": copy.target.user,
        "source_schema": copy.schema if copy.target_schema else "",
        "target_schema": copy.target_schema or None,
    }
    return answers_of(f"kafka->{copy.target.kind}", {**_NO_ANSWERS, **given})


# `answers_of` expects a value for each question, None also for those of other routes.
_NO_ANSWERS: dict[str, str | None] = dict.fromkeys(
    (
        "id",
        "source",
        "source_user",
        "servers",
        "topic",
        "tables",
        "target",
        "target_topic",
        "target_database",
        "target_user",
        "source_schema",
        "target_schema",
    )
)


def in_environment() -> dict[str, str]:
    """Each password as a placeholder of its variable."""
    return {name: f"${{env:{name}}}" for name in (SOURCE_VARIABLE, TARGET_VARIABLE)}


def places_of(copy: Copy, files: Files) -> dict[str, str]:
    """Where the passwords must be: in the environment if they came from it, else in the file of
    passwords. Raises ConfigError where that file cannot be named in a task file."""
    file = str(files.passwords.absolute())
    places = in_environment()
    for name in places:
        if name not in copy.variables:
            if set(file) & set(":}"):
                raise ConfigError(
                    f"folder {files.folder.absolute()} has a : or a }} in its name, and a task "
                    f"file cannot name a file in it: give another --folder, or set {name}"
                )
            places[name] = f"${{file:{file}:{name}}}"
    return places


def kept_passwords(files: Files) -> dict[str, str]:
    """The passwords in the file of passwords; empty if it does not exist. Raises ConfigError."""
    try:
        return dict(javaproperties.loads(files.passwords.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{files.passwords} cannot be read ({type(error).__name__}); check its rights, or "
            "remove it"
        ) from None


def keep_passwords(files: Files, passwords: Mapping[str, str]) -> None:
    """Writes passwords, readable for their owner only, beside those of other keys in the file."""
    text = javaproperties.dumps({**kept_passwords(files), **passwords}, timestamp=False)
    write_new(files.passwords, text, force=True, is_secret=True)


def changed_keys(old: str, new: str) -> list[str]:
    """The keys in which two texts differ."""
    # A key that only one of them has differs as well.
    different = _written(old).items() ^ _written(new).items()
    return sorted({key for key, _ in different})


def _written(text: str) -> dict[str, str]:
    return {key: entry.written for key, entry in inspect_text(text).entries.items()}

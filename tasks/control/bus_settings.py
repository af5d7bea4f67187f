"""The settings that all tasks and commands share: command line > environment >
`cdcbus.properties` > default."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.spark.settings import SETTINGS as SPARK_SETTINGS
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Diagnostic, Diagnostics, Severity
from cdcbus.tasks.config.encryption import KEY_FILE, KEY_FILE_VARIABLE
from cdcbus.tasks.config.keys.allow_lists import (
    ENVIRONMENT,
    FILES,
    FILLED_ENVIRONMENT,
    MODULES,
    OWN_FILES,
    OWN_VARIABLES,
)
from cdcbus.tasks.config.keys.bus import (
    ALARM_KEYS,
    BUS_KEYS,
    OIDC_KEYS,
    PROMETHEUS_KEYS,
    SPARK_KEY,
    nearest_bus_key,
)
from cdcbus.tasks.config.keys.definition import Key, by_name
from cdcbus.tasks.config.keys.plugins import CHANNEL_KEY, CHANNELS, find_channel_key
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.config.named_sources import (
    Lookup,
    NamedSource,
    find_source_key,
    first_of,
    in_folders,
    nearest_source_key,
    source_folders,
    unknown_keys,
)
from cdcbus.tasks.config.parser import (
    Entry,
    Vocabulary,
    is_inline_secret,
    is_secret,
    read_text,
    written_entries,
)
from cdcbus.tasks.config.placeholders import interpolate, masked, places_of
from cdcbus.tasks.control.oidc import OidcSettings, find_group_key, oidc_of
from cdcbus.tasks.control.people import Person, find_person_key, people_of
from cdcbus.tasks.zookeeper.lock import LockTimes
from cdcbus.tasks.zookeeper.source_registry import source_nodes

FILE_NAME = "cdcbus.properties"
# Of a URL, up to the last @: a password may hold / or ? although it must not.
LOGIN = re.compile(r"^([a-z+.-]+://).*@", re.DOTALL)
FILE_VARIABLE = "CDCBUS_CONFIG"
DEFAULT = "default"
# porter's form of named sources in its own configuration.
SOURCE_KEY = re.compile(r"porter\.source\.([^.]+)\.(.+)", re.DOTALL)


def _find_key(written: str) -> Key | None:
    if found := SOURCE_KEY.fullmatch(written):
        return find_source_key(found[2])
    if written in BUS_KEYS:
        return BUS_KEYS[written]
    own = find_person_key(written) or find_group_key(written) or find_channel_key(written)
    if own:
        return own
    if SPARK_KEY.matches(written):
        return SPARK_KEY
    return None


def _nearest_key(written: str) -> str | None:
    if found := SOURCE_KEY.fullmatch(written):
        return nearest_source_key(found[2])
    return nearest_bus_key(written)


VOCABULARY = Vocabulary(_find_key, _nearest_key)


@dataclass(frozen=True, slots=True)
class BusSetting:
    """One setting. `written`: its text before placeholders are filled. `origin`: where it comes
    from, in words."""

    key: Key
    written: str = field(repr=False)
    origin: str

    @property
    def shown(self) -> str:
        """The text with secrets masked."""
        if self.is_secret:
            return masked(self.written)
        return LOGIN.sub(r"\1***@", self.written)

    @property
    def is_secret(self) -> bool:
        """Whether the text, or what fills its placeholders, must not be shown."""
        name = self.key.name
        # An option of Spark's is a key of any name, which decides.
        known = None if SPARK_KEY.matches(name) else self.key
        return is_secret(name, known) or is_inline_secret(name, known, self.written)

    def value(self, environ: Mapping[str, str]) -> Any:
        """The typed value; None for an empty text. Raises ConfigError that names the origin."""
        if not self.written:
            return None
        place = f"{self.origin}: {self.key.name}"
        try:
            text = interpolate(self.written, environ)
        except ValueError as error:
            raise ConfigError(f"{place}: {error}") from error
        try:
            return self.key.value_type.read(text)
        except ValueError as error:
            value_type = self.key.value_type
            raise ConfigError(
                f"{place}: wrong value; expected {value_type.expected}; example: "
                f"{self.key.name}={value_type.example}"
            ) from error


@dataclass(frozen=True, slots=True)
class BusSettings:
    """All settings by key, the named sources of their file, and the file's warnings. Placeholders
    are filled when a value is read, so that a command needs only the secrets that it uses."""

    settings: Mapping[str, BusSetting]
    environ: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...] = ()
    sources: Mapping[str, NamedSource] = field(default_factory=dict, repr=False)
    file: Path | None = None

    @property
    def zookeeper(self) -> str:
        """The address, with its chroot."""
        return str(self._value("zookeeper") or "")

    @property
    def zookeeper_auth(self) -> str | None:
        """`user:password` for ZooKeeper; None where it is not set."""
        auth: str | None = self._value("zookeeper.auth")
        return auth

    @property
    def lock_times(self) -> LockTimes:
        """The session and lease times. Raises ConfigError where they do not fit together."""
        session_seconds: int = self._value("zookeeper.sessionSeconds")
        lease_seconds: int | None = self._value("zookeeper.leaseSeconds")
        # The default, 4 s of 6 s, in the same proportion for longer sessions.
        return LockTimes(session_seconds, lease_seconds or session_seconds * 2 / 3)

    def in_force(self, name: str) -> tuple[str, str]:
        """What to show of a setting: its value and where it comes from, also where it is unset and
        taken from elsewhere."""
        setting = self.settings[name]
        substitute = SUBSTITUTES.get(name)
        if not setting.written and substitute is not None:
            with suppress(ConfigError):  # which `errors` says
                return substitute.value(self), substitute.origin
        return setting.shown, setting.origin

    @property
    def sources_directory(self) -> str:
        """The folder of named sources; empty where it is not set."""
        return str(self._value("sources.directory") or "")

    @property
    def node_id(self) -> str:
        return str(self._value("node.id") or socket.gethostname())

    @property
    def node_work_limit(self) -> int:
        return int(self._value("node.workLimit"))

    @property
    def node_logs(self) -> Path:
        return Path(self._value("node.logDirectory"))

    def log_of(self, name: str) -> Path:
        """The file where a node with these settings writes the log of a task."""
        return log_of(self.node_logs.absolute(), name)

    @property
    def http_bind(self) -> tuple[str, int] | None:
        """The host and port where a node serves its pages; None: nowhere."""
        bind: tuple[str, int] | None = self._value("http.bind")
        return bind

    @property
    def http_token(self) -> str | None:
        token: str | None = self._value("http.token")
        return token

    @property
    def http_people(self) -> tuple[Person, ...]:
        """The people with tokens of their own. Raises ConfigError where their settings conflict."""
        return people_of(self._values("http.token", *filter(find_person_key, self.settings)))

    @property
    def http_oidc(self) -> OidcSettings | None:
        """The provider that people sign in through; None where none is set. Raises ConfigError
        where its settings conflict."""
        groups = filter(find_group_key, self.settings)
        return oidc_of(self._values(*by_name(OIDC_KEYS), *groups))

    @property
    def http_closed(self) -> bool:
        """Whether every page needs a token, or a session."""
        # With a provider, people are meant to sign in, so no page stays open.
        return bool(self._value("http.closed")) or bool(self._value("http.oidc.issuer"))

    @property
    def mail_sender(self) -> str:
        """The sender of alarms' mail."""
        return str(self._value("alarm.smtp.from") or f"cdcbus@{socket.gethostname()}")

    @property
    def alarm(self) -> dict[str, Any]:
        """The settings `alarm.*` by key, including those of channels; None for an unset one that
        nothing takes the place of."""
        channels = filter(find_channel_key, self.settings)
        found = self._values(*by_name(ALARM_KEYS), *channels)
        return {**found, "alarm.smtp.from": self.mail_sender}

    @property
    def prometheus(self) -> dict[str, Any]:
        """The settings `prometheus.*` by the rest of their keys; None for an unset one."""
        found: dict[str, Any] = {}
        for name, value in self._values(*by_name(PROMETHEUS_KEYS)).items():
            found[name.removeprefix("prometheus.")] = value
        return found

    @property
    def child_environment(self) -> dict[str, str]:
        """The environment that gives a `cdcbus` command these settings, except a password that
        was given to this command only."""
        environment = {**self.environ, variable_of("zookeeper"): self.zookeeper}
        # Absolute, as the child may run in another folder.
        if self.file is not None:
            environment[FILE_VARIABLE] = str(self.file.absolute())
        return environment

    @property
    def filling(self) -> Mapping[str, str]:
        """The environment that fills the placeholders of tasks and sources, with these settings'
        key file and their limits for tasks, which also keep these settings' own secrets."""
        filling = dict(self.environ)
        variables, files = self._own_secrets()
        if key_file := self._value(KEY_FILE):
            filling[KEY_FILE_VARIABLE] = key_file
            files.add(key_file)
        filling[OWN_VARIABLES] = "\n".join(sorted(variables))
        filling[OWN_FILES] = "\n".join(sorted(files))
        # Beside the variables, so that the limits hold wherever placeholders are filled.
        if self.environment:
            filling[FILLED_ENVIRONMENT] = self.environment
        for key, allowed in self.allow_lists.items():
            filling[key] = ",".join(allowed)
        return filling

    def _own_secrets(self) -> tuple[set[str], set[str]]:
        """The variables and the files that hold secrets of these settings."""
        variables, files = set(), set()
        if self.file is not None:
            files.add(str(self.file))
        for name, setting in self.settings.items():
            # Tasks get those of Spark in any case.
            if not setting.is_secret or SPARK_KEY.matches(name):
                continue
            variables.add(variable_of(name))
            for source, place in places_of(setting.written):
                (variables if source == "env" else files).add(place)
        return variables, files

    @property
    def environment(self) -> str:
        """What this installation is for; its tasks must name the same environment. Empty: unset."""
        return str(self._value(ENVIRONMENT) or "")

    @property
    def allow_lists(self) -> dict[str, tuple[str, ...]]:
        """What tasks may read and load here, by setting; a setting that allows all is left out."""
        found: dict[str, tuple[str, ...]] = {}
        for key, allowed in self._values(FILES, MODULES).items():
            if allowed:
                found[key] = allowed
        return found

    def source_lookup(self, task_file: Path | None = None) -> Lookup:
        """A lookup of named sources: in source files, then in the settings' file, and only then in
        ZooKeeper."""
        return first_of(self.local_source_lookup(task_file), self._in_zookeeper)

    def local_source_lookup(self, task_file: Path | None = None) -> Lookup:
        """The same without ZooKeeper."""
        return first_of(
            in_folders(source_folders(self.sources_directory, task_file)), self.sources.get
        )

    def _in_zookeeper(self, name: str) -> NamedSource | None:
        with source_nodes(self.zookeeper, self.zookeeper_auth) as nodes:
            return nodes.get(name)

    @property
    def spark_options(self) -> dict[str, str]:
        """The Spark settings, by their own names."""
        options = {}
        for name, setting in self.settings.items():
            if name.startswith("spark."):
                value = setting.value(self.environ)
                if value is not None:
                    options[name] = value
        return options

    def applied_to(self, task: FetchTask | LoadTask) -> FetchTask | LoadTask:
        """The task, with these Spark settings where its file has none."""
        if isinstance(task, FetchTask):
            return task
        # The task's own settings win.
        return replace(task, spark_options={**self.spark_options, **task.spark_options})

    def errors(self) -> list[str]:
        """A sentence for each setting that cannot be used."""
        found = []
        for setting in self.settings.values():
            try:
                setting.value(self.environ)
            except ConfigError as error:
                found.append(str(error))
        # Only where each setting can be read alone, as these properties combine several.
        if not found:
            try:
                _ = self.lock_times, self.http_people, self.http_oidc
            except ConfigError as error:
                found.append(str(error))
        return found

    def _value(self, name: str) -> Any:
        return self.settings[name].value(self.environ)

    def _values(self, *names: str) -> dict[str, Any]:
        """Some settings by key; None for an unset one."""
        return {name: self._value(name) for name in names}


@dataclass(frozen=True, slots=True)
class Substitute:
    """What holds where a setting is unset: a value, and where it comes from, in words."""

    value: Callable[[BusSettings], str]
    origin: str


# For each key without a default of its own whose place another value takes.
SUBSTITUTES: Final[Mapping[str, Substitute]] = {
    "zookeeper.leaseSeconds": Substitute(
        lambda bus: f"{bus.lock_times.lease_seconds:g}",
        f"{DEFAULT}: two thirds of zookeeper.sessionSeconds",
    ),
    "spark.master": Substitute(lambda _: SPARK_SETTINGS["spark.master"], DEFAULT),
    "node.id": Substitute(lambda bus: bus.node_id, f"{DEFAULT}: the host name"),
    "alarm.smtp.from": Substitute(
        lambda bus: bus.mail_sender, f"{DEFAULT}: cdcbus@ and the host name"
    ),
}


def log_of(logs: Path, name: str) -> Path:
    """The log file of a task, or of a process of a node, in the folder for these."""
    # An id with a slash must not lead out of the folder.
    return logs / f"{name.replace(os.sep, '_')}.log"


def variable_of(name: str) -> str:
    """The environment variable of a key."""
    return "CDCBUS_" + name.upper().replace(".", "_")


def read_bus_settings(
    options: Mapping[str, str],
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> BusSettings:
    """The settings. `options`: those from the command line, by key. The file is `config`, else
    $CDCBUS_CONFIG, else the one in `folder` (by default the current one) if it exists. Raises
    ConfigError when the file cannot be read or is invalid."""
    diagnostics = Diagnostics()
    file = _file(config, environ, folder or Path())
    entries: Mapping[str, Entry] = {}
    if file is not None:
        text = read_text(file, diagnostics, "settings file")
        entries = written_entries(text, diagnostics, VOCABULARY)
    errors = diagnostics.of(Severity.ERROR)
    if errors:
        raise ConfigError("\n".join(_located(diagnostic, file) for diagnostic in errors))
    settings: dict[str, BusSetting] = {}
    for name, key in _keys_for(entries).items():
        settings[name] = _setting(key, options, environ, entries, file)
    # Warned of, as an alarm that nobody receives is noticed only when it matters.
    used = split_list(settings[CHANNELS].written)
    for name, entry in entries.items():
        if (found := CHANNEL_KEY.fullmatch(name)) and found[1] not in used:
            sentence = f"without effect: {CHANNELS} does not name {found[1]}; add it there"
            diagnostics.warning(entry.line, name, sentence)
    warnings = tuple(_located(diagnostic, file) for diagnostic in diagnostics.of(Severity.WARNING))
    return BusSettings(settings, environ, warnings, _sources(entries, str(file)), file)


def _keys_for(names: Iterable[str]) -> dict[str, Key]:
    """The table of keys, and a key for each name in a file that only a pattern of it matches."""
    keys = dict(BUS_KEYS)
    for name in names:
        # The table has one key for all of them.
        if SPARK_KEY.matches(name):
            keys[name] = replace(SPARK_KEY, name=name)
        elif own := find_person_key(name) or find_group_key(name):
            keys[name] = replace(own, name=name, default="")
        elif channel_key := find_channel_key(name):
            keys[name] = channel_key
    return keys


def _sources(entries: Mapping[str, Entry], file: str) -> dict[str, NamedSource]:
    """The named sources in porter's keys `porter.source.<name>.<key>`."""
    entries_of: dict[str, dict[str, Entry]] = {}
    for written, entry in entries.items():
        if match := SOURCE_KEY.fullmatch(written):
            name, key = match.groups()
            entries_of.setdefault(name, {})[key] = replace(entry, key=key)
    sources: dict[str, NamedSource] = {}
    for name, own in entries_of.items():
        sources[name] = NamedSource(name, file, own, tuple(unknown_keys(own)))
    return sources


def _file(config: Path | None, environ: Mapping[str, str], folder: Path) -> Path | None:
    if config is not None:
        return config
    if named := environ.get(FILE_VARIABLE):
        return Path(named)
    file = folder / FILE_NAME
    if not file.exists():
        return None
    return file


def _setting(
    key: Key,
    options: Mapping[str, str],
    environ: Mapping[str, str],
    entries: Mapping[str, Entry],
    file: Path | None,
) -> BusSetting:
    """The setting from the first of option, environment, file and default that has a text. An
    empty text counts only in an option."""
    variable = variable_of(key.name)
    if key.name in options:
        return BusSetting(key, options[key.name], f"option --{key.name}")
    # An empty variable counts as unset, as Compose passes unset ones this way.
    if environ.get(variable):
        return BusSetting(key, environ[variable], f"environment variable {variable}")
    entry = entries.get(key.name)
    if entry is not None and entry.written:
        return BusSetting(key, entry.written, f"{file}:{entry.line}")
    return BusSetting(key, key.default, DEFAULT)


def _located(diagnostic: Diagnostic, file: Path | None) -> str:
    return diagnostic.located(str(file))

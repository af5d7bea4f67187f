"""Plug-ins: objects that other packages add by entry point, found by the name that settings use.

A group is a kind of plug-in. Built-in names cannot be replaced, and a name that two packages add is
refused, as it is ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, Final

from cdcbus.plugins.errors import CdcError, ConfigError


@dataclass(frozen=True, slots=True)
class Group:
    """A kind of plug-in: its name for people, and the group of its entry points."""

    what: str
    name: str


CONVERTERS: Final = Group("converter", "cdcbus.converters")
LOADERS: Final = Group("loader", "cdcbus.loaders")
PROCESSORS: Final = Group("event processor", "cdcbus.processors")
SOURCES: Final = Group("source", "cdcbus.sources")
CHANNELS: Final = Group("alarm channel", "cdcbus.alarm_channels")
GROUPS: Final = (SOURCES, CONVERTERS, PROCESSORS, LOADERS, CHANNELS)


def with_added(built_in: tuple[str, ...], group: Group) -> tuple[str, ...]:
    """All names of a group, the built-in ones first."""
    return (*built_in, *sorted(entry_points(group=group.name).names.difference(built_in)))


def is_added(name: str, group: Group) -> bool:
    """Whether another package adds this name."""
    return name in entry_points(group=group.name).names


def load_added(group: Group, name: str, known: tuple[str, ...]) -> Any:
    """The object that an entry point names. Raises ConfigError for a name that no package adds,
    listing those that are `known`, for one that two packages add, and where the import fails."""
    points = _named(group, name)
    if not points:
        raise ConfigError(f"no {group.what} is called {name}; known are {', '.join(known)}")
    if len(points) > 1:
        owners = " and ".join(sorted(map(owner, points)))
        raise ConfigError(
            f"{group.what} {name} is added by {owners}: which one is meant cannot be told; "
            "uninstall one of them"
        )
    [point] = points
    return guarded(group, point, point.load)


def _named(group: Group, name: str) -> list[EntryPoint]:
    """The entry points of a name, one for each object: a package can be found twice, as in two
    folders of Python's path."""
    points = entry_points(group=group.name, name=name)
    return list({point.value: point for point in points}.values())


def make_added(group: Group, name: str, known: tuple[str, ...], *arguments: object) -> Any:
    """The object that the named class or function makes from the arguments. Raises ConfigError as
    `load_added`, and where the call fails."""
    make = load_added(group, name, known)
    [point] = _named(group, name)
    return guarded(group, point, lambda: make(*arguments), has_settings=bool(arguments))


def guarded(
    group: Group, point: EntryPoint, do: Callable[[], Any], *, has_settings: bool = False
) -> Any:
    """Calls code of another package, which can raise anything, and turns its errors into
    ConfigError; our own errors pass unchanged. `has_settings`: the code was given settings, so its
    text is left out, as it could repeat a secret."""
    try:
        return do()
    except CdcError:
        raise
    except Exception as error:
        kind = type(error).__name__
        failure = f"{group.what} {point.name} ({point.value}) cannot be made: {kind}"
        if has_settings:
            raise ConfigError(failure) from None
        raise ConfigError(f"{failure}: {error}") from error


def owner(point: EntryPoint) -> str:
    """The package that adds an entry point, with its version."""
    package = point.dist
    if package is None:
        return "a package"
    return f"{package.name} {package.version}"


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed entry point."""

    kind: str
    name: str
    value: str
    # The package that adds it, with its version.
    package: str
    # Why it cannot be used, as a sentence; empty: it can be imported.
    trouble: str = ""


def installed(built_in: Callable[[Group], tuple[str, ...]]) -> list[Plugin]:
    """All plug-ins of this environment, by group and name. Imports each of them."""
    found = []
    for group in GROUPS:
        for point in sorted(entry_points(group=group.name), key=attrgetter("name")):
            trouble = _trouble(group, point, built_in(group))
            found.append(Plugin(group.what, point.name, point.value, owner(point), trouble))
    return found


def _trouble(group: Group, point: EntryPoint, built_in: tuple[str, ...]) -> str:
    if point.name in built_in:
        return f"{point.name} is a built-in name and stays so: the package must choose another"
    try:
        load_added(group, point.name, ())
    except CdcError as error:
        return str(error)
    return ""

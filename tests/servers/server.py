"""A server of some version that runs for a while, its binlog as tests of the source want it."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pymysql

from cdcbus.ops.stack.addresses import Database
from tests.servers.packages import Deb, Maven, NotHad, Programs
from tests.support.waiting import wait_until

USER, PASSWORD = "cdc", "cdc-pass"
_COMMON = """
    log-bin=mysql-bin binlog_format=ROW binlog_row_image=FULL server-id=1 skip-name-resolve character-set-server=utf8mb4
    default-time-zone=+00:00 max_connections=100 max_allowed_packet=64M innodb_flush_log_at_trx_commit=0 sync_binlog=0
"""
_MYSQL = ("gtid-mode=ON", "enforce-gtid-consistency=ON", "mysqlx=OFF", "binlog_row_metadata=FULL")
# The scripts of its installation, whichever of them a release has, under whichever name.
_SCRIPTS = (
    "system_tables",
    "performance_tables",
    "system_tables_data",
    "maria_add_gis_sp_bootstrap",
    "sys_schema",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` begins with its kind, MySQL or MariaDB, and says its release. `is_old`: it does not
    know all statements of the tests."""

    name: str
    source: Maven | Deb
    is_old: bool = False

    @contextmanager
    def running(self, *options: str) -> Iterator[Database]:
        """A new one, empty but for its user. Raises NotHad."""
        programs = self.source.programs()
        with tempfile.TemporaryDirectory(prefix="cdcbus-server-") as home:
            folder = Path(home)
            port = _free_port()
            command = self._prepare(programs, folder, port, options)
            with (folder / "server.log").open("wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
            try:
                login = {"host": "127.0.0.1", "port": port, "user": USER, "password": PASSWORD}

                def answers() -> bool:
                    if process.poll() is not None:
                        raise NotHad(f"{self.name} ends at its start: {_last_lines(folder)}")
                    try:
                        pymysql.connect(**login).close()  # type: ignore[call-overload]
                    except pymysql.Error:
                        return False
                    return True

                wait_until(answers, f"{self.name} in {folder}", 60)
                yield Database("127.0.0.1", port, USER, PASSWORD, "")
            finally:
                process.terminate()
                process.wait(60)

    def _prepare(
        self, programs: Programs, folder: Path, port: int, options: Sequence[str]
    ) -> list[str]:
        """The command that starts it; its data folder is made."""
        is_mysql = self.name.startswith("MySQL")
        data = folder / "data"
        first = [
            *programs.command,
            "--no-defaults",
            f"--basedir={programs.basedir}",
            f"--lc-messages-dir={programs.share}",
        ]
        first += [
            f"--character-sets-dir={programs.share / 'charsets'}",
            f"--datadir={data}",
            f"--tmpdir={folder}",
        ]
        first += ["--user=root"] if os.getuid() == 0 else []
        grants = (
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL ON *.* TO "
            f"'{USER}'@'%' WITH GRANT OPTION;\n"
        )
        more = [f"--init-file={folder / 'init.sql'}"]
        if is_mysql:
            _run([*first, "--initialize-insecure"], "", folder)
        else:
            data.mkdir()
            (data / "mysql").mkdir()
            _run(
                [*first, "--bootstrap", "--skip-log-bin", "--log-warnings=0"],
                _bootstrap(programs.share),
                folder,
            )
        (folder / "init.sql").write_text(
            grants.replace("CREATE USER", "CREATE USER IF NOT EXISTS"), encoding="utf-8"
        )
        own = [*_COMMON.split(), *(_MYSQL if is_mysql else ())]
        place = [
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={folder / 'socket'}",
            f"--pid-file={folder / 'pid'}",
            "--secure-file-priv=",
        ]
        return [*first, *place, *more, *(f"--{option}" for option in own), *options]


def _bootstrap(share: Path) -> str:
    found = [
        path
        for name in _SCRIPTS
        for prefix in ("mariadb_", "mysql_", "")
        if (path := share / f"{prefix}{name}.sql").exists()
    ]
    lines = [line for path in found for line in path.read_text(encoding="utf-8").splitlines()]
    # Root of itself alone, and nobody without a name; old releases also make a root for the
    # machine's name, which may be localhost.
    users = (
        "SET @auth_root_socket = 'root', @skip_auth_root_nopasswd = 1, @skip_auth_anonymous = 1;"
    )
    return "\n".join(
        ["USE mysql;", users, *(line for line in lines if "@current_hostname" not in line), ""]
    )


def _run(command: Sequence[str], text: str, folder: Path) -> None:
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, cwd=folder, check=False
    )
    if done.returncode:
        raise NotHad(
            "a server's data cannot be made: "
            f"{(done.stderr or done.stdout).decode('utf-8', 'replace')[-500:]}"
        )


def _last_lines(folder: Path) -> str:
    return " ".join((folder / "server.log").read_text(errors="replace").splitlines()[-5:])


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])

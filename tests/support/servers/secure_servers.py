"""Certificates, and servers of the stack's programs that want TLS or a login."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cdcbus.consumer.jvm.maven import fetch
from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.server import NotAnswering, Server, ServerFolder
from tests.contract.position_store import eventually

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates into a folder."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, folder: Path, name: str) -> Authority:
        """An authority that nobody else knows; its own certificate is `ca`."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority = cls(folder, _signed(name, name, key, key, is_authority=True), key)
        authority.ca.write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
        return authority

    @property
    def _name(self) -> str:
        return str(self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    @property
    def ca(self) -> Path:
        return self.folder / f"{self._name}.pem"

    def issue(self, name: str) -> Path:
        """A PEM file with key and certificate for `name` at 127.0.0.1, not at localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(name, self._name, key, self.key, is_authority=False)
        file = self.folder / f"{name}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        file.chmod(0o600)
        return file


def _signed(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False
        )
    )
    if not is_authority:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
    return builder.sign(by, hashes.SHA256())


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that the databases' user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="cdcbus-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def place_of(server: Server, folder: Path, plan: Plan) -> ServerFolder:
    """Where the server will be. Downloads its program, if no stack of this machine has needed it."""
    if server.jars is not None:
        fetch([server.jars])
    return ServerFolder(
        folder / server.name, plan, processes.unprivileged() if server.is_database else None
    )


@contextmanager
def running(
    server: Server, place: ServerFolder, *options: str, settings: Sequence[str] = ()
) -> Iterator[None]:
    """The server, with more options on its command line, or more lines in the file of settings
    that ends it; it answers."""
    place.folder.mkdir()
    with processes.umask(0o022):
        command = server.prepare(place)
    if settings:
        with Path(command[-1]).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in settings)
    processes.start(place.folder, [*command, *options], place.account)
    try:
        log = processes.log_file(place.folder)
        assert eventually(lambda: answers(server, place), START_SECONDS), log.read_text(
            errors="replace"
        )[-3000:]
        yield
    finally:
        processes.kill(place.folder)


def answers(server: Server, place: ServerFolder) -> bool:
    """Whether it serves clients."""
    try:
        server.check(place)
    except NotAnswering:
        return False
    return True

"""TLS to MySQL and MariaDB: the modes of their own clients, as PyMySQL takes them."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.files.file_times import are_written_since, note_readable, written_at

LOG = logging.getLogger(__name__)


class TlsMode(StrEnum):
    """What a connection insists on. Only the last two check the server's certificate."""

    DISABLED = "disabled"
    # Encrypts where the server can.
    PREFERRED = "preferred"
    REQUIRED = "required"
    # The certificate's issuer must be known.
    VERIFY_CA = "verify-ca"
    # It must also name the host.
    VERIFY_IDENTITY = "verify-identity"

    @property
    def is_verifying(self) -> bool:
        return self in (TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY)


@dataclass(frozen=True, slots=True)
class MysqlTls:
    """TLS settings; paths are of PEM files."""

    mode: TlsMode = TlsMode.PREFERRED
    # Empty: the issuers that the system knows.
    ca: str = ""
    # The client's own, if it has them.
    certificate: str = ""
    key: str = ""

    def driver_arguments(self) -> dict[str, Any]:
        """PyMySQL's arguments. Reads the files; raises ConfigError naming the one that cannot be
        used."""
        if self.mode is TlsMode.DISABLED:
            return {"ssl_disabled": True}
        if self == BY_ITSELF:
            return {}
        times = self.files_written_at()
        context = self._context()
        note_readable(times)
        # With a context, the driver insists on TLS.
        return {"ssl": context}

    def is_renewed(self) -> bool:
        """Whether the task has used these files, and one was written since: what is wrong with it
        may pass, as a certificate is renewed first and its key then."""
        return are_written_since(self.files_written_at())

    def files_written_at(self) -> dict[str, int]:
        """As `file_times.written_at`, of all files that are named."""
        return written_at(filter(None, (self.ca, self.certificate, self.key)))

    def _context(self) -> ssl.SSLContext:
        """The context for these settings. The driver's own options would not check the host's name
        without a `ca`."""
        if self.mode.is_verifying or self.ca:
            context = self._checking_context()
        else:
            context = unchecked_context()
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key or None, password=_no_password)
            except OSError as error:
                files = " and ".join(filter(None, (self.certificate, self.key)))
                raise ConfigError(
                    f"{files}: no client certificate and key in PEM form "
                    f"({error.strerror or error})"
                ) from error
        return context

    def _checking_context(self) -> ssl.SSLContext:
        """Reads the CA certificates, also where they are not used, so that a file that is none is
        known."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
        except OSError as error:
            raise ConfigError(
                f"{self.ca}: no file of CA certificates in PEM form ({error.strerror or error})"
            ) from error
        # The certificates that MySQL generates would not pass the strict check.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = self.mode is TlsMode.VERIFY_IDENTITY
        context.verify_mode = ssl.CERT_REQUIRED if self.mode.is_verifying else ssl.CERT_NONE
        return context


class CurrentTls:
    """PyMySQL's arguments with the certificates that are on disk, for connections that are made one
    after the other. Thread-safe."""

    def __init__(self, tls: MysqlTls) -> None:
        """Raises ConfigError as `driver_arguments`."""
        self._tls = tls
        # When the files had been written that were read last.
        self.read_at = tls.files_written_at()
        self._arguments = tls.driver_arguments()
        # The state of the files that was warned of.
        self._warned_of: dict[str, int] = {}

    def driver_arguments(self) -> dict[str, Any]:
        """The arguments; those of before while renewed files cannot be used."""
        times = self._tls.files_written_at()
        if times != self.read_at:
            try:
                self._arguments = self._tls.driver_arguments()
            except ConfigError as error:
                if times != self._warned_of:
                    self._warned_of = times
                    LOG.warning(
                        "connections are made with the certificates of before: %s; check that "
                        "certificate and key belong together",
                        error,
                    )
            else:
                self.read_at = times
        return self._arguments


def unchecked_context() -> ssl.SSLContext:
    """A context that encrypts and checks no certificate, so it loads none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


BY_ITSELF: Final = MysqlTls()
"""What MysqlConnection does by default."""
TLS_ERRORS: Final = frozenset((2026, 3159))
"""Error numbers: the server does not support encryption, the server requires it."""


def is_tls_refusal(error: BaseException) -> bool:
    """Whether PyMySQL failed to connect because one side does not accept the other's certificate or
    version; a cut connection is not a refusal."""
    cause = getattr(error, "original_exception", None)
    return isinstance(cause, ssl.SSLError) and not isinstance(
        cause, ssl.SSLEOFError | ssl.SSLZeroReturnError
    )


def _no_password() -> str:
    """An empty password, so that OpenSSL does not ask at the terminal."""
    return ""

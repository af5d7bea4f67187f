"""The keys `consumer.source.ssl*`: how the connection to the source is encrypted, and whether the
keys are consistent."""

from __future__ import annotations

from pathlib import Path

from cdcbus.plugins.mysql_tls import MysqlTls, TlsMode
from cdcbus.tasks.config.keys.types import TEXT, TLS_MODE
from cdcbus.tasks.config.settings import Settings

MODE, CA, CERTIFICATE, KEY = (
    f"consumer.source.{name}" for name in ("sslMode", "sslCa", "sslCert", "sslKey")
)


def source_tls(settings: Settings) -> MysqlTls:
    """The TLS settings of the source. Reports inconsistent keys and missing files."""
    ca, certificate, key = (settings.get(name, TEXT) or "" for name in (CA, CERTIFICATE, KEY))
    mode = settings.get(MODE, TLS_MODE) or _default_mode(ca, certificate)
    if ca and not mode.is_verifying:
        settings.reject(
            CA,
            f"without effect with sslMode={mode}, which checks no certificate; expected "
            "verify-ca or verify-identity",
        )
    if certificate and mode in (TlsMode.DISABLED, TlsMode.PREFERRED):
        settings.reject(
            CERTIFICATE,
            f"needs TLS, which sslMode={mode} does not guarantee; expected required, verify-ca or "
            "verify-identity",
        )
    for name, other, is_alone in (
        (CERTIFICATE, KEY, certificate and not key),
        (KEY, CERTIFICATE, key and not certificate),
    ):
        if is_alone:
            settings.reject(
                name,
                f"without {other}; expected both, as PEM files; example: "
                f"{other}=/etc/cdcbus/client.pem",
            )
    for name, file in ((CA, ca), (CERTIFICATE, certificate), (KEY, key)):
        if file and not Path(file).is_file():
            # Only a warning: a file is often checked on a machine other than the node's.
            settings.warn(
                name,
                "no such file on this machine; the task stops where it runs without the file",
            )
    return MysqlTls(mode, ca, certificate, key)


def _default_mode(ca: str, certificate: str) -> TlsMode:
    """The strictest mode that the files allow."""
    if ca:
        return TlsMode.VERIFY_CA
    return TlsMode.REQUIRED if certificate else TlsMode.PREFERRED

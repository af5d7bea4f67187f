"""The keys `consumer.source.ssl*`: how the connection to the source is encrypted, and whether the
keys are consistent."""

from __future__ import annotations

from pathlib import Path

from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode
from cdcbus.tasks.config.keys.types import TEXT, TLS_MODE
from cdcbus.tasks.config.settings import Settings

MODE = "consumer.source.sslMode"
CA = "consumer.source.sslCa"
CERTIFICATE = "consumer.source.sslCert"
KEY = "consumer.source.sslKey"


def source_tls(settings: Settings) -> MysqlTls:
    """The TLS settings of the source. Reports inconsistent keys and missing files."""
    ca = settings.get(CA, TEXT) or ""
    certificate = settings.get(CERTIFICATE, TEXT) or ""
    key = settings.get(KEY, TEXT) or ""
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
    if certificate and not key:
        _reject_alone(settings, CERTIFICATE, KEY)
    if key and not certificate:
        _reject_alone(settings, KEY, CERTIFICATE)
    for name, file in ((CA, ca), (CERTIFICATE, certificate), (KEY, key)):
        if file and not Path(file).is_file():
            # Only a warning: a file is often checked on a machine other than the node's.
            settings.warn(
                name,
                "no such file on this machine; the task stops where it runs without the file",
            )
    return MysqlTls(mode, ca, certificate, key)


def _reject_alone(settings: Settings, name: str, other: str) -> None:
    settings.reject(
        name,
        f"without {other}; expected both, as PEM files; example: {other}=/etc/cdcbus/client.pem",
    )


def _default_mode(ca: str, certificate: str) -> TlsMode:
    """The strictest mode that the files allow."""
    if ca:
        return TlsMode.VERIFY_CA
    if certificate:
        return TlsMode.REQUIRED
    return TlsMode.PREFERRED

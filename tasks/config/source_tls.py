"""The keys `consumer.source.ssl*`: how the connection to the source is encrypted, and whether
the keys go together."""

from __future__ import annotations

from pathlib import Path

from cdcbus.plugins.mysql_tls import MysqlTls, TlsMode
from cdcbus.tasks.config.keys.types import TEXT, TLS_MODE
from cdcbus.tasks.config.settings import Settings

MODE, CA, CERTIFICATE, KEY = (
    f"consumer.source.{name}" for name in ("sslMode", "sslCa", "sslCert", "sslKey")
)


def source_tls(settings: Settings) -> MysqlTls:
    """What the keys say; keys that do not go together are reported, and files that are not here."""
    ca, certificate, key = (settings.get(name, TEXT) or "" for name in (CA, CERTIFICATE, KEY))
    otherwise = TlsMode.VERIFY_CA if ca else TlsMode.REQUIRED if certificate else TlsMode.PREFERRED
    mode = settings.get(MODE, TLS_MODE) or otherwise
    if ca and not mode.is_verifying:
        settings.reject(
            CA,
            f"without effect with sslMode={mode}, which looks at no certificate; expected "
            "verify-ca or verify-identity",
        )
    if certificate and mode in (TlsMode.DISABLED, TlsMode.PREFERRED):
        settings.reject(
            CERTIFICATE,
            f"needs TLS, which sslMode={mode} does not promise; expected required, verify-ca or "
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
            settings.warn(
                name,
                "there is no such file on this machine; the task stops where it is run without it",
            )
    return MysqlTls(mode, ca, certificate, key)

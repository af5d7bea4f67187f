"""Converts the TLS parameters of the JDBC drivers of MySQL and MariaDB. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders.dialects.jdbc_address import refused
from cdcbus.plugins.loaders.dialects.jdbc_parameters import ignored, is_true
from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode

CA_STORES: Final = ("trustcertificatekeystoreurl", "truststore")
CA_REMEDY: Final = "name the issuers' certificates as one PEM file: serverSslCert=/path/ca.pem"
CERTIFICATE_STORES: Final = ("clientcertificatekeystoreurl", "keystore")
CERTIFICATE_REMEDY: Final = "name certificate and key as one PEM file: keyStore=/path/client.pem"
MYSQL_TLS_MODES: Final = {mode.value: mode for mode in TlsMode} | {
    "disable": TlsMode.DISABLED,
    "trust": TlsMode.REQUIRED,
    "verify-full": TlsMode.VERIFY_IDENTITY,
}
"""MySQL's names, and MariaDB's that differ."""
MYSQL_TLS_PARAMETERS: Final = ignored(
    "sslmode usessl requiressl verifyservercertificate trustservercertificate "
    "disablesslhostnameverification serversslcert trustcertificatekeystoreurl "
    "trustcertificatekeystoretype trustcertificatekeystorepassword clientcertificatekeystoreurl "
    "clientcertificatekeystoretype clientcertificatekeystorepassword truststore truststoretype "
    "truststorepassword keystore keystoretype keystorepassword keypassword "
    "fallbacktosystemtruststore fallbacktosystemkeystore enabledtlsprotocols tlsversions "
    "enabledsslprotocolsuites tlsciphersuites enabledsslciphersuites"
)
"""The parameters that `mysql_tls` reads, or that have no meaning outside of Java."""


def mysql_tls(parameters: Mapping[str, str], is_mariadb: bool, target: JdbcTarget) -> MysqlTls:
    """Converts the TLS parameters of MySQL's and MariaDB's drivers; a mode overrides the older
    switches."""
    mode = _mode(parameters, is_mariadb, target)
    ca = ""
    if mode.is_verifying:
        stored = _pem_file(parameters, CA_STORES, CA_REMEDY, target)
        ca = _file(parameters, "serversslcert") or stored
    certificate = _pem_file(parameters, CERTIFICATE_STORES, CERTIFICATE_REMEDY, target)
    if mode is TlsMode.DISABLED:
        return MysqlTls(mode)
    # without TLS the server would not see who the client is
    if mode is TlsMode.PREFERRED and certificate:
        mode = TlsMode.REQUIRED
    return MysqlTls(mode, ca, certificate)


def _pem_file(
    parameters: Mapping[str, str], names: Sequence[str], remedy: str, target: JdbcTarget
) -> str:
    """The first file that these parameters name. Raises ConfigError for one that only Java
    reads."""
    found = ""
    for name in names:
        file = _file(parameters, name)
        if file and not file.lower().endswith(".pem"):
            raise refused(target, f"parameter {name} names a store that only Java reads; {remedy}")
        found = found or file
    return found


def _file(parameters: Mapping[str, str], name: str) -> str:
    return parameters.get(name, "").removeprefix("file:")


def _mode(parameters: Mapping[str, str], is_mariadb: bool, target: JdbcTarget) -> TlsMode:
    if "sslmode" in parameters:
        return _named_mode(parameters["sslmode"], target)

    def is_on(name: str, unless_named: str = "false") -> bool:
        return is_true(parameters.get(name, unless_named))

    if not is_on("usessl", "true"):
        return TlsMode.DISABLED
    if is_on("trustservercertificate"):
        return TlsMode.REQUIRED
    # useSsl=true means all checks to MariaDB's driver, no checks to MySQL's
    if is_mariadb and is_on("usessl"):
        if is_on("disablesslhostnameverification"):
            return TlsMode.VERIFY_CA
        return TlsMode.VERIFY_IDENTITY
    if is_on("verifyservercertificate") or parameters.get("serversslcert"):
        return TlsMode.VERIFY_CA
    if is_on("requiressl"):
        return TlsMode.REQUIRED
    return TlsMode.PREFERRED


def _named_mode(text: str, target: JdbcTarget) -> TlsMode:
    mode = MYSQL_TLS_MODES.get(text.lower().replace("_", "-"))
    if mode is None:
        known = ", ".join(MYSQL_TLS_MODES)
        raise refused(target, f"parameter sslmode cannot be {text}; expected one of {known}")
    return mode

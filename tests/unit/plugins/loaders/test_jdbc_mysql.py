"""JDBC addresses of MySQL and MariaDB as people have them in their task files."""

import ssl
from typing import Any

import pytest

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.mysql.tls import MysqlTls, TlsMode

DEFAULTS = (
    "innodb_lock_wait_timeout=20, lock_wait_timeout=20, /*M!100300 idle_transaction_timeout=60,*/"
)
MODE = (
    "/*M!100304 system_versioning_asof=DEFAULT,*/ "
    "sql_select_limit=18446744073709551615, group_concat_max_len=67108864, "
    "sql_safe_updates=0, sql_big_selects=1, sql_quote_show_create=1, "
    "time_zone='+00:00', "
    "sql_mode='STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES'/*M!100401 "
    "',TIME_ROUND_FRACTIONAL'*/"
)


DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY = (MysqlTls(mode) for mode in TlsMode)


def arguments(url: str) -> dict[str, Any]:
    return dict(read_url(JdbcTarget(url, "u", "pw", "t1")).arguments)


def test_a_mysql_address_becomes_the_driver_s_arguments() -> None:
    assert arguments("jdbc:mysql://db.example:3307/shop") == {
        "host": "db.example",
        "port": 3307,
        "database": "shop",
        "user": "u",
        "password": b"pw",
        "charset": "utf8mb4",
        "connect_timeout": 10,
        "init_command": f"SET {DEFAULTS} {MODE}",
    }


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("connectTimeout=2500&socketTimeout=60000", {"connect_timeout": 3, "read_timeout": 60, "write_timeout": 60}),
        ("connectTimeout=0", {}),
        ("sessionVariables=FOREIGN_KEY_CHECKS=0,sql_mode=''", {"init_command": f"SET {DEFAULTS} "
                                                                               f"FOREIGN_KEY_CHECKS=0,sql_mode='', {MODE}"}),
        ("useUnicode=true&characterEncoding=utf8&serverTimezone=Asia/Shanghai&rewriteBatchedStatements=true&autoReconnect=true"
         "&allowPublicKeyRetrieval=true&zeroDateTimeBehavior=convertToNull&allowMultiQueries=true&nullCatalogMeansCurrent=true", {}),
    ],
)  # fmt: skip
def test_mysql_parameters(parameters: str, expected: dict[str, object]) -> None:
    plain = arguments("jdbc:mysql://h/d")
    assert arguments(f"jdbc:mysql://h/d?{parameters}") == plain | expected


@pytest.mark.parametrize(
    ("parameters", "mysql", "mariadb"),
    [
        ("", PREFERRED, PREFERRED),
        ("useSSL=false", DISABLED, DISABLED),
        ("useSSL=false&requireSSL=true", DISABLED, DISABLED),
        ("useSSL=true", PREFERRED, VERIFY_IDENTITY),
        ("useSSL=true&requireSSL=true", REQUIRED, VERIFY_IDENTITY),
        ("useSSL=true&trustServerCertificate=true", REQUIRED, REQUIRED),
        ("useSSL=true&disableSslHostnameVerification=true", PREFERRED, VERIFY_CA),
        ("useSSL=true&verifyServerCertificate=true&requireSSL=true", VERIFY_CA, VERIFY_IDENTITY),
        ("requireSSL=true&verifyServerCertificate=true", VERIFY_CA, VERIFY_CA),
        ("useSSL=false&sslMode=REQUIRED", REQUIRED, REQUIRED),
        ("sslMode=VERIFY_CA&useSSL=false&requireSSL=false", VERIFY_CA, VERIFY_CA),
        ("sslMode=VERIFY_IDENTITY", VERIFY_IDENTITY, VERIFY_IDENTITY),
        ("sslMode=verify-full", VERIFY_IDENTITY, VERIFY_IDENTITY),
        ("sslMode=trust", REQUIRED, REQUIRED),
        ("sslMode=disable", DISABLED, DISABLED),
        ("sslMode=PREFERRED", PREFERRED, PREFERRED),
        ("serverSslCert=/ca.pem", MysqlTls(TlsMode.VERIFY_CA, "/ca.pem"), MysqlTls(TlsMode.VERIFY_CA, "/ca.pem")),
        ("sslMode=VERIFY_CA&serverSslCert=/ca.crt", MysqlTls(TlsMode.VERIFY_CA, "/ca.crt"), MysqlTls(TlsMode.VERIFY_CA, "/ca.crt")),
        ("sslMode=VERIFY_CA&trustCertificateKeyStoreUrl=file:/ca.pem&trustCertificateKeyStoreType=PEM",
         MysqlTls(TlsMode.VERIFY_CA, "/ca.pem"), MysqlTls(TlsMode.VERIFY_CA, "/ca.pem")),
        ("sslMode=REQUIRED&trustCertificateKeyStoreUrl=file:/ca.jks", REQUIRED, REQUIRED),
        ("keyStore=/client.pem", MysqlTls(TlsMode.REQUIRED, "", "/client.pem"), MysqlTls(TlsMode.REQUIRED, "", "/client.pem")),
    ],
)  # fmt: skip
def test_tls_as_each_driver_means_it(parameters: str, mysql: MysqlTls, mariadb: MysqlTls) -> None:
    assert read_url(JdbcTarget(f"jdbc:mysql://h/d?{parameters}")).mysql_tls == mysql
    assert read_url(JdbcTarget(f"jdbc:mariadb://h/d?{parameters}")).mysql_tls == mariadb


def test_tls_comes_with_the_arguments_of_the_driver_and_a_file_is_read_then() -> None:
    assert read_url(JdbcTarget("jdbc:mysql://h/d?useSSL=false")).connect_arguments()["ssl_disabled"]
    encrypted = read_url(JdbcTarget("jdbc:mysql://h/d?sslMode=REQUIRED")).connect_arguments()["ssl"]
    assert (encrypted.verify_mode, encrypted.check_hostname) == (ssl.CERT_NONE, False)
    verified = read_url(JdbcTarget("jdbc:mysql://h/d?sslMode=VERIFY_IDENTITY")).connect_arguments()[
        "ssl"
    ]
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    missing = read_url(JdbcTarget("jdbc:mysql://h/d?serverSslCert=/no/ca.pem"))
    assert missing.shown == "mysql://h:3306/d"
    with pytest.raises(ConfigError, match=r"^/no/ca\.pem: no file of CA certificates in PEM form"):
        missing.connect_arguments()

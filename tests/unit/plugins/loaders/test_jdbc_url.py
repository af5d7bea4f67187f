"""JDBC addresses as people have them in their task files."""

import ssl
from typing import Any

import pytest

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.jdbc_url import ORACLE_FORMS, read_url
from cdcbus.plugins.mysql_tls import MysqlTls, TlsMode

KNOWN = "jdbc:postgresql:, jdbc:mysql:, jdbc:mariadb:, jdbc:oracle:thin:"
DEFAULTS = (
    "innodb_lock_wait_timeout=20, lock_wait_timeout=20, /*M!100300 idle_transaction_timeout=60,*/"
)
MODE = (
    "time_zone='+00:00', "
    "sql_mode='STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES'/*M!100401 "
    "',TIME_ROUND_FRACTIONAL'*/"
)


DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY = (MysqlTls(mode) for mode in TlsMode)


def arguments(url: str, **more: Any) -> dict[str, Any]:
    return dict(
        read_url(
            JdbcTarget(url, **{"user": "u", "password": "pw", "task_id": "t1", **more})
        ).arguments
    )


def test_a_postgresql_address_becomes_the_driver_s_arguments() -> None:
    assert arguments("jdbc:postgresql://db.example:6432/shop") == {
        "host": "db.example",
        "port": "6432",
        "dbname": "shop",
        "user": "u",
        "password": "pw",
        "connect_timeout": 10,
        "client_encoding": "utf8",
        "application_name": "cdcbus t1",
        "keepalives_idle": 3,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": 6000,
    }


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
    ("url", "dialect", "shown"),
    [
        ("jdbc:postgresql://h/d?user=a&password=SECRET", "postgresql", "postgresql://h:5432/d"),
        ("jdbc:postgresql:d", "postgresql", "postgresql://localhost:5432/d"),
        ("jdbc:postgresql://h1:1,h2/d", "postgresql", "postgresql://h1:1,h2:5432/d"),
        ("jdbc:postgresql://[::1]:5433/d", "postgresql", "postgresql://::1:5433/d"),
        ("jdbc:mysql://a:SECRET@h/d?useSSL=false", "mysql", "mysql://h:3306/d"),
        ("jdbc:mariadb://h/", "mysql", "mysql://h:3306/"),
        ("jdbc:mysql://h", "mysql", "mysql://h:3306/"),
        ("jdbc:oracle:thin:@h:1521:ORCL", "oracle",
         "oracle:(DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST=h)(PORT=1521))(CONNECT_DATA=(SID=ORCL)))"),
        ("jdbc:oracle:thin:@//h:1522/svc", "oracle", "oracle:h:1522/svc"),
        ("jdbc:oracle:thin:@h/svc", "oracle", "oracle:h:1521/svc"),
        ("jdbc:oracle:thin:scott/SECRET@(DESCRIPTION=(X=Y))", "oracle", "oracle:(DESCRIPTION=(X=Y))"),
        ("jdbc:oracle:thin:scott/SECRET@shop.example?TNS_ADMIN=/etc/oracle", "oracle", "oracle:shop.example"),
    ],
)  # fmt: skip
def test_an_address_is_known_by_kind_and_shown_without_login(
    url: str, dialect: str, shown: str
) -> None:
    read = read_url(JdbcTarget(url))
    assert (read.dialect, read.shown) == (dialect, shown)
    assert "SECRET" not in repr(read)


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("jdbc:postgresql://h/d?user=a&password=p%26q", "a", "p&q"),
        ("jdbc:mysql://a:p%40q@h/d", "a", b"p@q"),
        ("jdbc:oracle:thin:scott/tiger@//h/svc", "scott", "tiger"),
        ('jdbc:oracle:thin:scott/"p/@q"@h:1521:ORCL', "scott", "p/@q"),
        ("jdbc:oracle:thin:scott/p@q/r@shop", "scott", "p@q/r"),
        ("jdbc:oracle:thin:@//h/svc?user=scott&password=ti%26ger", "scott", "ti&ger"),
    ],
)
def test_login_in_the_address_counts_where_the_task_file_has_none(
    url: str, user: str, password: str | bytes
) -> None:
    in_address = read_url(JdbcTarget(url)).arguments
    assert (in_address["user"], in_address["password"]) == (user, password)
    in_file = read_url(JdbcTarget(url, "other", "else")).arguments
    assert (in_file["user"], in_file["password"]) == (
        "other",
        b"else" if isinstance(password, bytes) else "else",
    )


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("currentSchema=shop,public", {"search_path": "shop,public"}),
        ("currentSchema=a b", {"search_path": "a b"}),
        ("options=-c%20lock_timeout=5s", {"lock_timeout": "5s"}),
        ("options=-c%20lock_timeout=5s%20--work-mem=9MB%20-csearch_path=a%5C%20b", {
            "lock_timeout": "5s", "work_mem": "9MB", "search_path": "a b"
        }),
        ("options=-c%20TimeZone=Asia/Tokyo", {"TimeZone": "UTC"}),
    ],
)  # fmt: skip
def test_settings_of_postgresql_are_set_once_it_is_there(
    parameters: str, expected: dict[str, str]
) -> None:
    plain = settings("jdbc:postgresql://h/d")
    assert plain["TimeZone"] == "UTC"
    assert settings(f"jdbc:postgresql://h/d?{parameters}") == plain | expected


def settings(url: str) -> dict[str, str]:
    return dict(read_url(JdbcTarget(url, "u", "pw", "t1")).settings)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("sslmode=require&sslrootcert=/ca.pem", {"sslmode": "require", "sslrootcert": "/ca.pem"}),
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl", {"sslmode": "verify-full"}),
        ("ssl=false", {}),
        ("ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", {"sslmode": "require"}),
        ("ssl=true&sslmode=verify-ca", {"sslmode": "verify-ca"}),
        ("sslmode=prefer&ssl=true", {"sslmode": "prefer"}),
        (
            "ssl=true&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory",
            {"sslmode": "verify-full", "sslrootcert": "system"},
        ),
        ("ssl=true&sslfactory=org.postgresql.ssl.LibPQFactory", {"sslmode": "verify-full"}),
        (
            "sslcert=/c.crt&sslkey=/c.pk8&sslpassword=x",
            {"sslcert": "/c.crt", "sslkey": "/c.pk8", "sslpassword": "x"},
        ),
        (
            "sslNegotiation=direct&sslmode=require",
            {"sslmode": "require", "sslnegotiation": "direct"},
        ),
        ("connectTimeout=3", {"connect_timeout": 3}),
        ("ApplicationName=porter", {"application_name": "porter"}),
        ("prepareThreshold=0", {"prepare_threshold": None}),
        ("targetServerType=master", {"target_session_attrs": "primary"}),
        ("socketTimeout=30", {"tcp_user_timeout": 30_000, "keepalives_idle": 30}),
        (
            "reWriteBatchedInserts=true&stringtype=unspecified&socketTimeout=0&characterEncoding=UTF-8",
            {},
        ),
    ],
)
def test_postgresql_parameters(parameters: str, expected: dict[str, object]) -> None:
    plain = arguments("jdbc:postgresql://h/d")
    assert arguments(f"jdbc:postgresql://h/d?{parameters}") == plain | expected


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


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "jdbc:sqlserver://u:SECRET@h;password=SECRET",
            f"JDBC address jdbc:sqlserver://h is none of {KNOWN}",
        ),
        (
            "jdbc:postgresql://h/d?foo=1&password=SECRET",
            "JDBC address jdbc:postgresql://h/d: parameter foo is not known; leave it out",
        ),
        (
            "jdbc:mysql://h/d?sslMode=maybe",
            "JDBC address jdbc:mysql://h/d: parameter sslmode cannot be maybe; "
            "expected one of disabled, preferred, required, verify-ca, verify-identity, disable, "
            "trust, verify-full",
        ),
        (
            "jdbc:mysql://h/d?verifyServerCertificate=true&trustCertificateKeyStoreUrl=file:/a/b.jks&trustCertificateKeyStorePassword=SECRET",
            "JDBC address jdbc:mysql://h/d: parameter trustcertificatekeystoreurl names a store "
            "that only Java reads; "
            "name the issuers' certificates as one PEM file: serverSslCert=/path/ca.pem",
        ),
        (
            "jdbc:mariadb://h/d?keyStore=/a/b.p12&keyStorePassword=SECRET",
            "JDBC address jdbc:mariadb://h/d: parameter keystore names a store that only Java "
            "reads; "
            "name certificate and key as one PEM file: keyStore=/path/client.pem",
        ),
        (
            "jdbc:postgresql://h/d?sslkey=/a/b.p12",
            "JDBC address jdbc:postgresql://h/d: parameter sslkey cannot be /a/b.p12",
        ),
        (
            "jdbc:postgresql://h/d?sslfactory=com.acme.Factory",
            "JDBC address jdbc:postgresql://h/d: parameter sslfactory cannot be com.acme.Factory",
        ),
        (
            "jdbc:mysql://h/d?connectTimeout=soon",
            "JDBC address jdbc:mysql://h/d: parameter connecttimeout cannot be soon",
        ),
        (
            "jdbc:postgresql://h:port/d",
            "JDBC address jdbc:postgresql://h:port/d: h:port is not HOST or HOST:PORT",
        ),
        (
            "jdbc:mysql://h1,h2/d",
            "JDBC address jdbc:mysql://h1,h2/d: several hosts are not supported for MySQL; name "
            "one or a proxy",
        ),
        (
            "jdbc:oracle:oci:scott/SECRET@h/d",
            f"JDBC address jdbc:oracle:oci:h/d is none of {KNOWN}",
        ),
        ("jdbc:oracle:thin:scott/SECRET@", f"JDBC address of Oracle: use {ORACLE_FORMS}"),
        ("jdbc:oracle:thin:@ldap://h/cn=x,dc=y", f"JDBC address of Oracle: use {ORACLE_FORMS}"),
        (
            "jdbc:oracle:thin:scott/SECRET@h:1:s?foo=1",
            "JDBC address jdbc:oracle:thin:h:1:s: parameter foo is not known; leave it out",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_url(JdbcTarget(url))
    assert str(refused.value) == sentence


def test_loaders_are_known_by_name_and_address() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^no loader is called JdbcSlow; known are KAFKA_SYNC, JdbcBatch, JdbcSingle, "
        r"JdbcMultiThread, JdbcSqlDebug$",
    ):
        make_loader("JdbcSlow", JdbcTarget("jdbc:mysql://h/d"))
    make_loader("JdbcSingle", JdbcTarget("jdbc:oracle:thin:@h/svc")).close()
    # connects at first use only
    make_loader("JdbcBatch", JdbcTarget("jdbc:mysql://no.such.host.invalid/d")).close()


def test_oracle_s_read_timeout_is_for_the_connection_not_for_the_connect() -> None:
    url = read_url(JdbcTarget("jdbc:oracle:thin:@h/svc?oracle.jdbc.ReadTimeout=60000"))
    assert url.call_timeout_milliseconds == 60_000
    assert "call_timeout" not in url.arguments

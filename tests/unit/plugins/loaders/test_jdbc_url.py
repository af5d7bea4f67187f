"""JDBC addresses as people have them in their task files."""

import pytest

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.dialects.oracle.jdbc_address import ORACLE_FORMS
from cdcbus.plugins.loaders.jdbc_url import read_url

KNOWN = "jdbc:postgresql:, jdbc:mysql:, jdbc:mariadb:, jdbc:oracle:thin:"


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
            "JDBC address jdbc:postgresql://h:port/d: expected HOST or HOST:PORT, and a / or ? in a "
            "user or password as %2F and %3F",
        ),
        (
            "jdbc:mysql://db..example/d",
            "JDBC address jdbc:mysql://db..example/d: a part of the host's name is empty or longer "
            "than 63 characters",
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


PARTS_OF_SECRETS = ("RET", "SEC", "1234", "root", "=")


@pytest.mark.parametrize("prefix", ["jdbc:mysql", "jdbc:mariadb", "jdbc:postgresql"])
@pytest.mark.parametrize(
    "password",
    [
        "SEC/RET",
        "1234/RET",
        "SEC?RET",
        "1234?RET",
        "S/E?CRET@X",
        "SEC/RET=",
        "1234/SECRET==",
        "1234?SEC/RET",
        "SEC@1234/RET",
        "SEC?RET=SECRET",
        "SEC/?RET=SECRET",
    ],
)
@pytest.mark.parametrize("end", ["", "/d", "/d?connectTimeout=5"])
def test_a_password_that_would_end_the_address_is_refused_and_not_shown(
    prefix: str, password: str, end: str
) -> None:
    with pytest.raises(ConfigError, match="%2F and %3F") as refused:
        read_url(JdbcTarget(f"{prefix}://root:{password}@h{end}"))
    for part in PARTS_OF_SECRETS:
        assert part not in str(refused.value)
    assert str(refused.value).startswith(f"JDBC address {prefix}:")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:mysql://root:SEC;RET@h/d?foo=1", "jdbc:mysql:..."),
        ("jdbc:mysql://root:SECRET@h/d?foo=1&user=a@b", "jdbc:mysql:..."),
        ("jdbc:oracle:thin:root/SEC?RET@//h:1521/svc?foo=1", "jdbc:oracle:thin:..."),
        ("jdbc:oracle:thin:root/SEC;RET@//h:1521/svc?foo=1", "jdbc:oracle:thin:..."),
        ("jdbc:oracle:thin:root/SEC:RET@//h:1521/svc?foo=1", "jdbc:oracle:thin://h:1521/svc"),
        ("jdbc:oracle:thin:root:SEC/RET@//h:1521/svc?foo=1", "jdbc:oracle:thin://h:1521/svc"),
    ],
)
def test_a_wrong_parameter_is_named_without_any_part_of_the_login(url: str, shown: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_url(JdbcTarget(url))
    assert str(refused.value) == f"JDBC address {shown}: parameter foo is not known; leave it out"


@pytest.mark.parametrize("prefix", ["jdbc:mysql:", "jdbc:postgresql:", "jdbc:postgresql:/"])
def test_a_login_without_slashes_is_no_name_of_a_database(prefix: str) -> None:
    with pytest.raises(ConfigError, match="write // before it") as refused:
        read_url(JdbcTarget(f"{prefix}root:SEC:RET@h/d"))
    for part in PARTS_OF_SECRETS:
        assert part not in str(refused.value)


def test_an_at_sign_in_the_name_of_a_database_is_escaped() -> None:
    with pytest.raises(ConfigError, match="an @ in the database's name as %40"):
        read_url(JdbcTarget("jdbc:postgresql://h/my@db"))
    for url in ("jdbc:postgresql://h/my%40db", "jdbc:postgresql:my%40db"):
        assert read_url(JdbcTarget(url)).arguments["dbname"] == "my@db"


@pytest.mark.parametrize(
    "query", ["user=a@b&password=c@d", "user=a@b", "applicationName=x/y@z", "ssl&user=a@b"]
)
def test_an_at_sign_in_a_parameter_is_no_login(query: str) -> None:
    read = read_url(JdbcTarget(f"jdbc:postgresql://h/d?{query}"))
    assert read.shown == "postgresql://h:5432/d"

"""JDBC addresses of Oracle as people have them in their task files."""

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders.jdbc_url import read_url


def test_oracle_s_read_timeout_is_for_the_connection_not_for_the_connect() -> None:
    url = read_url(JdbcTarget("jdbc:oracle:thin:@h/svc?oracle.jdbc.ReadTimeout=60000"))
    assert url.call_timeout_milliseconds == 60_000
    assert "call_timeout" not in url.arguments

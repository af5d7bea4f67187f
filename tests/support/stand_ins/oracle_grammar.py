"""Two grammars of Oracle's SQL, which a statement must follow: that of Apache ShardingSphere, made
from Oracle's manual with ANTLR, and that of Alibaba's Druid, written by hand.

They know no tables and columns, and each of them accepts some of what Oracle refuses; hardly
anything of that is accepted by both.
"""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from cdcbus.consumer.jvm.maven import Coordinate

GRAMMARS: Final = (
    Coordinate("org.apache.shardingsphere", "shardingsphere-parser-sql-oracle", "5.5.2"),
    Coordinate("org.antlr", "antlr4-runtime", "4.10.1"),
    Coordinate("com.alibaba", "druid", "1.2.24"),
)
WITHOUT: Final = (
    *("shardingsphere-parser-sql-engine", "shardingsphere-parser-sql-spi", "java-util"),
    *("shardingsphere-parser-sql-statement-oracle", "shardingsphere-parser-sql-statement-core"),
    *("shardingsphere-infra-database-oracle", "shardingsphere-infra-spi", "guava"),
    *("commons-lang3", "lombok", "slf4j-api", "jcl-over-slf4j"),
)
"""Only the grammar of ShardingSphere is used."""
NOT_IN_SHARDINGSPHERE: Final = re.compile("ALTER SESSION SET ISOLATION_LEVEL=READ COMMITTED")
NOT_IN_DRUID: Final = re.compile("SAVEPOINT |SET CONSTRAINTS ALL ")
"""What Oracle's manual allows and one of them does not know."""


class Grammars:
    """Both, in a JVM that has the jars. A statement is parsed once."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._jvm: Any = gateway.jvm
        self.followed: set[str] = set()

    def check(self, sql: str) -> None:
        """Fails the test unless both accept the statement."""
        if sql not in self.followed:
            refused = self.refusals(sql)
            assert not refused, f"{'; '.join(refused)}: {sql}"
            self.followed.add(sql)

    def refusals(self, sql: str) -> list[str]:
        found = []
        if not NOT_IN_SHARDINGSPHERE.fullmatch(sql) and (why := self._shardingsphere(sql)):
            found.append(f"ShardingSphere: {why}")
        if not NOT_IN_DRUID.match(sql) and (why := self._druid(sql)):
            found.append(f"Druid: {why}")
        return found

    def _shardingsphere(self, sql: str) -> str:
        """Its binds have names, where Oracle's may be numbers, and it knows no operator COLLATE."""
        sql = sql.replace(" COLLATE BINARY =", " =")
        antlr = self._jvm.org.antlr.v4.runtime
        made = self._jvm.org.apache.shardingsphere.sql.parser.autogen
        text = antlr.CharStreams.fromString(re.sub(r":(\d+)", r":b\1", sql))
        parser = made.OracleStatementParser(
            antlr.CommonTokenStream(made.OracleStatementLexer(text))
        )
        parser.removeErrorListeners()
        parser.setErrorHandler(antlr.BailErrorStrategy())
        parser.getInterpreter().setPredictionMode(antlr.atn.PredictionMode.SLL)
        try:
            parser.execute()
        except Py4JJavaError:
            token = parser.getCurrentToken()
            return f"no {token.getText()!r} at {token.getStartIndex()}"
        return ""

    def _druid(self, sql: str) -> str:
        druid = self._jvm.com.alibaba.druid
        try:
            druid.sql.SQLUtils.parseStatements(sql, druid.DbType.oracle)
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        return ""

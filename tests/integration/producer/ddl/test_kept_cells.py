"""What a server makes of cells where a new type is said to keep them: the same values, or an
error."""

from __future__ import annotations

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.producer.ddl.rows.kept_cells import are_kept

pytestmark = [pytest.mark.integration, pytest.mark.source]

# Types, each with values that another type may hold otherwise.
CELLS = {
    "tinyint(4)": "-128|0|5|127",
    "int(11)": "-1|0|1|69|70|255|2147483647",
    "int(10) unsigned": "0|1|4294967295",
    "bigint(20)": "-9223372036854775808|9223372036854775807",
    "bit(1)": "0|1",
    "bit(64)": "0|65|18446744073709551615",
    "decimal(10,0)": "-1|5|9999999999",
    "decimal(10,2)": "-1.25|0.10|5|99999999.99",
    "decimal(6,4)": "0.0001|99.9999",
    "float": "0.1|1234567.8|-3.5",
    "double": "0.1|1e300",
    "year(4)": "0|1999|2070",
    "date": "'2024-02-29'|'0001-01-01'",
    "time": "'-838:59:59'|'01:02:03'",
    "time(6)": "'01:02:03.123456'",
    "datetime": "'2024-02-29 23:59:59'",
    "datetime(3)": "'2024-02-29 23:59:59.999'",
    "timestamp(2) NULL": "'2024-02-29 23:59:59.99'",
    "char(5)": "''|'ab'|'é€'|'5'",
    "char(40)": "''|'ab   '|'é€'|'012345678901234567890123456789'",
    "varchar(5)": "''|'ab   '|' '|'é€'",
    "varchar(300)": "''|'ab   '|CONCAT('a', REPEAT(' ', 299))|REPEAT('€', 300)",
    "tinytext": "''|'ab   '|CONCAT('a', REPEAT(' ', 254))|REPEAT('€', 85)",
    "text": "''|'ab  '|CONCAT('a', REPEAT(' ', 65534))|REPEAT('€', 21845)",
    "mediumtext": "''|'ab  '|CONCAT('a', REPEAT(' ', 99999))",
    "binary(3)": "''|x'0102'|x'202020'",
    "varbinary(16)": "''|x'01020000'|x'2020'|x'c3a9'|x'ff'",
    "varbinary(300)": "''|CONCAT('a', REPEAT(x'00', 299))|CONCAT('a', REPEAT(' ', 299))",
    "tinyblob": "''|CONCAT('a', REPEAT(x'00', 254))|CONCAT('a', REPEAT(' ', 254))",
    "blob": "''|CONCAT('a', REPEAT(x'00', 65534))",
    "enum('a','b','é')": "'a'|'b'|'é'",
    "enum('b','c','a','é')": "'a'|'c'|'é'",
    "enum('A','b')": "'A'|'b'",
    "set('a','b')": "''|'a'|'a,b'",
    "set('a','c','b')": "''|'a'|'a,c,b'",
    "point": "ST_GeomFromText('POINT(1 2)')",
    "geometry": "ST_GeomFromText('POINT(1 2)')|ST_GeomFromText('LINESTRING(1 2,3 4)')",
}


def cells(cursor: Cursor, type_: str) -> tuple[tuple[object, ...], ...]:
    value = "c + 0" if type_.startswith("bit") else "c"  # a number, where the client has bytes
    cursor.execute(f"SELECT id, {value} FROM t ORDER BY id")
    return cursor.fetchall()


@pytest.mark.parametrize("former", CELLS)
def test_values_that_are_said_to_stay_do_or_the_type_is_refused(
    former: str, source_cursor: Cursor
) -> None:
    source_cursor.execute("SET sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+05:00'")
    taken = 0
    for new in filter(lambda new: are_kept(former, new), CELLS):
        for id_, value in enumerate(CELLS[former].split("|")):
            source_cursor.execute("DROP TABLE IF EXISTS t")
            source_cursor.execute(f"CREATE TABLE t (id INT, c {former}) CHARACTER SET utf8mb4")
            source_cursor.execute(f"INSERT INTO t VALUES ({id_}, {value})")
            before = cells(source_cursor, former)
            try:
                source_cursor.execute(f"ALTER TABLE t MODIFY c {new}")
            except pymysql.MySQLError:
                continue
            taken += 1
            assert cells(source_cursor, new) == before, (former, value, new)
    assert taken

-- Every integer type at its limits, signed and unsigned; YEAR and zerofill between them, as they count for signedness too.
CREATE TABLE numbers (
  id INT PRIMARY KEY,
  t TINYINT, tu TINYINT UNSIGNED, y YEAR, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, mu MEDIUMINT UNSIGNED,
  i INT, iu INT UNSIGNED, z INT ZEROFILL, b BIGINT, bu BIGINT UNSIGNED, flag BOOLEAN);
INSERT INTO numbers VALUES (1, -128, 0, 1901, -32768, 0, -8388608, 0, -2147483648, 0, 0, -9223372036854775808, 0, FALSE);
-> key "1_"
-> canal {"type": "INSERT", "table": "numbers", "pkNames": ["id"], "data": [{"id": "1", "t": "-128", "tu": "0", "y": "1901", "s": "-32768", "su": "0", "m": "-8388608", "mu": "0", "i": "-2147483648", "iu": "0", "z": "0", "b": "-9223372036854775808", "bu": "0", "flag": "0"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "t": "tinyint", "tu": "tinyint unsigned", "y": "year", "s": "smallint", "su": "smallint unsigned", "m": "mediumint", "mu": "mediumint unsigned", "i": "int", "iu": "int unsigned", "z": "int unsigned", "b": "bigint", "bu": "bigint unsigned", "flag": "tinyint"}, "sqlType": {"id": 4, "t": -6, "tu": 5, "y": 12, "s": 5, "su": 4, "m": 4, "mu": 4, "i": 4, "iu": -5, "z": -5, "b": -5, "bu": 3, "flag": -6}}
-> ogg {"table": "$schema.numbers", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "t": "-128", "tu": "0", "y": "1901", "s": "-32768", "su": "0", "m": "-8388608", "mu": "0", "i": "-2147483648", "iu": "0", "z": "0", "b": "-9223372036854775808", "bu": "0", "flag": "0"}}
INSERT INTO numbers VALUES
  (2, 127, 255, 2155, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 7, 9223372036854775807, 18446744073709551615, TRUE);
-> key "2_"
-> canal {"type": "INSERT", "table": "numbers", "pkNames": ["id"], "data": [{"id": "2", "t": "127", "tu": "255", "y": "2155", "s": "32767", "su": "65535", "m": "8388607", "mu": "16777215", "i": "2147483647", "iu": "4294967295", "z": "7", "b": "9223372036854775807", "bu": "18446744073709551615", "flag": "1"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.numbers", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "t": "127", "tu": "255", "y": "2155", "s": "32767", "su": "65535", "m": "8388607", "mu": "16777215", "i": "2147483647", "iu": "4294967295", "z": "7", "b": "9223372036854775807", "bu": "18446744073709551615", "flag": "1"}}
INSERT INTO numbers VALUES (3, -1, 128, 0, -1, 32768, -1, 8388608, -1, 2147483648, 4294967295, -1, 9223372036854775808, NULL);
-> key "3_"
-> canal {"type": "INSERT", "table": "numbers", "pkNames": ["id"], "data": [{"id": "3", "t": "-1", "tu": "128", "y": "0000", "s": "-1", "su": "32768", "m": "-1", "mu": "8388608", "i": "-1", "iu": "2147483648", "z": "4294967295", "b": "-1", "bu": "9223372036854775808", "flag": null}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.numbers", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "t": "-1", "tu": "128", "y": "0000", "s": "-1", "su": "32768", "m": "-1", "mu": "8388608", "i": "-1", "iu": "2147483648", "z": "4294967295", "b": "-1", "bu": "9223372036854775808", "flag": null}}
INSERT INTO numbers (id) VALUES (-2147483648);
-> key "-2147483648_"
-> canal {"type": "INSERT", "table": "numbers", "pkNames": ["id"], "data": [{"id": "-2147483648", "t": null, "tu": null, "y": null, "s": null, "su": null, "m": null, "mu": null, "i": null, "iu": null, "z": null, "b": null, "bu": null, "flag": null}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.numbers", "op_type": "I", "primary_keys": ["id"], "after": {"id": "-2147483648", "t": null, "tu": null, "y": null, "s": null, "su": null, "m": null, "mu": null, "i": null, "iu": null, "z": null, "b": null, "bu": null, "flag": null}}

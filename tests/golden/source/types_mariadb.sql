-- only: mariadb
-- MariaDB's own fixed-size types as MariaDB prints them, beside BINARY of their size, among others that count for character sets.
CREATE TABLE own (id INT PRIMARY KEY, u UUID, a VARCHAR(5) CHARACTER SET gbk, i INET6, b VARCHAR(5) CHARACTER SET latin1, i4 INET4, b4 BINARY(4), b16 BINARY(16));
INSERT INTO own VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '汉', '2001:db8::1', 'é', '192.168.0.1', '1234', 'x'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-> key "1_"
-> canal {"type": "INSERT", "table": "own", "pkNames": ["id"], "data": [{"id": "1", "u": "123e4567-e89b-12d3-a456-426655440000", "a": "汉", "i": "2001:db8::1", "b": "é", "i4": "192.168.0.1", "b4": "1234", "b16": "x\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "u": "uuid", "a": "varchar(5)", "i": "inet6", "b": "varchar(5)", "i4": "inet4", "b4": "binary(4)", "b16": "binary(16)"}, "sqlType": {"id": 4, "u": 12, "a": 12, "i": 12, "b": 12, "i4": 12, "b4": 2004, "b16": 2004}}
-> ogg {"table": "$schema.own", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "u": "123e4567-e89b-12d3-a456-426655440000", "a": "汉", "i": "2001:db8::1", "b": "é", "i4": "192.168.0.1", "b4": "1234", "b16": "x\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "own", "pkNames": ["id"], "data": [{"id": "2", "u": null, "a": null, "i": null, "b": null, "i4": null, "b4": null, "b16": null}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.own", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "u": null, "a": null, "i": null, "b": null, "i4": null, "b4": null, "b16": null}}

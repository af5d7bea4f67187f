-- only: mariadb
-- MariaDB's own fixed-size types, as their bytes, among others that count for character sets.
CREATE TABLE own (id INT PRIMARY KEY, u UUID, a VARCHAR(5) CHARACTER SET gbk, i INET6, b VARCHAR(5) CHARACTER SET latin1);
INSERT INTO own VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '汉', '2001:db8::1', 'é'), (2, NULL, NULL, NULL, NULL);
-> key "1_"
-> canal {"type": "INSERT", "table": "own", "pkNames": ["id"], "data": [{"id": "1", "u": "\u0012>Egè\u009b\u0012Ó¤VBfUD\u0000\u0000", "a": "汉", "i": " \u0001\r¸\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0001", "b": "é"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "u": "binary(16)", "a": "varchar(5)", "i": "binary(16)", "b": "varchar(5)"}, "sqlType": {"id": 4, "u": 2004, "a": 12, "i": 2004, "b": 12}}
-> ogg {"table": "$schema.own", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "u": "\u0012>Egè\u009b\u0012Ó¤VBfUD\u0000\u0000", "a": "汉", "i": " \u0001\r¸\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0001", "b": "é"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "own", "pkNames": ["id"], "data": [{"id": "2", "u": null, "a": null, "i": null, "b": null}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.own", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "u": null, "a": null, "i": null, "b": null}}

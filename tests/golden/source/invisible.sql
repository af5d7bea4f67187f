-- Invisible columns are in the rows like all others; ZEROFILL's zeros are only shown by clients.
CREATE TABLE veiled (id INT PRIMARY KEY, a INT INVISIBLE DEFAULT 7, g INT AS (id + 1) VIRTUAL INVISIBLE, s INT AS (id + 2) STORED, z INT(8) ZEROFILL, f FLOAT(7,3));
INSERT INTO veiled (id, z, f) VALUES (1, 42, 1.1);
-> key "1_"
-> canal {"type": "INSERT", "table": "veiled", "pkNames": ["id"], "data": [{"id": "1", "a": "7", "g": "2", "s": "3", "z": "42", "f": "1.1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "a": "int", "g": "int", "s": "int", "z": "int unsigned", "f": "float"}, "sqlType": {"id": 4, "a": 4, "g": 4, "s": 4, "z": -5, "f": 7}}
-> ogg {"table": "$schema.veiled", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "7", "g": "2", "s": "3", "z": "42", "f": "1.1"}}
INSERT INTO veiled (id, a, z, f) VALUES (2, NULL, 0, -0.001);
-> key "2_"
-> canal {"type": "INSERT", "table": "veiled", "pkNames": ["id"], "data": [{"id": "2", "a": null, "g": "3", "s": "4", "z": "0", "f": "-0.001"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.veiled", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "a": null, "g": "3", "s": "4", "z": "0", "f": "-0.001"}}
UPDATE veiled SET a = 8 WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "veiled", "pkNames": ["id"], "data": [{"id": "1", "a": "8", "g": "2", "s": "3", "z": "42", "f": "1.1"}], "old": [{"a": "7"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.veiled", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "a": "7", "g": "2", "s": "3", "z": "42", "f": "1.1"}, "after": {"id": "1", "a": "8", "g": "2", "s": "3", "z": "42", "f": "1.1"}}

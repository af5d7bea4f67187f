-- NULL is null, never a missing member; more than eight columns, so that the null bitmap has two bytes.
CREATE TABLE blanks (id INT PRIMARY KEY, a INT, b VARCHAR(5), c DATE, d BLOB, e DECIMAL(5,2), f ENUM('x'), g TIME, h DOUBLE, i BIT(3));
INSERT INTO blanks (id) VALUES (1);
-> key "1_"
-> canal {"type": "INSERT", "table": "blanks", "pkNames": ["id"], "data": [{"id": "1", "a": null, "b": null, "c": null, "d": null, "e": null, "f": null, "g": null, "h": null, "i": null}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "a": "int", "b": "varchar(5)", "c": "date", "d": "blob", "e": "decimal(5,2)", "f": "enum('x')", "g": "time", "h": "double", "i": "bit(3)"}, "sqlType": {"id": 4, "a": 4, "b": 12, "c": 91, "d": 2004, "e": 3, "f": 4, "g": 92, "h": 8, "i": -7}}
-> ogg {"table": "$schema.blanks", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": null, "b": null, "c": null, "d": null, "e": null, "f": null, "g": null, "h": null, "i": null}}
INSERT INTO blanks VALUES (2, NULL, '', NULL, '', NULL, 'x', NULL, 0, NULL), (3, 1, NULL, '2024-01-01', NULL, 1.5, NULL, '00:00:01', NULL, b'1');
-> key "2_"
-> canal {"type": "INSERT", "table": "blanks", "pkNames": ["id"], "data": [{"id": "2", "a": null, "b": "", "c": null, "d": "", "e": null, "f": "x", "g": null, "h": "0.0", "i": null}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.blanks", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "a": null, "b": "", "c": null, "d": "", "e": null, "f": "x", "g": null, "h": "0.0", "i": null}}
-> key "3_"
-> canal {"type": "INSERT", "table": "blanks", "pkNames": ["id"], "data": [{"id": "3", "a": "1", "b": null, "c": "2024-01-01", "d": null, "e": "1.50", "f": null, "g": "00:00:01", "h": null, "i": "1"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.blanks", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "a": "1", "b": null, "c": "2024-01-01", "d": null, "e": "1.50", "f": null, "g": "00:00:01", "h": null, "i": "1"}}
UPDATE blanks SET a = NULL, b = 'b', i = NULL WHERE id = 3;
-> key "3_"
-> canal {"type": "UPDATE", "table": "blanks", "pkNames": ["id"], "data": [{"id": "3", "a": null, "b": "b", "c": "2024-01-01", "d": null, "e": "1.50", "f": null, "g": "00:00:01", "h": null, "i": null}], "old": [{"a": "1", "b": null, "i": "1"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.blanks", "op_type": "U", "primary_keys": ["id"], "before": {"id": "3", "a": "1", "b": null, "c": "2024-01-01", "d": null, "e": "1.50", "f": null, "g": "00:00:01", "h": null, "i": "1"}, "after": {"id": "3", "a": null, "b": "b", "c": "2024-01-01", "d": null, "e": "1.50", "f": null, "g": "00:00:01", "h": null, "i": null}}
UPDATE blanks SET a = 5, d = NULL WHERE id = 2;
-> key "2_"
-> canal {"type": "UPDATE", "table": "blanks", "pkNames": ["id"], "data": [{"id": "2", "a": "5", "b": "", "c": null, "d": null, "e": null, "f": "x", "g": null, "h": "0.0", "i": null}], "old": [{"a": null, "d": ""}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.blanks", "op_type": "U", "primary_keys": ["id"], "before": {"id": "2", "a": null, "b": "", "c": null, "d": "", "e": null, "f": "x", "g": null, "h": "0.0", "i": null}, "after": {"id": "2", "a": "5", "b": "", "c": null, "d": null, "e": null, "f": "x", "g": null, "h": "0.0", "i": null}}
DELETE FROM blanks WHERE id = 1;
-> key "1_"
-> canal {"type": "DELETE", "table": "blanks", "pkNames": ["id"], "data": [{"id": "1", "a": null, "b": null, "c": null, "d": null, "e": null, "f": null, "g": null, "h": null, "i": null}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.blanks", "op_type": "D", "primary_keys": ["id"], "before": {"id": "1", "a": null, "b": null, "c": null, "d": null, "e": null, "f": null, "g": null, "h": null, "i": null}}

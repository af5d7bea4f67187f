-- A table without a key: an empty key text. The server takes the first unique key without NULLs and prefixes for a primary key.
CREATE TABLE heap (a INT, b VARCHAR(5));
INSERT INTO heap VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
-> key ""
-> canal {"type": "INSERT", "table": "heap", "pkNames": null, "data": [{"a": "1", "b": "x"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"a": "int", "b": "varchar(5)"}, "sqlType": {"a": 4, "b": 12}}
-> ogg {"table": "$schema.heap", "op_type": "I", "primary_keys": [], "after": {"a": "1", "b": "x"}}
-> key ""
-> canal {"type": "INSERT", "table": "heap", "pkNames": null, "data": [{"a": "1", "b": "x"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.heap", "op_type": "I", "primary_keys": [], "after": {"a": "1", "b": "x"}}
-> key ""
-> canal {"type": "INSERT", "table": "heap", "pkNames": null, "data": [{"a": null, "b": null}], "old": null, "row": 2, "txLast": true}
-> ogg {"table": "$schema.heap", "op_type": "I", "primary_keys": [], "after": {"a": null, "b": null}}
UPDATE heap SET b = 'y' WHERE a = 1 LIMIT 1;
-> key ""
-> canal {"type": "UPDATE", "table": "heap", "pkNames": null, "data": [{"a": "1", "b": "y"}], "old": [{"b": "x"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.heap", "op_type": "U", "primary_keys": [], "before": {"a": "1", "b": "x"}, "after": {"a": "1", "b": "y"}}
DELETE FROM heap WHERE a IS NULL;
-> key ""
-> canal {"type": "DELETE", "table": "heap", "pkNames": null, "data": [{"a": null, "b": null}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.heap", "op_type": "D", "primary_keys": [], "before": {"a": null, "b": null}}
CREATE TABLE almost (a INT NULL UNIQUE, b INT);
INSERT INTO almost VALUES (1, 1), (NULL, 2);
-> key ""
-> canal {"type": "INSERT", "table": "almost", "pkNames": null, "data": [{"a": "1", "b": "1"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"a": "int", "b": "int"}, "sqlType": {"a": 4, "b": 4}}
-> ogg {"table": "$schema.almost", "op_type": "I", "primary_keys": [], "after": {"a": "1", "b": "1"}}
-> key ""
-> canal {"type": "INSERT", "table": "almost", "pkNames": null, "data": [{"a": null, "b": "2"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.almost", "op_type": "I", "primary_keys": [], "after": {"a": null, "b": "2"}}
CREATE TABLE unique_only (b INT, a INT NOT NULL UNIQUE);
INSERT INTO unique_only VALUES (1, 2);
-> key "2_"
-> canal {"type": "INSERT", "table": "unique_only", "pkNames": ["a"], "data": [{"b": "1", "a": "2"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"b": "int", "a": "int"}, "sqlType": {"b": 4, "a": 4}}
-> ogg {"table": "$schema.unique_only", "op_type": "I", "primary_keys": ["a"], "after": {"b": "1", "a": "2"}}

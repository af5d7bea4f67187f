-- Generated columns, stored and virtual, come with their values; invisible columns as well.
CREATE TABLE computed (id INT PRIMARY KEY, a INT, s INT AS (a * 2) STORED, v INT AS (a * 3) VIRTUAL, t VARCHAR(10), u VARCHAR(10) AS (UPPER(t)) VIRTUAL, h INT INVISIBLE);
INSERT INTO computed (id, a, t) VALUES (1, 10, 'x'), (2, NULL, NULL);
-> key "1_"
-> canal {"type": "INSERT", "table": "computed", "pkNames": ["id"], "data": [{"id": "1", "a": "10", "s": "20", "v": "30", "t": "x", "u": "X", "h": null}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "a": "int", "s": "int", "v": "int", "t": "varchar(10)", "u": "varchar(10)", "h": "int"}, "sqlType": {"id": 4, "a": 4, "s": 4, "v": 4, "t": 12, "u": 12, "h": 4}}
-> ogg {"table": "$schema.computed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "10", "s": "20", "v": "30", "t": "x", "u": "X", "h": null}}
-> key "2_"
-> canal {"type": "INSERT", "table": "computed", "pkNames": ["id"], "data": [{"id": "2", "a": null, "s": null, "v": null, "t": null, "u": null, "h": null}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.computed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "a": null, "s": null, "v": null, "t": null, "u": null, "h": null}}
UPDATE computed SET a = 11, t = 'y' WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "computed", "pkNames": ["id"], "data": [{"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": null}], "old": [{"a": "10", "s": "20", "v": "30", "t": "x", "u": "X"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.computed", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "a": "10", "s": "20", "v": "30", "t": "x", "u": "X", "h": null}, "after": {"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": null}}
UPDATE computed SET h = 5 WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "computed", "pkNames": ["id"], "data": [{"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": "5"}], "old": [{"h": null}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.computed", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": null}, "after": {"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": "5"}}
DELETE FROM computed;
-> key "1_"
-> canal {"type": "DELETE", "table": "computed", "pkNames": ["id"], "data": [{"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": "5"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.computed", "op_type": "D", "primary_keys": ["id"], "before": {"id": "1", "a": "11", "s": "22", "v": "33", "t": "y", "u": "Y", "h": "5"}}
-> key "2_"
-> canal {"type": "DELETE", "table": "computed", "pkNames": ["id"], "data": [{"id": "2", "a": null, "s": null, "v": null, "t": null, "u": null, "h": null}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.computed", "op_type": "D", "primary_keys": ["id"], "before": {"id": "2", "a": null, "s": null, "v": null, "t": null, "u": null, "h": null}}

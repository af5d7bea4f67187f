-- only: mysql
-- The hidden columns of a functional index are not the table's; the invisible primary key is.
CREATE TABLE indexed (id INT PRIMARY KEY, a VARCHAR(10), n INT, INDEX ((UPPER(a))));
INSERT INTO indexed VALUES (1, 'x', 7);
-> key "1_"
-> canal {"type": "INSERT", "table": "indexed", "pkNames": ["id"], "data": [{"id": "1", "a": "x", "n": "7"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "a": "varchar(10)", "n": "int"}, "sqlType": {"id": 4, "a": 12, "n": 4}}
-> ogg {"table": "$schema.indexed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "x", "n": "7"}}
UPDATE indexed SET a = 'y';
-> key "1_"
-> canal {"type": "UPDATE", "table": "indexed", "pkNames": ["id"], "data": [{"id": "1", "a": "y", "n": "7"}], "old": [{"a": "x"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.indexed", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "a": "x", "n": "7"}, "after": {"id": "1", "a": "y", "n": "7"}}
SET sql_generate_invisible_primary_key = ON;
CREATE TABLE without_key (a INT);
INSERT INTO without_key VALUES (5);
-> key "1_"
-> canal {"type": "INSERT", "table": "without_key", "pkNames": ["my_row_id"], "data": [{"my_row_id": "1", "a": "5"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"my_row_id": "bigint unsigned", "a": "int"}, "sqlType": {"my_row_id": 3, "a": 4}}
-> ogg {"table": "$schema.without_key", "op_type": "I", "primary_keys": ["my_row_id"], "after": {"my_row_id": "1", "a": "5"}}

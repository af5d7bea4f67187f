-- needs: full metadata
-- Columns added, dropped, moved and renamed in mid-stream: each row has the columns that the table had when it was written.
CREATE TABLE growing (id INT PRIMARY KEY, a INT);
INSERT INTO growing VALUES (1, 10);
-> key "1_"
-> canal {"type": "INSERT", "table": "growing", "pkNames": ["id"], "data": [{"id": "1", "a": "10"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "a": "int"}, "sqlType": {"id": 4, "a": 4}}
-> ogg {"table": "$schema.growing", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "10"}}
ALTER TABLE growing ADD COLUMN b VARCHAR(10) DEFAULT 'new' AFTER id;
INSERT INTO growing VALUES (2, 'x', 20);
-> key "2_"
-> canal {"type": "INSERT", "table": "growing", "pkNames": ["id"], "data": [{"id": "2", "b": "x", "a": "20"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "b": "varchar(10)", "a": "int"}, "sqlType": {"id": 4, "b": 12, "a": 4}}
-> ogg {"table": "$schema.growing", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "b": "x", "a": "20"}}
UPDATE growing SET a = 11 WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "growing", "pkNames": ["id"], "data": [{"id": "1", "b": "new", "a": "11"}], "old": [{"a": "10"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.growing", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "b": "new", "a": "10"}, "after": {"id": "1", "b": "new", "a": "11"}}
ALTER TABLE growing DROP COLUMN a;
INSERT INTO growing VALUES (3, 'y');
-> key "3_"
-> canal {"type": "INSERT", "table": "growing", "pkNames": ["id"], "data": [{"id": "3", "b": "y"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "b": "varchar(10)"}, "sqlType": {"id": 4, "b": 12}}
-> ogg {"table": "$schema.growing", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "b": "y"}}
DELETE FROM growing WHERE id < 3;
-> key "1_"
-> canal {"type": "DELETE", "table": "growing", "pkNames": ["id"], "data": [{"id": "1", "b": "new"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.growing", "op_type": "D", "primary_keys": ["id"], "before": {"id": "1", "b": "new"}}
-> key "2_"
-> canal {"type": "DELETE", "table": "growing", "pkNames": ["id"], "data": [{"id": "2", "b": "x"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.growing", "op_type": "D", "primary_keys": ["id"], "before": {"id": "2", "b": "x"}}
ALTER TABLE growing DROP COLUMN b, ADD COLUMN c BIGINT UNSIGNED NOT NULL DEFAULT 7;
DELETE FROM growing WHERE id = 3;
-> key "3_"
-> canal {"type": "DELETE", "table": "growing", "pkNames": ["id"], "data": [{"id": "3", "c": "7"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "c": "bigint unsigned"}, "sqlType": {"id": 4, "c": 3}}
-> ogg {"table": "$schema.growing", "op_type": "D", "primary_keys": ["id"], "before": {"id": "3", "c": "7"}}
ALTER TABLE growing DROP PRIMARY KEY, ADD PRIMARY KEY (c, id);
INSERT INTO growing VALUES (4, 18446744073709551615);
-> key "18446744073709551615_4_"
-> canal {"type": "INSERT", "table": "growing", "pkNames": ["c", "id"], "data": [{"id": "4", "c": "18446744073709551615"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "c": "bigint unsigned"}, "sqlType": {"id": 4, "c": 3}}
-> ogg {"table": "$schema.growing", "op_type": "I", "primary_keys": ["c", "id"], "after": {"id": "4", "c": "18446744073709551615"}}
RENAME TABLE growing TO grown;
INSERT INTO grown VALUES (5, 1);
-> key "1_5_"
-> canal {"type": "INSERT", "table": "grown", "pkNames": ["c", "id"], "data": [{"id": "5", "c": "1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "c": "bigint unsigned"}, "sqlType": {"id": 4, "c": 3}}
-> ogg {"table": "$schema.grown", "op_type": "I", "primary_keys": ["c", "id"], "after": {"id": "5", "c": "1"}}
CREATE TABLE copied LIKE grown;
INSERT INTO copied SELECT * FROM grown WHERE id = 5;
-> key "1_5_"
-> canal {"type": "INSERT", "table": "copied", "pkNames": ["c", "id"], "data": [{"id": "5", "c": "1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "c": "bigint unsigned"}, "sqlType": {"id": 4, "c": 3}}
-> ogg {"table": "$schema.copied", "op_type": "I", "primary_keys": ["c", "id"], "after": {"id": "5", "c": "1"}}
DROP TABLE grown;
CREATE TABLE grown (other VARCHAR(3) PRIMARY KEY);
INSERT INTO grown VALUES ('new');
-> key "new_"
-> canal {"type": "INSERT", "table": "grown", "pkNames": ["other"], "data": [{"other": "new"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"other": "varchar(3)"}, "sqlType": {"other": 12}}
-> ogg {"table": "$schema.grown", "op_type": "I", "primary_keys": ["other"], "after": {"other": "new"}}

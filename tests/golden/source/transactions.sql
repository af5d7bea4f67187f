-- Row numbers count through a transaction, and only its last row is txLast, whatever tables and statements it is made of.
CREATE TABLE a (id INT PRIMARY KEY, n INT);
CREATE TABLE b (id INT PRIMARY KEY, n INT);
CREATE TABLE hidden_c (id INT PRIMARY KEY, n INT);
INSERT INTO a VALUES (1, 1), (2, 2), (3, 3);
-> key "1_"
-> canal {"type": "INSERT", "table": "a", "pkNames": ["id"], "data": [{"id": "1", "n": "1"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "n": "int"}, "sqlType": {"id": 4, "n": 4}}
-> ogg {"table": "$schema.a", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "n": "1"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "a", "pkNames": ["id"], "data": [{"id": "2", "n": "2"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.a", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "n": "2"}}
-> key "3_"
-> canal {"type": "INSERT", "table": "a", "pkNames": ["id"], "data": [{"id": "3", "n": "3"}], "old": null, "row": 2, "txLast": true}
-> ogg {"table": "$schema.a", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "n": "3"}}
BEGIN;
INSERT INTO a VALUES (4, 4);
INSERT INTO b VALUES (1, 1), (2, 2);
UPDATE a SET n = n + 1 WHERE id < 3;
SAVEPOINT before_mistake;
DELETE FROM b;
ROLLBACK TO before_mistake;
DELETE FROM a WHERE id = 4;
INSERT INTO hidden_c VALUES (1, 1);
COMMIT;
-> key "4_"
-> canal {"type": "INSERT", "table": "a", "pkNames": ["id"], "data": [{"id": "4", "n": "4"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.a", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "n": "4"}}
-> key "1_"
-> canal {"type": "INSERT", "table": "b", "pkNames": ["id"], "data": [{"id": "1", "n": "1"}], "old": null, "row": 1, "txLast": false, "mysqlType": {"id": "int", "n": "int"}, "sqlType": {"id": 4, "n": 4}}
-> ogg {"table": "$schema.b", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "n": "1"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "b", "pkNames": ["id"], "data": [{"id": "2", "n": "2"}], "old": null, "row": 2, "txLast": false}
-> ogg {"table": "$schema.b", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "n": "2"}}
-> key "1_"
-> canal {"type": "UPDATE", "table": "a", "pkNames": ["id"], "data": [{"id": "1", "n": "2"}], "old": [{"n": "1"}], "row": 3, "txLast": false}
-> ogg {"table": "$schema.a", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "n": "1"}, "after": {"id": "1", "n": "2"}}
-> key "2_"
-> canal {"type": "UPDATE", "table": "a", "pkNames": ["id"], "data": [{"id": "2", "n": "3"}], "old": [{"n": "2"}], "row": 4, "txLast": false}
-> ogg {"table": "$schema.a", "op_type": "U", "primary_keys": ["id"], "before": {"id": "2", "n": "2"}, "after": {"id": "2", "n": "3"}}
-> key "4_"
-> canal {"type": "DELETE", "table": "a", "pkNames": ["id"], "data": [{"id": "4", "n": "4"}], "old": null, "row": 5, "txLast": true}
-> ogg {"table": "$schema.a", "op_type": "D", "primary_keys": ["id"], "before": {"id": "4", "n": "4"}}
BEGIN;
INSERT INTO a VALUES (5, 5);
ROLLBACK;
BEGIN;
INSERT INTO hidden_c VALUES (2, 2);
INSERT INTO b VALUES (3, 3);
COMMIT;
-> key "3_"
-> canal {"type": "INSERT", "table": "b", "pkNames": ["id"], "data": [{"id": "3", "n": "3"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.b", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "n": "3"}}
BEGIN;
INSERT INTO hidden_c VALUES (3, 3);
COMMIT;
UPDATE a, b SET a.n = 100, b.n = 200 WHERE a.id = b.id AND a.id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "a", "pkNames": ["id"], "data": [{"id": "1", "n": "100"}], "old": [{"n": "2"}], "row": 0, "txLast": false}
-> ogg {"table": "$schema.a", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "n": "2"}, "after": {"id": "1", "n": "100"}}
-> key "1_"
-> canal {"type": "UPDATE", "table": "b", "pkNames": ["id"], "data": [{"id": "1", "n": "200"}], "old": [{"n": "1"}], "row": 1, "txLast": true}
-> ogg {"table": "$schema.b", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "n": "1"}, "after": {"id": "1", "n": "200"}}
UPDATE a SET n = n;

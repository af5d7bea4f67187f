-- Tables without transactions, and CREATE TABLE ... SELECT.
CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=MyISAM;
INSERT INTO plain VALUES (1, 'a'), (2, 'b');
-> key "1_"
-> canal {"type": "INSERT", "table": "plain", "pkNames": ["id"], "data": [{"id": "1", "v": "a"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "v": "varchar(10)"}, "sqlType": {"id": 4, "v": 12}}
-> ogg {"table": "$schema.plain", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "v": "a"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "plain", "pkNames": ["id"], "data": [{"id": "2", "v": "b"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.plain", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "v": "b"}}
UPDATE plain SET v = 'c' WHERE id = 2;
-> key "2_"
-> canal {"type": "UPDATE", "table": "plain", "pkNames": ["id"], "data": [{"id": "2", "v": "c"}], "old": [{"v": "b"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.plain", "op_type": "U", "primary_keys": ["id"], "before": {"id": "2", "v": "b"}, "after": {"id": "2", "v": "c"}}
CREATE TABLE taken (id INT PRIMARY KEY) SELECT * FROM plain;
-> key "1_"
-> canal {"type": "INSERT", "table": "taken", "pkNames": ["id"], "data": [{"id": "1", "v": "a"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "v": "varchar(10)"}, "sqlType": {"id": 4, "v": 12}}
-> ogg {"table": "$schema.taken", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "v": "a"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "taken", "pkNames": ["id"], "data": [{"id": "2", "v": "c"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.taken", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "v": "c"}}
CREATE TEMPORARY TABLE passing (id INT PRIMARY KEY);
INSERT INTO passing VALUES (1);
INSERT INTO plain SELECT id + 10, 'temp' FROM passing;
-> key "11_"
-> canal {"type": "INSERT", "table": "plain", "pkNames": ["id"], "data": [{"id": "11", "v": "temp"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.plain", "op_type": "I", "primary_keys": ["id"], "after": {"id": "11", "v": "temp"}}
DROP TEMPORARY TABLE passing;

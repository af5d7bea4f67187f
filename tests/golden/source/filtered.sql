-- The runner leaves out tables whose names begin with hidden: nothing of them comes.
CREATE TABLE shown (id INT PRIMARY KEY);
CREATE TABLE hidden_one (id INT PRIMARY KEY, v VARCHAR(5) CHARACTER SET swe7);
INSERT INTO hidden_one VALUES (1, 'x');
INSERT INTO shown VALUES (1);
-> key "1_"
-> canal {"type": "INSERT", "table": "shown", "pkNames": ["id"], "data": [{"id": "1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int"}, "sqlType": {"id": 4}}
-> ogg {"table": "$schema.shown", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1"}}
ALTER TABLE hidden_one ADD COLUMN n INT;
INSERT INTO hidden_one VALUES (2, 'y', 1);
INSERT INTO shown VALUES (2);
-> key "2_"
-> canal {"type": "INSERT", "table": "shown", "pkNames": ["id"], "data": [{"id": "2"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.shown", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2"}}
RENAME TABLE hidden_one TO hidden_two;
DELETE FROM hidden_two;
DELETE FROM shown WHERE id = 1;
-> key "1_"
-> canal {"type": "DELETE", "table": "shown", "pkNames": ["id"], "data": [{"id": "1"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.shown", "op_type": "D", "primary_keys": ["id"], "before": {"id": "1"}}

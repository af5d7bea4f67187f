-- Composite keys: the key text has the columns by name; an update that changes the key is a delete and an insert.
CREATE TABLE order_lines (order_no INT, line_no INT, item VARCHAR(10), PRIMARY KEY (order_no, line_no));
INSERT INTO order_lines VALUES (1, 1, 'a'), (1, 2, 'b');
-> key "1_1_"
-> canal {"type": "INSERT", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "1", "item": "a"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"order_no": "int", "line_no": "int", "item": "varchar(10)"}, "sqlType": {"order_no": 4, "line_no": 4, "item": 12}}
-> ogg {"table": "$schema.order_lines", "op_type": "I", "primary_keys": ["order_no", "line_no"], "after": {"order_no": "1", "line_no": "1", "item": "a"}}
-> key "2_1_"
-> canal {"type": "INSERT", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "2", "item": "b"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.order_lines", "op_type": "I", "primary_keys": ["order_no", "line_no"], "after": {"order_no": "1", "line_no": "2", "item": "b"}}
UPDATE order_lines SET item = 'c' WHERE line_no = 2;
-> key "2_1_"
-> canal {"type": "UPDATE", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "2", "item": "c"}], "old": [{"item": "b"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.order_lines", "op_type": "U", "primary_keys": ["order_no", "line_no"], "before": {"order_no": "1", "line_no": "2", "item": "b"}, "after": {"order_no": "1", "line_no": "2", "item": "c"}}
UPDATE order_lines SET line_no = line_no + 10;
-> key "1_1_"
-> canal {"type": "DELETE", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "1", "item": "a"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.order_lines", "op_type": "D", "primary_keys": ["order_no", "line_no"], "before": {"order_no": "1", "line_no": "1", "item": "a"}}
-> key "11_1_"
-> canal {"type": "INSERT", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "11", "item": "a"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.order_lines", "op_type": "I", "primary_keys": ["order_no", "line_no"], "after": {"order_no": "1", "line_no": "11", "item": "a"}}
-> key "2_1_"
-> canal {"type": "DELETE", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "2", "item": "c"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.order_lines", "op_type": "D", "primary_keys": ["order_no", "line_no"], "before": {"order_no": "1", "line_no": "2", "item": "c"}}
-> key "12_1_"
-> canal {"type": "INSERT", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "12", "item": "c"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.order_lines", "op_type": "I", "primary_keys": ["order_no", "line_no"], "after": {"order_no": "1", "line_no": "12", "item": "c"}}
DELETE FROM order_lines WHERE line_no = 11;
-> key "11_1_"
-> canal {"type": "DELETE", "table": "order_lines", "pkNames": ["order_no", "line_no"], "data": [{"order_no": "1", "line_no": "11", "item": "a"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.order_lines", "op_type": "D", "primary_keys": ["order_no", "line_no"], "before": {"order_no": "1", "line_no": "11", "item": "a"}}
CREATE TABLE codes (code VARCHAR(20) PRIMARY KEY, n INT);
INSERT INTO codes VALUES ('A_b ü', 1), ('', 2);
-> key "A_b ü_"
-> canal {"type": "INSERT", "table": "codes", "pkNames": ["code"], "data": [{"code": "A_b ü", "n": "1"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"code": "varchar(20)", "n": "int"}, "sqlType": {"code": 12, "n": 4}}
-> ogg {"table": "$schema.codes", "op_type": "I", "primary_keys": ["code"], "after": {"code": "A_b ü", "n": "1"}}
-> key "_"
-> canal {"type": "INSERT", "table": "codes", "pkNames": ["code"], "data": [{"code": "", "n": "2"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.codes", "op_type": "I", "primary_keys": ["code"], "after": {"code": "", "n": "2"}}
UPDATE codes SET code = 'a_B ü' WHERE n = 1;
-> key "A_b ü_"
-> canal {"type": "DELETE", "table": "codes", "pkNames": ["code"], "data": [{"code": "A_b ü", "n": "1"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.codes", "op_type": "D", "primary_keys": ["code"], "before": {"code": "A_b ü", "n": "1"}}
-> key "a_B ü_"
-> canal {"type": "INSERT", "table": "codes", "pkNames": ["code"], "data": [{"code": "a_B ü", "n": "1"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.codes", "op_type": "I", "primary_keys": ["code"], "after": {"code": "a_B ü", "n": "1"}}
REPLACE INTO codes VALUES ('', 3);
-> key "_"
-> canal {"type": "UPDATE", "table": "codes", "pkNames": ["code"], "data": [{"code": "", "n": "3"}], "old": [{"n": "2"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.codes", "op_type": "U", "primary_keys": ["code"], "before": {"code": "", "n": "2"}, "after": {"code": "", "n": "3"}}
INSERT INTO codes VALUES ('', 4) ON DUPLICATE KEY UPDATE n = 4;
-> key "_"
-> canal {"type": "UPDATE", "table": "codes", "pkNames": ["code"], "data": [{"code": "", "n": "4"}], "old": [{"n": "3"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.codes", "op_type": "U", "primary_keys": ["code"], "before": {"code": "", "n": "3"}, "after": {"code": "", "n": "4"}}
-- The runner gives this table the partition key region, Name.
CREATE TABLE keyed (id INT PRIMARY KEY, Name VARCHAR(10), region VARCHAR(10), n INT);
INSERT INTO keyed VALUES (1, 'n', 'r', 1), (2, NULL, 'r', 1);
-> key "n_r_"
-> canal {"type": "INSERT", "table": "keyed", "pkNames": ["id"], "data": [{"id": "1", "Name": "n", "region": "r", "n": "1"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "Name": "varchar(10)", "region": "varchar(10)", "n": "int"}, "sqlType": {"id": 4, "Name": 12, "region": 12, "n": 4}}
-> ogg {"table": "$schema.keyed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "Name": "n", "region": "r", "n": "1"}}
-> key "null_r_"
-> canal {"type": "INSERT", "table": "keyed", "pkNames": ["id"], "data": [{"id": "2", "Name": null, "region": "r", "n": "1"}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.keyed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "Name": null, "region": "r", "n": "1"}}
UPDATE keyed SET n = 2 WHERE id = 1;
-> key "n_r_"
-> canal {"type": "UPDATE", "table": "keyed", "pkNames": ["id"], "data": [{"id": "1", "Name": "n", "region": "r", "n": "2"}], "old": [{"n": "1"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.keyed", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "Name": "n", "region": "r", "n": "1"}, "after": {"id": "1", "Name": "n", "region": "r", "n": "2"}}
UPDATE keyed SET region = 's' WHERE id = 1;
-> key "n_r_"
-> canal {"type": "DELETE", "table": "keyed", "pkNames": ["id"], "data": [{"id": "1", "Name": "n", "region": "r", "n": "2"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.keyed", "op_type": "D", "primary_keys": ["id"], "before": {"id": "1", "Name": "n", "region": "r", "n": "2"}}
-> key "n_s_"
-> canal {"type": "INSERT", "table": "keyed", "pkNames": ["id"], "data": [{"id": "1", "Name": "n", "region": "s", "n": "2"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.keyed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "Name": "n", "region": "s", "n": "2"}}
UPDATE keyed SET id = 3 WHERE id = 2;
-> key "null_r_"
-> canal {"type": "DELETE", "table": "keyed", "pkNames": ["id"], "data": [{"id": "2", "Name": null, "region": "r", "n": "1"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.keyed", "op_type": "D", "primary_keys": ["id"], "before": {"id": "2", "Name": null, "region": "r", "n": "1"}}
-> key "null_r_"
-> canal {"type": "INSERT", "table": "keyed", "pkNames": ["id"], "data": [{"id": "3", "Name": null, "region": "r", "n": "1"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.keyed", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "Name": null, "region": "r", "n": "1"}}

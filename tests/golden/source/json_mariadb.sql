-- only: mariadb
-- MariaDB keeps JSON as the text it was given.
CREATE TABLE docs (id INT PRIMARY KEY, j JSON);
INSERT INTO docs VALUES (1, '{"b": 1,"a":[true,null]  , "ü": "漢😀"}'), (2, 'null'), (3, NULL), (4, '[1.50, 1e2]');
-> key "1_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "1", "j": "{\"b\": 1,\"a\":[true,null]  , \"ü\": \"漢😀\"}"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "j": "longtext"}, "sqlType": {"id": 4, "j": 2005}}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "j": "{\"b\": 1,\"a\":[true,null]  , \"ü\": \"漢😀\"}"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "2", "j": "null"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "j": "null"}}
-> key "3_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "3", "j": null}], "old": null, "row": 2, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "j": null}}
-> key "4_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "4", "j": "[1.50, 1e2]"}], "old": null, "row": 3, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "j": "[1.50, 1e2]"}}
UPDATE docs SET j = JSON_SET(j, '$.b', 2) WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "docs", "pkNames": ["id"], "data": [{"id": "1", "j": "{\"b\": 2, \"a\": [true, null], \"ü\": \"漢😀\"}"}], "old": [{"j": "{\"b\": 1,\"a\":[true,null]  , \"ü\": \"漢😀\"}"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "j": "{\"b\": 1,\"a\":[true,null]  , \"ü\": \"漢😀\"}"}, "after": {"id": "1", "j": "{\"b\": 2, \"a\": [true, null], \"ü\": \"漢😀\"}"}}

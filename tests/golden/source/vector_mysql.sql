-- only: mysql
-- VECTOR as its bytes: 4-byte floats. The text column after it has the right character set.
CREATE TABLE embeddings (id INT PRIMARY KEY, a VARCHAR(5) CHARACTER SET gbk, v VECTOR(3), b VARCHAR(5) CHARACTER SET latin1);
INSERT INTO embeddings VALUES (1, '汉', TO_VECTOR('[1, -2.5, 0]'), 'é'), (2, NULL, NULL, NULL);
-> key "1_"
-> canal {"type": "INSERT", "table": "embeddings", "pkNames": ["id"], "data": [{"id": "1", "a": "汉", "v": "\u0000\u0000\u0080?\u0000\u0000 À\u0000\u0000\u0000\u0000", "b": "é"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "a": "varchar(5)", "v": "vector", "b": "varchar(5)"}, "sqlType": {"id": 4, "a": 12, "v": 2004, "b": 12}}
-> ogg {"table": "$schema.embeddings", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "汉", "v": "\u0000\u0000\u0080?\u0000\u0000 À\u0000\u0000\u0000\u0000", "b": "é"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "embeddings", "pkNames": ["id"], "data": [{"id": "2", "a": null, "v": null, "b": null}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.embeddings", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "a": null, "v": null, "b": null}}

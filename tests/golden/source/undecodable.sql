-- A byte that is no character in its column's character set shows as \xNN; the row and what follows it come all the same.
SET sql_mode = '';
CREATE TABLE odd (id INT PRIMARY KEY, a VARCHAR(10) CHARACTER SET cp1250, g VARCHAR(10) CHARACTER SET gbk, h VARCHAR(10) CHARACTER SET geostd8, l VARCHAR(10) CHARACTER SET latin1);
INSERT INTO odd VALUES (1, CONVERT(x'618162' USING cp1250), CONVERT(x'61FEFE62' USING gbk), CONVERT(x'C081C1' USING geostd8), CONVERT(x'E98180' USING latin1));
-> key "1_"
-> canal {"type": "INSERT", "table": "odd", "pkNames": ["id"], "data": [{"id": "1", "a": "a\\x81b", "g": "a\\xfe\\xfeb", "h": "ა\\x81ბ", "l": "é\u0081€"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "a": "varchar(10)", "g": "varchar(10)", "h": "varchar(10)", "l": "varchar(10)"}, "sqlType": {"id": 4, "a": 12, "g": 12, "h": 12, "l": 12}}
-> ogg {"table": "$schema.odd", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "a\\x81b", "g": "a\\xfe\\xfeb", "h": "ა\\x81ბ", "l": "é\u0081€"}}
INSERT INTO odd VALUES (2, '\\x81', '汉', 'აბ', '\\');
-> key "2_"
-> canal {"type": "INSERT", "table": "odd", "pkNames": ["id"], "data": [{"id": "2", "a": "\\x81", "g": "汉", "h": "აბ", "l": "\\"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.odd", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "a": "\\x81", "g": "汉", "h": "აბ", "l": "\\"}}

-- only: mysql
-- MySQL's binary JSON: every kind of value, as MySQL itself prints it.
CREATE TABLE docs (id INT PRIMARY KEY, j JSON);
INSERT INTO docs VALUES (1, '{"b": 1, "a": [true, false, null, "x", -1.5, {}, []], "ü": "漢😀", "q\\"": "\\\\ \\" \\n \\u0001"}');
-> key "1_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "1", "j": "{\"a\": [true, false, null, \"x\", -1.5, {}, []], \"b\": 1, \"q\\\"\": \"\\\\ \\\" \\n \\u0001\", \"ü\": \"漢😀\"}"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "j": "json"}, "sqlType": {"id": 4, "j": 12}}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "j": "{\"a\": [true, false, null, \"x\", -1.5, {}, []], \"b\": 1, \"q\\\"\": \"\\\\ \\\" \\n \\u0001\", \"ü\": \"漢😀\"}"}}
INSERT INTO docs VALUES (2, 'null'), (3, 'true'), (4, '"text"'), (5, '[]'), (6, '{}'), (7, NULL), (8, '""');
-> key "2_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "2", "j": "null"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "j": "null"}}
-> key "3_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "3", "j": "true"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "j": "true"}}
-> key "4_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "4", "j": "\"text\""}], "old": null, "row": 2, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "j": "\"text\""}}
-> key "5_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "5", "j": "[]"}], "old": null, "row": 3, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "5", "j": "[]"}}
-> key "6_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "6", "j": "{}"}], "old": null, "row": 4, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "6", "j": "{}"}}
-> key "7_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "7", "j": null}], "old": null, "row": 5, "txLast": false}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "7", "j": null}}
-> key "8_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "8", "j": "\"\""}], "old": null, "row": 6, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "8", "j": "\"\""}}
INSERT INTO docs VALUES (9, '[32767, -32768, 32768, 65535, 65536, -32769, 2147483647, -2147483648, 4294967295, 4294967296, 9223372036854775807, -9223372036854775808, 18446744073709551615]');
-> key "9_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "9", "j": "[32767, -32768, 32768, 65535, 65536, -32769, 2147483647, -2147483648, 4294967295, 4294967296, 9223372036854775807, -9223372036854775808, 18446744073709551615]"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "9", "j": "[32767, -32768, 32768, 65535, 65536, -32769, 2147483647, -2147483648, 4294967295, 4294967296, 9223372036854775807, -9223372036854775808, 18446744073709551615]"}}
INSERT INTO docs VALUES (10, '[1.0, 0.1, 1e15, 1e16, 1e20, 1e-5, 1e-7, 1.7976931348623157e308, -0.0, 123456789.125]');
-> key "10_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "10", "j": "[1.0, 0.1, 1e15, 1e16, 1e20, 0.00001, 0.0000001, 1.7976931348623157e308, -0.0, 123456789.125]"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "10", "j": "[1.0, 0.1, 1e15, 1e16, 1e20, 0.00001, 0.0000001, 1.7976931348623157e308, -0.0, 123456789.125]"}}
INSERT INTO docs VALUES (11, JSON_ARRAY(CAST('12.50' AS DECIMAL(10,2)), CAST('-0.001' AS DECIMAL(65,30)), CAST('2024-02-29' AS DATE), CAST('-23:59:58.5' AS TIME(6)), CAST('2024-02-29 23:59:59.123456' AS DATETIME(6)), CAST('2024-01-01' AS DATETIME), x'00FF', b'101'));
-> key "11_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "11", "j": "[12.50, -0.001000000000000000000000000000, \"2024-02-29\", \"-23:59:58.500000\", \"2024-02-29 23:59:59.123456\", \"2024-01-01 00:00:00.000000\", \"base64:type15:AP8=\", \"base64:type15:BQ==\"]"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "11", "j": "[12.50, -0.001000000000000000000000000000, \"2024-02-29\", \"-23:59:58.500000\", \"2024-02-29 23:59:59.123456\", \"2024-01-01 00:00:00.000000\", \"base64:type15:AP8=\", \"base64:type15:BQ==\"]"}}
INSERT INTO docs VALUES (12, JSON_OBJECT('long', REPEAT('x', 300), 'longer', JSON_ARRAY(REPEAT('é', 100))));
-> key "12_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "12", "j": "{\"long\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", \"longer\": [\"éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé\"]}"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "12", "j": "{\"long\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", \"longer\": [\"éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé\"]}"}}
UPDATE docs SET j = JSON_SET(j, '$.a[0]', 'changed') WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "docs", "pkNames": ["id"], "data": [{"id": "1", "j": "{\"a\": [\"changed\", false, null, \"x\", -1.5, {}, []], \"b\": 1, \"q\\\"\": \"\\\\ \\\" \\n \\u0001\", \"ü\": \"漢😀\"}"}], "old": [{"j": "{\"a\": [true, false, null, \"x\", -1.5, {}, []], \"b\": 1, \"q\\\"\": \"\\\\ \\\" \\n \\u0001\", \"ü\": \"漢😀\"}"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "j": "{\"a\": [true, false, null, \"x\", -1.5, {}, []], \"b\": 1, \"q\\\"\": \"\\\\ \\\" \\n \\u0001\", \"ü\": \"漢😀\"}"}, "after": {"id": "1", "j": "{\"a\": [\"changed\", false, null, \"x\", -1.5, {}, []], \"b\": 1, \"q\\\"\": \"\\\\ \\\" \\n \\u0001\", \"ü\": \"漢😀\"}"}}
INSERT INTO docs SELECT 13, JSON_OBJECT('timestamp', TIMESTAMP('2024-01-01 00:00:00.5'), 'year', CAST(2024 AS YEAR), 'point', ST_GeomFromText('POINT(1 2)'));
-> key "13_"
-> canal {"type": "INSERT", "table": "docs", "pkNames": ["id"], "data": [{"id": "13", "j": "{\"year\": 2024, \"point\": {\"crs\": {\"type\": \"name\", \"properties\": {\"name\": \"urn:ogc:def:crs:MySQL::0\"}}, \"type\": \"Point\", \"coordinates\": [1.0, 2.0]}, \"timestamp\": \"2024-01-01 00:00:00.500000\"}"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.docs", "op_type": "I", "primary_keys": ["id"], "after": {"id": "13", "j": "{\"year\": 2024, \"point\": {\"crs\": {\"type\": \"name\", \"properties\": {\"name\": \"urn:ogc:def:crs:MySQL::0\"}}, \"type\": \"Point\", \"coordinates\": [1.0, 2.0]}, \"timestamp\": \"2024-01-01 00:00:00.500000\"}"}}

-- FLOAT and DOUBLE as the shortest text that reads back as the same number.
CREATE TABLE floats (id INT PRIMARY KEY, f FLOAT, d DOUBLE);
INSERT INTO floats VALUES (1, 0.1, 0.1), (2, -3.4028234e38, -1.7976931348623157e308), (3, 1.1754944e-38, 2.2250738585072014e-308);
-> key "1_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "1", "f": "0.1", "d": "0.1"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "f": "float", "d": "double"}, "sqlType": {"id": 4, "f": 7, "d": 8}}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "f": "0.1", "d": "0.1"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "2", "f": "-3.4028235e+38", "d": "-1.7976931348623157e+308"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "f": "-3.4028235e+38", "d": "-1.7976931348623157e+308"}}
-> key "3_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "3", "f": "1.1754944e-38", "d": "2.2250738585072014e-308"}], "old": null, "row": 2, "txLast": true}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "f": "1.1754944e-38", "d": "2.2250738585072014e-308"}}
INSERT INTO floats VALUES (4, 16777217, 9007199254740993), (5, 0, 0), (6, 3.14159265358979, 3.141592653589793), (7, 1e10, 1e22), (8, -0.5, 123456789.123);
-> key "4_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "4", "f": "16777216.0", "d": "9007199254740992.0"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "f": "16777216.0", "d": "9007199254740992.0"}}
-> key "5_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "5", "f": "0.0", "d": "0.0"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "5", "f": "0.0", "d": "0.0"}}
-> key "6_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "6", "f": "3.1415927", "d": "3.141592653589793"}], "old": null, "row": 2, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "6", "f": "3.1415927", "d": "3.141592653589793"}}
-> key "7_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "7", "f": "10000000000.0", "d": "1e+22"}], "old": null, "row": 3, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "7", "f": "10000000000.0", "d": "1e+22"}}
-> key "8_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "8", "f": "-0.5", "d": "123456789.123"}], "old": null, "row": 4, "txLast": true}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "8", "f": "-0.5", "d": "123456789.123"}}
INSERT INTO floats VALUES (9, 1e-45, 5e-324), (10, -1.1754942e-38, -2.225073858507201e-308), (11, 3.4e38, 1e15);
-> key "9_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "9", "f": "1e-45", "d": "5e-324"}], "old": null, "row": 0, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "9", "f": "1e-45", "d": "5e-324"}}
-> key "10_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "10", "f": "-1.1754942e-38", "d": "-2.225073858507201e-308"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "10", "f": "-1.1754942e-38", "d": "-2.225073858507201e-308"}}
-> key "11_"
-> canal {"type": "INSERT", "table": "floats", "pkNames": ["id"], "data": [{"id": "11", "f": "3.4e+38", "d": "1000000000000000.0"}], "old": null, "row": 2, "txLast": true}
-> ogg {"table": "$schema.floats", "op_type": "I", "primary_keys": ["id"], "after": {"id": "11", "f": "3.4e+38", "d": "1000000000000000.0"}}

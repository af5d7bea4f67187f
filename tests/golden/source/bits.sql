-- BIT(1) to BIT(64) as unsigned numbers.
CREATE TABLE bits (id INT PRIMARY KEY, b1 BIT(1), b7 BIT(7), b8 BIT(8), b9 BIT(9), b17 BIT(17), b33 BIT(33), b64 BIT(64));
INSERT INTO bits VALUES (1, 0, 0, 0, 0, 0, 0, 0);
-> key "1_"
-> canal {"type": "INSERT", "table": "bits", "pkNames": ["id"], "data": [{"id": "1", "b1": "0", "b7": "0", "b8": "0", "b9": "0", "b17": "0", "b33": "0", "b64": "0"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "b1": "bit(1)", "b7": "bit(7)", "b8": "bit(8)", "b9": "bit(9)", "b17": "bit(17)", "b33": "bit(33)", "b64": "bit(64)"}, "sqlType": {"id": 4, "b1": -7, "b7": -7, "b8": -7, "b9": -7, "b17": -7, "b33": -7, "b64": -7}}
-> ogg {"table": "$schema.bits", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "b1": "0", "b7": "0", "b8": "0", "b9": "0", "b17": "0", "b33": "0", "b64": "0"}}
INSERT INTO bits VALUES (2, 1, 127, 255, 511, 131071, 8589934591, 18446744073709551615);
-> key "2_"
-> canal {"type": "INSERT", "table": "bits", "pkNames": ["id"], "data": [{"id": "2", "b1": "1", "b7": "127", "b8": "255", "b9": "511", "b17": "131071", "b33": "8589934591", "b64": "18446744073709551615"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.bits", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "b1": "1", "b7": "127", "b8": "255", "b9": "511", "b17": "131071", "b33": "8589934591", "b64": "18446744073709551615"}}
INSERT INTO bits VALUES (3, b'1', b'1000000', b'10000000', b'100000000', b'10000000000000000', NULL, b'1000000000000000000000000000000000000000000000000000000000000001');
-> key "3_"
-> canal {"type": "INSERT", "table": "bits", "pkNames": ["id"], "data": [{"id": "3", "b1": "1", "b7": "64", "b8": "128", "b9": "256", "b17": "65536", "b33": null, "b64": "9223372036854775809"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.bits", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "b1": "1", "b7": "64", "b8": "128", "b9": "256", "b17": "65536", "b33": null, "b64": "9223372036854775809"}}

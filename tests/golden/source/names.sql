-- Odd names of tables and columns.
CREATE TABLE `order` (`select` INT PRIMARY KEY, `a b` INT, `ü漢` INT, `q"\'` INT, `MiXed` INT, `x-y.z` INT);
INSERT INTO `order` VALUES (1, 2, 3, 4, 5, 6);
-> key "1_"
-> canal {"type": "INSERT", "table": "order", "pkNames": ["select"], "data": [{"select": "1", "a b": "2", "ü漢": "3", "q\"\\'": "4", "MiXed": "5", "x-y.z": "6"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"select": "int", "a b": "int", "ü漢": "int", "q\"\\'": "int", "MiXed": "int", "x-y.z": "int"}, "sqlType": {"select": 4, "a b": 4, "ü漢": 4, "q\"\\'": 4, "MiXed": 4, "x-y.z": 4}}
-> ogg {"table": "$schema.order", "op_type": "I", "primary_keys": ["select"], "after": {"select": "1", "a b": "2", "ü漢": "3", "q\"\\'": "4", "MiXed": "5", "x-y.z": "6"}}
UPDATE `order` SET `ü漢` = 30, `q"\'` = 40;
-> key "1_"
-> canal {"type": "UPDATE", "table": "order", "pkNames": ["select"], "data": [{"select": "1", "a b": "2", "ü漢": "30", "q\"\\'": "40", "MiXed": "5", "x-y.z": "6"}], "old": [{"ü漢": "3", "q\"\\'": "4"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.order", "op_type": "U", "primary_keys": ["select"], "before": {"select": "1", "a b": "2", "ü漢": "3", "q\"\\'": "4", "MiXed": "5", "x-y.z": "6"}, "after": {"select": "1", "a b": "2", "ü漢": "30", "q\"\\'": "40", "MiXed": "5", "x-y.z": "6"}}
CREATE TABLE `größe` (`schlüssel` INT PRIMARY KEY);
INSERT INTO `größe` VALUES (1);
-> key "1_"
-> canal {"type": "INSERT", "table": "größe", "pkNames": ["schlüssel"], "data": [{"schlüssel": "1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"schlüssel": "int"}, "sqlType": {"schlüssel": 4}}
-> ogg {"table": "$schema.größe", "op_type": "I", "primary_keys": ["schlüssel"], "after": {"schlüssel": "1"}}
CREATE TABLE `has space` (id INT PRIMARY KEY);
INSERT INTO `has space` VALUES (1);
-> key "1_"
-> canal {"type": "INSERT", "table": "has space", "pkNames": ["id"], "data": [{"id": "1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int"}, "sqlType": {"id": 4}}
-> ogg {"table": "$schema.has space", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1"}}
CREATE TABLE `CamelCase` (Id INT PRIMARY KEY);
INSERT INTO `CamelCase` VALUES (1);
-> key "1_"
-> canal {"type": "INSERT", "table": "CamelCase", "pkNames": ["Id"], "data": [{"Id": "1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"Id": "int"}, "sqlType": {"Id": 4}}
-> ogg {"table": "$schema.CamelCase", "op_type": "I", "primary_keys": ["Id"], "after": {"Id": "1"}}

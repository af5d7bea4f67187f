-- Labels, not numbers; the empty text is what MySQL stores for a value that is none of the labels.
SET sql_mode = '';
CREATE TABLE choices (
  id INT PRIMARY KEY, e ENUM('red', 'green', 'it''s', 'a,b') CHARACTER SET latin1, s SET('x', 'y', 'zé', '') CHARACTER SET utf8mb4,
  v VARCHAR(10) CHARACTER SET gbk, e2 ENUM('漢', '字') CHARACTER SET gbk, s2 SET('a1','a2','a3','a4','a5','a6','a7','a8','a9','b1','b2','b3','b4','b5','b6','b7','b8','b9','c1','c2','c3','c4','c5','c6','c7','c8','c9','d1','d2','d3','d4','d5','d6','d7','d8','d9','e1','e2','e3','e4','e5','e6','e7','e8','e9','f1','f2','f3','f4','f5','f6','f7','f8','f9','g1','g2','g3','g4','g5','g6','g7','g8','g9','h1'));
INSERT INTO choices VALUES (1, 'red', 'x', '汉', '漢', 'a1');
-> key "1_"
-> canal {"type": "INSERT", "table": "choices", "pkNames": ["id"], "data": [{"id": "1", "e": "red", "s": "x", "v": "汉", "e2": "漢", "s2": "a1"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "e": "enum('red','green','it''s','a,b')", "s": "set('x','y','zé','')", "v": "varchar(10)", "e2": "enum('漢','字')", "s2": "set('a1','a2','a3','a4','a5','a6','a7','a8','a9','b1','b2','b3','b4','b5','b6','b7','b8','b9','c1','c2','c3','c4','c5','c6','c7','c8','c9','d1','d2','d3','d4','d5','d6','d7','d8','d9','e1','e2','e3','e4','e5','e6','e7','e8','e9','f1','f2','f3','f4','f5','f6','f7','f8','f9','g1','g2','g3','g4','g5','g6','g7','g8','g9','h1')"}, "sqlType": {"id": 4, "e": 4, "s": -7, "v": 12, "e2": 4, "s2": -7}}
-> ogg {"table": "$schema.choices", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "e": "red", "s": "x", "v": "汉", "e2": "漢", "s2": "a1"}}
INSERT INTO choices VALUES (2, 'it''s', 'y,zé', '', '字', 'h1,a1');
-> key "2_"
-> canal {"type": "INSERT", "table": "choices", "pkNames": ["id"], "data": [{"id": "2", "e": "it's", "s": "y,zé", "v": "", "e2": "字", "s2": "a1,h1"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.choices", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "e": "it's", "s": "y,zé", "v": "", "e2": "字", "s2": "a1,h1"}}
INSERT INTO choices VALUES (3, 'a,b', '', NULL, NULL, NULL);
-> key "3_"
-> canal {"type": "INSERT", "table": "choices", "pkNames": ["id"], "data": [{"id": "3", "e": "a,b", "s": "", "v": null, "e2": null, "s2": null}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.choices", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "e": "a,b", "s": "", "v": null, "e2": null, "s2": null}}
INSERT INTO choices VALUES (4, 'no such label', 'x,nonsense', NULL, 0, 'g9');
-> key "4_"
-> canal {"type": "INSERT", "table": "choices", "pkNames": ["id"], "data": [{"id": "4", "e": "", "s": "x", "v": null, "e2": "", "s2": "g9"}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.choices", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "e": "", "s": "x", "v": null, "e2": "", "s2": "g9"}}
UPDATE choices SET e = 'green', s = 'x,y,zé' WHERE id = 1;
-> key "1_"
-> canal {"type": "UPDATE", "table": "choices", "pkNames": ["id"], "data": [{"id": "1", "e": "green", "s": "x,y,zé", "v": "汉", "e2": "漢", "s2": "a1"}], "old": [{"e": "red", "s": "x"}], "row": 0, "txLast": true}
-> ogg {"table": "$schema.choices", "op_type": "U", "primary_keys": ["id"], "before": {"id": "1", "e": "red", "s": "x", "v": "汉", "e2": "漢", "s2": "a1"}, "after": {"id": "1", "e": "green", "s": "x,y,zé", "v": "汉", "e2": "漢", "s2": "a1"}}
CREATE TABLE odd_labels (id INT PRIMARY KEY, e ENUM('back\\slash', 'new\nline', 'tab\t', '"', ' space', '', 'q''', '%s', '漢,字'), s SET('back\\slash', '''', 'x y'));
INSERT INTO odd_labels VALUES (1, 1, 1), (2, 2, 2), (3, 3, 7), (4, 4, 0), (5, 5, NULL), (6, 6, 3), (7, 7, 5), (8, 8, 6), (9, 9, 4);
-> key "1_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "1", "e": "back\\slash", "s": "back\\slash"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "e": "enum('back\\slash','new\nline','tab\t','\"',' space','','q''','%s','漢,字')", "s": "set('back\\slash','''','x y')"}, "sqlType": {"id": 4, "e": 4, "s": -7}}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "e": "back\\slash", "s": "back\\slash"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "2", "e": "new\nline", "s": "'"}], "old": null, "row": 1, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "e": "new\nline", "s": "'"}}
-> key "3_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "3", "e": "tab\t", "s": "back\\slash,',x y"}], "old": null, "row": 2, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "e": "tab\t", "s": "back\\slash,',x y"}}
-> key "4_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "4", "e": "\"", "s": ""}], "old": null, "row": 3, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "e": "\"", "s": ""}}
-> key "5_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "5", "e": " space", "s": null}], "old": null, "row": 4, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "5", "e": " space", "s": null}}
-> key "6_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "6", "e": "", "s": "back\\slash,'"}], "old": null, "row": 5, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "6", "e": "", "s": "back\\slash,'"}}
-> key "7_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "7", "e": "q'", "s": "back\\slash,x y"}], "old": null, "row": 6, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "7", "e": "q'", "s": "back\\slash,x y"}}
-> key "8_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "8", "e": "%s", "s": "',x y"}], "old": null, "row": 7, "txLast": false}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "8", "e": "%s", "s": "',x y"}}
-> key "9_"
-> canal {"type": "INSERT", "table": "odd_labels", "pkNames": ["id"], "data": [{"id": "9", "e": "漢,字", "s": "x y"}], "old": null, "row": 8, "txLast": true}
-> ogg {"table": "$schema.odd_labels", "op_type": "I", "primary_keys": ["id"], "after": {"id": "9", "e": "漢,字", "s": "x y"}}

-- Text in the character set of each column, not in that of the table or the connection.
CREATE TABLE texts (
  id INT PRIMARY KEY,
  u VARCHAR(40) CHARACTER SET utf8mb4, g VARCHAR(40) CHARACTER SET gbk, l VARCHAR(40) CHARACTER SET latin1, w VARCHAR(40) CHARACTER SET utf16,
  n INT UNSIGNED,
  cu CHAR(20) CHARACTER SET utf8mb4, cg CHAR(20) CHARACTER SET gbk, cl CHAR(20) CHARACTER SET latin1, cw CHAR(20) CHARACTER SET utf16,
  tu TEXT CHARACTER SET utf8mb4, tg TINYTEXT CHARACTER SET gbk, tl MEDIUMTEXT CHARACTER SET latin1, tw LONGTEXT CHARACTER SET utf16,
  c CHAR(255) CHARACTER SET utf8mb4) CHARACTER SET latin1;
INSERT INTO texts VALUES (1, '漢字 ünï 😀', '汉字传输', 'Müller € Ÿ', '漢 😀 ü', 4294967295, '漢字 ünï 😀', '汉字传输', 'Müller €', '漢 😀', '漢字 ünï 😀', '汉字传输', 'Müller €', '漢 😀', REPEAT('漢', 3));
-> key "1_"
-> canal {"type": "INSERT", "table": "texts", "pkNames": ["id"], "data": [{"id": "1", "u": "漢字 ünï 😀", "g": "汉字传输", "l": "Müller € Ÿ", "w": "漢 😀 ü", "n": "4294967295", "cu": "漢字 ünï 😀", "cg": "汉字传输", "cl": "Müller €", "cw": "漢 😀", "tu": "漢字 ünï 😀", "tg": "汉字传输", "tl": "Müller €", "tw": "漢 😀", "c": "漢漢漢"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "u": "varchar(40)", "g": "varchar(40)", "l": "varchar(40)", "w": "varchar(40)", "n": "int unsigned", "cu": "char(20)", "cg": "char(20)", "cl": "char(20)", "cw": "char(20)", "tu": "text", "tg": "tinytext", "tl": "mediumtext", "tw": "longtext", "c": "char(255)"}, "sqlType": {"id": 4, "u": 12, "g": 12, "l": 12, "w": 12, "n": -5, "cu": 1, "cg": 1, "cl": 1, "cw": 1, "tu": 2005, "tg": 2005, "tl": 2005, "tw": 2005, "c": 1}}
-> ogg {"table": "$schema.texts", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "u": "漢字 ünï 😀", "g": "汉字传输", "l": "Müller € Ÿ", "w": "漢 😀 ü", "n": "4294967295", "cu": "漢字 ünï 😀", "cg": "汉字传输", "cl": "Müller €", "cw": "漢 😀", "tu": "漢字 ünï 😀", "tg": "汉字传输", "tl": "Müller €", "tw": "漢 😀", "c": "漢漢漢"}}
INSERT INTO texts VALUES (2, '', '', '', '', 0, '', '', '', '', '', '', '', '', '');
-> key "2_"
-> canal {"type": "INSERT", "table": "texts", "pkNames": ["id"], "data": [{"id": "2", "u": "", "g": "", "l": "", "w": "", "n": "0", "cu": "", "cg": "", "cl": "", "cw": "", "tu": "", "tg": "", "tl": "", "tw": "", "c": ""}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.texts", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "u": "", "g": "", "l": "", "w": "", "n": "0", "cu": "", "cg": "", "cl": "", "cw": "", "tu": "", "tg": "", "tl": "", "tw": "", "c": ""}}
INSERT INTO texts VALUES (3, 'with "quotes" and \\ and \n\t\0 and \'', '', '', '', 0, '  leading', 'trailing  ', ' ', ' ', 'null', '', '', '', '');
-> key "3_"
-> canal {"type": "INSERT", "table": "texts", "pkNames": ["id"], "data": [{"id": "3", "u": "with \"quotes\" and \\ and \n\t\u0000 and '", "g": "", "l": "", "w": "", "n": "0", "cu": "  leading", "cg": "trailing", "cl": "", "cw": "", "tu": "null", "tg": "", "tl": "", "tw": "", "c": ""}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.texts", "op_type": "I", "primary_keys": ["id"], "after": {"id": "3", "u": "with \"quotes\" and \\ and \n\t\u0000 and '", "g": "", "l": "", "w": "", "n": "0", "cu": "  leading", "cg": "trailing", "cl": "", "cw": "", "tu": "null", "tg": "", "tl": "", "tw": "", "c": ""}}
INSERT INTO texts (id, l, cl) VALUES (4, x'81808D8F909DA0FF', x'8180');
-> key "4_"
-> canal {"type": "INSERT", "table": "texts", "pkNames": ["id"], "data": [{"id": "4", "u": null, "g": null, "l": "\u0081€\u008d\u008f\u0090\u009d\u00a0ÿ", "w": null, "n": null, "cu": null, "cg": null, "cl": "\u0081€", "cw": null, "tu": null, "tg": null, "tl": null, "tw": null, "c": null}], "old": null, "row": 0, "txLast": true}
-> ogg {"table": "$schema.texts", "op_type": "I", "primary_keys": ["id"], "after": {"id": "4", "u": null, "g": null, "l": "\u0081€\u008d\u008f\u0090\u009d\u00a0ÿ", "w": null, "n": null, "cu": null, "cg": null, "cl": "\u0081€", "cw": null, "tu": null, "tg": null, "tl": null, "tw": null, "c": null}}
CREATE TABLE old_texts (id INT PRIMARY KEY, a VARCHAR(10) CHARACTER SET ascii, j VARCHAR(10) CHARACTER SET sjis, k VARCHAR(10) CHARACTER SET euckr, b VARCHAR(10) CHARACTER SET big5, r VARCHAR(10) CHARACTER SET koi8r, x VARCHAR(10) CHARACTER SET utf8mb3);
INSERT INTO old_texts VALUES (1, 'plain', '日本語', '한국어', '繁體', 'Привет', 'ünï漢');
-> key "1_"
-> canal {"type": "INSERT", "table": "old_texts", "pkNames": ["id"], "data": [{"id": "1", "a": "plain", "j": "日本語", "k": "한국어", "b": "繁體", "r": "Привет", "x": "ünï漢"}], "old": null, "row": 0, "txLast": true, "mysqlType": {"id": "int", "a": "varchar(10)", "j": "varchar(10)", "k": "varchar(10)", "b": "varchar(10)", "r": "varchar(10)", "x": "varchar(10)"}, "sqlType": {"id": 4, "a": 12, "j": 12, "k": 12, "b": 12, "r": 12, "x": 12}}
-> ogg {"table": "$schema.old_texts", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "a": "plain", "j": "日本語", "k": "한국어", "b": "繁體", "r": "Привет", "x": "ünï漢"}}

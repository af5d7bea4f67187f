-- GEOMETRY as bytes: SRID and WKB.
CREATE TABLE places (id INT PRIMARY KEY, p POINT, g GEOMETRY, v VARCHAR(5) CHARACTER SET gbk);
INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('LINESTRING(0 0, 1 1)'), '汉'), (2, NULL, NULL, NULL);
-> key "1_"
-> canal {"type": "INSERT", "table": "places", "pkNames": ["id"], "data": [{"id": "1", "p": "\u0000\u0000\u0000\u0000\u0001\u0001\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000ð?\u0000\u0000\u0000\u0000\u0000\u0000\u0000@", "g": "\u0000\u0000\u0000\u0000\u0001\u0002\u0000\u0000\u0000\u0002\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000ð?\u0000\u0000\u0000\u0000\u0000\u0000ð?", "v": "汉"}], "old": null, "row": 0, "txLast": false, "mysqlType": {"id": "int", "p": "geometry", "g": "geometry", "v": "varchar(5)"}, "sqlType": {"id": 4, "p": 2004, "g": 2004, "v": 12}}
-> ogg {"table": "$schema.places", "op_type": "I", "primary_keys": ["id"], "after": {"id": "1", "p": "\u0000\u0000\u0000\u0000\u0001\u0001\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000ð?\u0000\u0000\u0000\u0000\u0000\u0000\u0000@", "g": "\u0000\u0000\u0000\u0000\u0001\u0002\u0000\u0000\u0000\u0002\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000ð?\u0000\u0000\u0000\u0000\u0000\u0000ð?", "v": "汉"}}
-> key "2_"
-> canal {"type": "INSERT", "table": "places", "pkNames": ["id"], "data": [{"id": "2", "p": null, "g": null, "v": null}], "old": null, "row": 1, "txLast": true}
-> ogg {"table": "$schema.places", "op_type": "I", "primary_keys": ["id"], "after": {"id": "2", "p": null, "g": null, "v": null}}

-- only: mysql
-- MySQL's binary JSON: every kind of value, as MySQL itself prints it.
CREATE TABLE docs (id INT PRIMARY KEY, j JSON);
INSERT INTO docs VALUES (1, '{"b": 1, "a": [true, false, null, "x", -1.5, {}, []], "ü": "漢😀", "q\\"": "\\\\ \\" \\n \\u0001"}');
INSERT INTO docs VALUES (2, 'null'), (3, 'true'), (4, '"text"'), (5, '[]'), (6, '{}'), (7, NULL), (8, '""');
INSERT INTO docs VALUES (9, '[32767, -32768, 32768, 65535, 65536, -32769, 2147483647, -2147483648, 4294967295, 4294967296, 9223372036854775807, -9223372036854775808, 18446744073709551615]');
INSERT INTO docs VALUES (10, '[1.0, 0.1, 1e15, 1e16, 1e20, 1e-5, 1e-7, 1.7976931348623157e308, -0.0, 123456789.125]');
INSERT INTO docs VALUES (11, JSON_ARRAY(CAST('12.50' AS DECIMAL(10,2)), CAST('-0.001' AS DECIMAL(65,30)), CAST('2024-02-29' AS DATE), CAST('-838:59:59.5' AS TIME(6)), CAST('2024-02-29 23:59:59.123456' AS DATETIME(6)), CAST('2024-01-01' AS DATETIME), x'00FF', b'101'));
INSERT INTO docs VALUES (12, JSON_OBJECT('long', REPEAT('x', 300), 'longer', JSON_ARRAY(REPEAT('é', 100))));
UPDATE docs SET j = JSON_SET(j, '$.a[0]', 'changed') WHERE id = 1;
INSERT INTO docs SELECT 13, JSON_OBJECT('timestamp', TIMESTAMP('2024-01-01 00:00:00.5'), 'year', CAST(2024 AS YEAR), 'point', ST_GeomFromText('POINT(1 2)'));

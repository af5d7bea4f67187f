-- What the text does not tell, or not to us: the server is asked.
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);
ALTER TABLE t MODIFY a INT AFTER b, MODIFY b INT AFTER a;
-> unknown
ALTER TABLE t ADD f VARCHAR(9) CHARACTER SET latin1, CONVERT TO CHARACTER SET utf8mb4;
-> unknown

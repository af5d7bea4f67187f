-- What the text does not tell, or not to us: the server is asked.
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);
ALTER TABLE t /*!50606 ADD COLUMN c INT */;
-> unknown
ALTER TABLE t MODIFY a INT AFTER b, MODIFY b INT AFTER a;
-> unknown
ALTER TABLE t ADD e ENUM('\\', 'x');
-> unknown

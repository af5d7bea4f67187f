-- only: mariadb
-- What only MariaDB writes.
CREATE TABLE t (id INT PRIMARY KEY, a INT);
SET STATEMENT max_statement_time=10 FOR ALTER TABLE t ADD b INT AFTER id;
-> id int, b int, a int key id
ALTER ONLINE TABLE t WAIT 5 ADD c INT;
-> id int, b int, a int, c int key id
ALTER TABLE t ADD COLUMN IF NOT EXISTS a BIGINT, DROP COLUMN IF EXISTS x;
-> id int, b int, a int, c int key id
ALTER TABLE t ADD w VARCHAR(20) CHARACTER SET latin1, CONVERT TO CHARACTER SET utf8mb4;
-> unknown
ALTER TABLE t DROP COLUMN IF EXISTS w, /*M!100100 ADD d JSON */ /*!50701 , ADD e INT */;
-> id int, b int, a int, c int, d longtext key id
ALTER TABLE t ADD SYSTEM VERSIONING;
-> id int, b int, a int, c int, d longtext, row_start timestamp(6), row_end timestamp(6) key id,row_end

-- What leaves columns and key as they are.
CREATE TABLE t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB AUTO_INCREMENT=7 ROW_FORMAT=DYNAMIC;
ALTER TABLE t ADD INDEX i (a), ENGINE=InnoDB, COMMENT 'x', ALGORITHM=COPY, LOCK=SHARED;
-> id int, a int key id
ALTER TABLE t ALTER COLUMN a SET DEFAULT 3, AUTO_INCREMENT = 100;
-> id int, a int key id
ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2;
-> id int, a int key id
ALTER TABLE t ADD PARTITION PARTITIONS 1;
-> id int, a int key id
ALTER TABLE t REMOVE PARTITIONING;
-> id int, a int key id
ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0);
-> id int, a int key id
ALTER TABLE t DROP CONSTRAINT c;
-> id int, a int key id

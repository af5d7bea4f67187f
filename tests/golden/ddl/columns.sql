-- Columns added, dropped, moved and changed.
CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, b VARCHAR(10) CHARACTER SET latin1);
-> id int, a int unsigned, b varchar(10) key id
ALTER TABLE t ADD c DECIMAL(10,2) UNSIGNED NOT NULL DEFAULT 1.5, ADD COLUMN d DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3) FIRST;
-> d datetime(3), id int, a int unsigned, b varchar(10), c decimal(10,2) unsigned key id
ALTER TABLE t ADD (e TINYINT(1) DEFAULT -1, f DOUBLE PRECISION COMMENT 'it''s, or not'), DROP COLUMN d;
-> id int, a int unsigned, b varchar(10), c decimal(10,2) unsigned, e tinyint(1), f double key id
ALTER TABLE t MODIFY a BIGINT AFTER c, CHANGE COLUMN b `b 2` TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL;
-> id int, b 2 text, c decimal(10,2) unsigned, a bigint, e tinyint(1), f double key id
alter table t drop e, drop f, add column `order` enum('x', 'y,z', 'it''s ') character set latin1 default 'x' after id, algorithm=copy;
-> id int, order enum('x','y,z','it''s'), b 2 text, c decimal(10,2) unsigned, a bigint key id
ALTER TABLE t ADD x INT GENERATED ALWAYS AS (id + 1) STORED, ADD y SET('p','q') CHARSET utf8mb4, ADD z BOOLEAN;
-> id int, order enum('x','y,z','it''s'), b 2 text, c decimal(10,2) unsigned, a bigint, x int, y set('p','q'), z tinyint(1) key id
ALTER TABLE t /*!50606 ADD COLUMN e */ ENUM('\\', 'x'), DROP c, MODIFY x NATIONAL VARCHAR(9) /* longer */;
-> id int, order enum('x','y,z','it''s'), b 2 text, a bigint, x varchar(9), y set('p','q'), z tinyint(1), e enum('\\','x') key id

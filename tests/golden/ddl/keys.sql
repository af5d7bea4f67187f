-- Keys: the primary key, else the first unique key that is whole and never NULL.
CREATE TABLE t (id INT, a INT NOT NULL, b INT, c VARCHAR(20) CHARACTER SET latin1 NOT NULL, UNIQUE KEY ub (b), UNIQUE uc (c(3)), KEY (a));
-> id int, a int, b int, c varchar(20)
CREATE UNIQUE INDEX ua ON t (a);
-> id int, a int, b int, c varchar(20) key a
ALTER TABLE t ADD PRIMARY KEY (id, a);
-> id int, a int, b int, c varchar(20) key id,a
ALTER TABLE t DROP INDEX ua, DROP INDEX ub, DROP INDEX uc;
-> id int, a int, b int, c varchar(20) key id,a
ALTER TABLE t DROP PRIMARY KEY, ADD CONSTRAINT whole UNIQUE (c);
-> id int, a int, b int, c varchar(20) key c
DROP INDEX whole ON t;
-> id int, a int, b int, c varchar(20)
ALTER TABLE t ADD UNIQUE KEY ub (b), ADD UNIQUE uc (c(3));
-> id int, a int, b int, c varchar(20)
ALTER TABLE t MODIFY b INT NOT NULL, ADD INDEX more (c);
-> id int, a int, b int, c varchar(20) key b
ALTER TABLE t RENAME COLUMN b TO b2, RENAME INDEX ub TO other;
-> id int, a int, b2 int, c varchar(20) key b2
ALTER TABLE t DROP INDEX other;
-> id int, a int, b2 int, c varchar(20)
ALTER TABLE t ADD d INT NOT NULL UNIQUE;
-> id int, a int, b2 int, c varchar(20), d int key d
ALTER TABLE t DROP COLUMN d;
-> id int, a int, b2 int, c varchar(20)

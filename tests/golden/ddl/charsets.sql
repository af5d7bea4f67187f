-- Character sets: the column's, its collation's, the table's.
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(5), b CHAR(5) COLLATE latin2_bin) DEFAULT CHARSET=latin1 COMMENT='c';
-> id int, a varchar(5), b char(5) key id
ALTER TABLE t ADD c TEXT, CHARACTER SET utf8mb4;
-> id int, a varchar(5), b char(5), c text key id
ALTER TABLE t ADD d ENUM('a', 'b'), ADD e VARBINARY(3);
-> id int, a varchar(5), b char(5), c text, d enum('a','b'), e varbinary(3) key id
ALTER TABLE t CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin;
-> id int, a varchar(5), b char(5), c text, d enum('a','b'), e varbinary(3) key id
ALTER TABLE t ADD f VARCHAR(5);
-> id int, a varchar(5), b char(5), c text, d enum('a','b'), e varbinary(3), f varchar(5) key id

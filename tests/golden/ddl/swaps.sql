-- Columns of the same type that exchange names or places: nothing in the rows shows it.
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);
ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a;
-> id int, b int, a int key id
ALTER TABLE t CHANGE a b INT, CHANGE b a INT;
-> id int, a int, b int key id
ALTER TABLE t MODIFY b INT AFTER id;
-> id int, b int, a int key id
ALTER TABLE t RENAME COLUMN id TO no, MODIFY a INT FIRST;
-> a int, no int, b int key no

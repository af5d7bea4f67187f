#!/usr/bin/env bash
# The user of the fetch task, with the right to follow the binlog and nothing else.
password=${SOURCE_PASSWORD//\\/\\\\}
password=${password//"'"/"''"}
MYSQL_PWD=$MYSQL_ROOT_PASSWORD mysql --user=root <<SQL
CREATE USER 'cdc'@'%' IDENTIFIED BY '$password';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cdc'@'%';
SQL

#!/usr/bin/env bash
# The user of the consumer task: changes rows, and creates the table cdcbus_position.
psql --set ON_ERROR_STOP=1 --set password="$TARGET_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE cdc LOGIN PASSWORD :'password';
GRANT USAGE, CREATE ON SCHEMA public TO cdc;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO cdc;
SQL

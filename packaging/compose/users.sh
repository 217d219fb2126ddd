#!/bin/sh
# Runs once, when the database is made: one user owns the tables, one is what gates connect as.
set -eu
psql -v ON_ERROR_STOP=1 -v owner="$(cat /run/secrets/db_owner)" -v gate="$(cat /run/secrets/db_gate)" \
    -U postgres -d tollgate <<'SQL'
CREATE ROLE tollgate_owner LOGIN PASSWORD :'owner';
CREATE ROLE tollgate LOGIN PASSWORD :'gate' CONNECTION LIMIT 100;
REVOKE ALL ON DATABASE tollgate FROM PUBLIC;
GRANT CONNECT ON DATABASE tollgate TO tollgate_owner, tollgate;
GRANT CREATE, USAGE ON SCHEMA public TO tollgate_owner;
SQL

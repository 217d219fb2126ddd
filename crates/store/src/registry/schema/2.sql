-- Calls that wait for a human, texts of policies that came from files, and what the clock said.

CREATE TABLE parked (
    approval      TEXT PRIMARY KEY,
    sealed        BLOB NOT NULL,
    created_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE file_policies (
    sha256           TEXT PRIMARY KEY,
    name             TEXT NOT NULL,
    format           TEXT NOT NULL CHECK (format IN ('json', 'yaml')),
    source           TEXT NOT NULL,
    first_used_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Once a grant was found expired it stays so, even when the clock is set back.
ALTER TABLE grants ADD COLUMN expired_at_us INTEGER;
ALTER TABLE meta ADD COLUMN latest_time_us INTEGER;

-- Times are microseconds since 1970, UTC.

CREATE TABLE meta (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL,
    key_mark   BLOB
) STRICT;
INSERT INTO meta (one, generation) VALUES (1, 1);

-- AUTOINCREMENT: the id is part of what a credential is sealed to, so an id is never used again.
CREATE TABLE servers (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT NOT NULL UNIQUE,
    target        TEXT NOT NULL,
    options       TEXT NOT NULL,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL
) STRICT;

CREATE TABLE credentials (
    server_id INTEGER NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    place     TEXT NOT NULL CHECK (place IN ('header', 'env', 'query')),
    name      TEXT NOT NULL,
    sealed    BLOB NOT NULL,
    PRIMARY KEY (server_id, place, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT NOT NULL UNIQUE,
    removed_at_us INTEGER
) STRICT;

CREATE TABLE policy_versions (
    policy_id     INTEGER NOT NULL REFERENCES policies (id),
    version       INTEGER NOT NULL,
    format        TEXT NOT NULL CHECK (format IN ('json', 'yaml')),
    source        TEXT NOT NULL,
    sha256        TEXT NOT NULL,
    created_at_us INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    PRIMARY KEY (policy_id, version)
) STRICT;
CREATE INDEX policy_versions_by_sha256 ON policy_versions (sha256);

CREATE TABLE grants (
    id            TEXT PRIMARY KEY,
    label         TEXT NOT NULL,
    created_at_us INTEGER NOT NULL,
    expires_at_us INTEGER,
    revoked_at_us INTEGER
) STRICT, WITHOUT ROWID;
-- A revoked grant stays for the record; its label may be used again.
CREATE UNIQUE INDEX grants_by_label ON grants (label) WHERE revoked_at_us IS NULL;

CREATE TABLE tokens (
    hash           BLOB PRIMARY KEY,
    grant_id       TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    created_at_us  INTEGER NOT NULL,
    valid_until_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_grant ON tokens (grant_id);

-- Servers and policies by name: those of tollgate.toml are not in this file.
CREATE TABLE holdings (
    grant_id TEXT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    server   TEXT NOT NULL,
    policy   TEXT,
    PRIMARY KEY (grant_id, server)
) STRICT, WITHOUT ROWID;

-- Servers whose first list of tools was pinned. It outlives its pins: a server that drops all its
-- tools and offers others later is not trusted again.
CREATE TABLE tool_lists (
    server           TEXT PRIMARY KEY,
    first_seen_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was accepted and what was seen last; the state of a pin follows from the two. A definition
-- that is seen as it was accepted is kept once.
CREATE TABLE pins (
    server               TEXT NOT NULL,
    tool                 TEXT NOT NULL,
    accepted_definition  TEXT,
    accepted_fingerprint TEXT,
    accepted_at_us       INTEGER,
    accepted_by          TEXT,
    seen_definition      TEXT,
    seen_fingerprint     TEXT,
    seen_twice           INTEGER NOT NULL DEFAULT 0,
    first_seen_at_us     INTEGER NOT NULL,
    changed_at_us        INTEGER NOT NULL,
    shares_name          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (server, tool)
) STRICT;
CREATE INDEX pins_by_tool ON pins (tool);

CREATE TABLE settings (
    key           TEXT PRIMARY KEY,
    value         TEXT NOT NULL,
    updated_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last prompts and resources that the clients of a grant were shown of a server, so that lists wait for
-- no server after a restart. `sealed` is a JSON array of the server's own definitions under the vault key.
CREATE TABLE server_lists (
    server        TEXT NOT NULL,
    grant_id      TEXT NOT NULL,
    list          TEXT NOT NULL,
    sealed        BLOB NOT NULL,
    changed_at_us INTEGER NOT NULL,
    PRIMARY KEY (server, grant_id, list)
) STRICT, WITHOUT ROWID;

-- A credential may be an argument of a command, named by its position.
CREATE TABLE credentials_6 (
    server_id INTEGER NOT NULL REFERENCES servers (id) ON DELETE CASCADE,
    place     TEXT NOT NULL CHECK (place IN ('header', 'env', 'query', 'argument')),
    name      TEXT NOT NULL,
    sealed    BLOB NOT NULL,
    PRIMARY KEY (server_id, place, name)
) STRICT, WITHOUT ROWID;
INSERT INTO credentials_6 SELECT server_id, place, name, sealed FROM credentials;
DROP TABLE credentials;
ALTER TABLE credentials_6 RENAME TO credentials;

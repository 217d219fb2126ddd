CREATE TABLE servers (
    id          INTEGER PRIMARY KEY,
    slug        TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL UNIQUE,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    version     TEXT NOT NULL,
    website     TEXT NOT NULL,
    repository  TEXT NOT NULL,
    updated     TEXT NOT NULL,
    tools       INTEGER NOT NULL,
    risk        INTEGER,
    -- packages and remotes as the registry gave them
    source      TEXT NOT NULL
) STRICT;

CREATE TABLE tools (
    id         INTEGER PRIMARY KEY,
    server_id  INTEGER NOT NULL REFERENCES servers (id),
    slug       TEXT NOT NULL,
    name       TEXT NOT NULL,
    category   INTEGER NOT NULL,
    risk       INTEGER NOT NULL,
    signals    INTEGER NOT NULL,
    does       TEXT NOT NULL,
    definition TEXT NOT NULL
) STRICT;

CREATE INDEX tools_of_server ON tools (server_id, slug);

-- The words are cut, folded and sorted out before they come here, so the plainest tokenizer does.
-- Content is not kept twice: a row is taken out by giving its words again.
CREATE VIRTUAL TABLE server_words USING fts5 (name, text, content = '', columnsize = 0, detail = column, tokenize = ascii);
CREATE VIRTUAL TABLE tool_words USING fts5 (name, text, content = '', columnsize = 0, detail = column, tokenize = ascii);

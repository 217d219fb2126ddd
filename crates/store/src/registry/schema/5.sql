-- The last tool list that clients with the same capabilities got from a server: some servers show
-- other tools, or other definitions, to other clients.
CREATE TABLE pin_sets (
    server       TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    tool         TEXT NOT NULL,
    fingerprint  TEXT NOT NULL,
    definition   TEXT NOT NULL,
    twice        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (server, capabilities, tool)
) STRICT, WITHOUT ROWID;

-- Further definitions of a tool that the owner accepted, besides the one in `pins`.
CREATE TABLE pin_variants (
    server         TEXT NOT NULL,
    tool           TEXT NOT NULL,
    fingerprint    TEXT NOT NULL,
    definition     TEXT NOT NULL,
    accepted_at_us INTEGER NOT NULL,
    accepted_by    TEXT NOT NULL,
    PRIMARY KEY (server, tool, fingerprint)
) STRICT, WITHOUT ROWID;

-- The features that a server declared last, such as `prompts,resources,tools`.
CREATE TABLE server_offers (
    server TEXT PRIMARY KEY,
    offers TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The capability sets whose list was read, also those that show no tool at all.
CREATE TABLE pin_lists (
    server        TEXT NOT NULL,
    capabilities  TEXT NOT NULL,
    changed_at_us INTEGER NOT NULL,
    PRIMARY KEY (server, capabilities)
) STRICT, WITHOUT ROWID;

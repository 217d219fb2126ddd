-- People who may use the dashboard, and what each may do there.
CREATE TABLE people (
    name          TEXT PRIMARY KEY,
    role          TEXT NOT NULL,
    created_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One-time sign-in links, by the hash of their token.
CREATE TABLE sign_in_links (
    hash          BLOB PRIMARY KEY,
    person        TEXT NOT NULL REFERENCES people (name) ON DELETE CASCADE,
    expires_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Browser sessions, by the hash of their cookie.
CREATE TABLE browser_sessions (
    hash          BLOB PRIMARY KEY,
    person        TEXT NOT NULL REFERENCES people (name) ON DELETE CASCADE,
    created_at_us INTEGER NOT NULL,
    used_at_us    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

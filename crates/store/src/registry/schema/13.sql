-- OAuth clients: those that registered themselves, and metadata documents that were fetched.
CREATE TABLE oauth_clients (
    id            TEXT PRIMARY KEY,
    metadata      TEXT NOT NULL,
    secret_hash   BLOB,
    is_fetched    INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    expires_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The grant that an owner made by consent, and the client it is for. Codes and refresh tokens end with it.
CREATE TABLE oauth_sign_ins (
    grant_id      TEXT PRIMARY KEY REFERENCES grants (id) ON DELETE CASCADE,
    client_id     TEXT NOT NULL,
    client_name   TEXT NOT NULL,
    audience      TEXT NOT NULL,
    created_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_sign_ins_by_client ON oauth_sign_ins (client_id);

CREATE TABLE oauth_codes (
    hash          BLOB PRIMARY KEY,
    grant_id      TEXT NOT NULL REFERENCES oauth_sign_ins (grant_id) ON DELETE CASCADE,
    redirect_uri  TEXT NOT NULL,
    challenge     TEXT NOT NULL,
    expires_at_us INTEGER NOT NULL,
    used_at_us    INTEGER
) STRICT, WITHOUT ROWID;

-- A replaced token stays, so that its second use is noticed.
CREATE TABLE oauth_refresh_tokens (
    hash           BLOB PRIMARY KEY,
    grant_id       TEXT NOT NULL REFERENCES oauth_sign_ins (grant_id) ON DELETE CASCADE,
    created_at_us  INTEGER NOT NULL,
    replaced_at_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_refresh_tokens_by_grant ON oauth_refresh_tokens (grant_id);

-- The path of the resource that an access token is for. A grant's own token is for all of them.
ALTER TABLE tokens ADD COLUMN audience TEXT;

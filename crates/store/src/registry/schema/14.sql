-- How people sign in at the team's issuer. An admin gives the e-mail; the subject is bound at the first
-- sign-in. A mapped person was admitted by the mapping of `tollgate.toml`.
ALTER TABLE people ADD COLUMN email TEXT;
ALTER TABLE people ADD COLUMN issuer TEXT;
ALTER TABLE people ADD COLUMN subject TEXT;
ALTER TABLE people ADD COLUMN is_mapped INTEGER NOT NULL DEFAULT 0;
-- What passkeys know a person by.
ALTER TABLE people ADD COLUMN user_handle BLOB;
CREATE UNIQUE INDEX people_by_email ON people (email) WHERE email IS NOT NULL;
CREATE UNIQUE INDEX people_by_subject ON people (issuer, subject) WHERE subject IS NOT NULL;

-- AUTOINCREMENT: the number is in addresses, so that of a removed passkey is never used again.
CREATE TABLE passkeys (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    id            BLOB NOT NULL UNIQUE,
    person        TEXT NOT NULL REFERENCES people (name) ON DELETE CASCADE,
    name          TEXT NOT NULL,
    rp_id         TEXT NOT NULL,
    public_key    BLOB NOT NULL,
    sign_count    INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    used_at_us    INTEGER
) STRICT;
CREATE INDEX passkeys_by_person ON passkeys (person);

ALTER TABLE browser_sessions ADD COLUMN browser TEXT NOT NULL DEFAULT '';
ALTER TABLE browser_sessions ADD COLUMN method TEXT NOT NULL DEFAULT 'link';

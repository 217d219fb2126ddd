-- Channels that reach the owner outside the dashboard. The address may be a credential, so all of it is
-- sealed; `shown` is what lists print.
CREATE TABLE channels (
    name          TEXT PRIMARY KEY,
    kind          TEXT NOT NULL,
    shown         TEXT NOT NULL,
    detail        TEXT NOT NULL,
    topics        TEXT NOT NULL,
    sealed        BLOB NOT NULL,
    created_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Notices for the owner. `key` names the condition: while its notice is kept, it is not raised again.
CREATE TABLE notices (
    id            INTEGER PRIMARY KEY,
    key           TEXT NOT NULL UNIQUE,
    topic         TEXT NOT NULL,
    title         TEXT NOT NULL,
    text          TEXT NOT NULL,
    path          TEXT NOT NULL,
    created_at_us INTEGER NOT NULL
) STRICT;

-- The outbox: one row per notice and channel.
CREATE TABLE deliveries (
    notice        INTEGER NOT NULL REFERENCES notices (id) ON DELETE CASCADE,
    channel       TEXT NOT NULL REFERENCES channels (name) ON DELETE CASCADE,
    attempts      INTEGER NOT NULL DEFAULT 0,
    next_at_us    INTEGER,
    sent_at_us    INTEGER,
    error         TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (notice, channel)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (next_at_us) WHERE next_at_us IS NOT NULL;

-- The params of the last approved call of each tool, sealed: an approval shows what differs from it.
CREATE TABLE approved_params (
    call          TEXT PRIMARY KEY,
    sealed        BLOB NOT NULL,
    approved_at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What the owner changed, here or elsewhere, and is not known to be in the audit log yet.
CREATE TABLE unrecorded (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    mark       TEXT NOT NULL UNIQUE,
    act        TEXT NOT NULL,
    by_whom    TEXT NOT NULL,
    about      TEXT NOT NULL,
    words      TEXT NOT NULL,
    done_at_us INTEGER NOT NULL,
    -- A change elsewhere than in this file, from before it until it is known how it went.
    is_begun   INTEGER NOT NULL DEFAULT 0
) STRICT;

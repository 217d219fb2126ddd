-- What the owner changed in this file and is not known to be in the audit log yet.
CREATE TABLE unrecorded (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    mark       TEXT NOT NULL UNIQUE,
    act        TEXT NOT NULL,
    by_whom    TEXT NOT NULL,
    about      TEXT NOT NULL,
    words      TEXT NOT NULL,
    done_at_us INTEGER NOT NULL
) STRICT;

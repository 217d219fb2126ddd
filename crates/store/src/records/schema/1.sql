-- One list of records of a service: cycles of whoop, tracks of spotify.
CREATE TABLE series (
    id         INTEGER PRIMARY KEY,
    service    TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    -- No closed record lasts longer; bounds the part of the index a window has to look at.
    longest_us INTEGER NOT NULL DEFAULT 0,
    -- The kind whose times these records take by their parent, having none of their own.
    follows    TEXT,
    UNIQUE (service, kind)
) STRICT;

-- `raw` is what came, byte for byte; everything else is derived from it. `raw` stands last, so that
-- reading the rest does not touch the pages it runs over to.
CREATE TABLE record (
    series     INTEGER NOT NULL REFERENCES series (id),
    id         TEXT    NOT NULL,
    start_us   INTEGER,
    end_us     INTEGER,
    offset_s   INTEGER,
    updated    TEXT    NOT NULL,
    updated_us INTEGER NOT NULL,
    parent     TEXT,
    state      TEXT,
    seq        INTEGER NOT NULL,
    flat       TEXT    NOT NULL,
    raw        TEXT    NOT NULL,
    UNIQUE (series, id)
) STRICT;
CREATE INDEX record_start ON record (series, start_us, id);
CREATE INDEX record_open ON record (series, start_us, id) WHERE end_us IS NULL;
CREATE INDEX record_updated ON record (series, updated_us, id);
CREATE INDEX record_parent ON record (series, parent, start_us, id) WHERE parent IS NOT NULL;
CREATE INDEX record_state ON record (series, state);
CREATE INDEX record_seq ON record (seq);

-- Records that the service has deleted, for readers that follow the changes.
CREATE TABLE gone (
    series INTEGER NOT NULL REFERENCES series (id),
    id     TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    at_us  INTEGER NOT NULL,
    PRIMARY KEY (series, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX gone_seq ON gone (seq);

-- Windows that were fetched completely. They never touch or overlap: `cover` joins them.
CREATE TABLE coverage (
    series  INTEGER NOT NULL REFERENCES series (id),
    from_us INTEGER NOT NULL,
    to_us   INTEGER NOT NULL,
    PRIMARY KEY (series, from_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    service      TEXT    NOT NULL,
    resource     TEXT    NOT NULL,
    started_us   INTEGER NOT NULL,
    completed_us INTEGER,
    status       TEXT    NOT NULL,
    fetched      INTEGER NOT NULL DEFAULT 0,
    upserted     INTEGER NOT NULL DEFAULT 0,
    error        TEXT,
    since        TEXT,
    until        TEXT
) STRICT;
CREATE INDEX run_service ON run (service, id);

CREATE TABLE state (
    service TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (service, key)
) STRICT, WITHOUT ROWID;

-- Which version of a service's shapes the derived columns were made by.
CREATE TABLE shape (
    service TEXT PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The text each view was made from, to notice that a newer program declares it differently.
CREATE TABLE declared (
    view TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    -- The number of the newest change.
    seq  INTEGER NOT NULL
) STRICT;
INSERT INTO meta (only, seq) VALUES (1, 0);

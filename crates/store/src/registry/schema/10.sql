-- What a server returned for a URI, such as the page of an MCP App: what was accepted and what was seen last.
CREATE TABLE content_pins (
    server               TEXT NOT NULL,
    uri                  TEXT NOT NULL,
    accepted             TEXT NOT NULL,
    accepted_fingerprint TEXT NOT NULL,
    accepted_at_us       INTEGER NOT NULL,
    accepted_by          TEXT NOT NULL,
    seen                 TEXT NOT NULL,
    seen_fingerprint     TEXT NOT NULL,
    first_seen_at_us     INTEGER NOT NULL,
    changed_at_us        INTEGER NOT NULL,
    PRIMARY KEY (server, uri)
) STRICT;

-- A skill that appears after the first list of its server is seen, and not accepted.
CREATE TABLE new_content_pins (
    server               TEXT NOT NULL,
    uri                  TEXT NOT NULL,
    accepted             TEXT,
    accepted_fingerprint TEXT,
    accepted_at_us       INTEGER,
    accepted_by          TEXT,
    seen                 TEXT NOT NULL,
    seen_fingerprint     TEXT NOT NULL,
    first_seen_at_us     INTEGER NOT NULL,
    changed_at_us        INTEGER NOT NULL,
    PRIMARY KEY (server, uri)
) STRICT;
INSERT INTO new_content_pins SELECT * FROM content_pins;
DROP TABLE content_pins;
ALTER TABLE new_content_pins RENAME TO content_pins;

-- The person whose grant it is: who consented, or who made it in the dashboard.
ALTER TABLE grants ADD COLUMN person TEXT;

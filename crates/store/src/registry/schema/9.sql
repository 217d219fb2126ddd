-- Whether the names of a grant at the endpoint of all servers have their server's prefix.
ALTER TABLE grants ADD COLUMN prefix TEXT NOT NULL DEFAULT 'always' CHECK (prefix IN ('always', 'never'));

-- Grants that may use the operator server.
ALTER TABLE grants ADD COLUMN operator INTEGER NOT NULL DEFAULT 0;

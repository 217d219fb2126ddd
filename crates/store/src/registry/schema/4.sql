-- Which call began a task, so that a follow-up is judged by its owner and tool after a restart, too.
CREATE TABLE tasks (
    server       TEXT NOT NULL,
    -- SHA-256 of the server's task id, in hex.
    task         TEXT NOT NULL,
    grant_id     TEXT NOT NULL,
    -- The session of the call; empty for the conversation that the sessionless calls of a grant share.
    conversation TEXT NOT NULL,
    tool         TEXT NOT NULL,
    -- Whether the server hands out its ids for one conversation only.
    is_private   INTEGER NOT NULL,
    begun_at_us  INTEGER NOT NULL,
    until_us     INTEGER NOT NULL,
    PRIMARY KEY (server, task, grant_id, conversation, tool)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_by_end ON tasks (until_us);

//! Owners of tasks that outlive the call that began them. The id of a task is kept as a hash only.

use rusqlite::Row;

use super::Registry;
use super::error::RegistryError;

/// Rows that the table may hold; beyond that the oldest are deleted.
pub const TASK_OWNERS_MAX: usize = 10_000;

/// The call that began a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOwner {
    pub server: String,
    /// SHA-256 of the task id, in hex.
    pub task: String,
    pub grant: String,
    /// The session of the call; empty for the context that sessionless calls of a grant share.
    pub conversation: String,
    pub tool: String,
    /// Whether the server hands out its task ids for one conversation only.
    pub is_private: bool,
    pub begun_at_us: i64,
    pub until_us: i64,
}

impl Registry {
    /// Stores owners, deletes expired ones, and keeps the table within its bound.
    pub fn put_task_owners(&self, owners: &[TaskOwner], now_us: i64) -> Result<(), RegistryError> {
        self.write_quietly(|db| {
            let put = "INSERT INTO tasks (server, task, grant_id, conversation, tool, is_private, begun_at_us, until_us)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                       ON CONFLICT DO UPDATE SET is_private = ?6, until_us = max(until_us, ?8)";
            let mut put = db.prepare(put)?;
            for owner in owners {
                put.execute((
                    &owner.server,
                    &owner.task,
                    &owner.grant,
                    &owner.conversation,
                    &owner.tool,
                    owner.is_private,
                    owner.begun_at_us,
                    owner.until_us,
                ))?;
            }
            db.execute("DELETE FROM tasks WHERE until_us <= ?1", [now_us])?;
            let trim = "DELETE FROM tasks WHERE (server, task, grant_id, conversation, tool) IN (
                            SELECT server, task, grant_id, conversation, tool FROM tasks
                            ORDER BY begun_at_us DESC LIMIT -1 OFFSET ?1)";
            db.execute(trim, [i64::try_from(TASK_OWNERS_MAX).unwrap_or(i64::MAX)])?;
            Ok(())
        })
    }

    /// The owners of one task that have not expired, by the hash of its id. Another process of the home
    /// may have stored them.
    pub fn task_owners_of(
        &self,
        server: &str,
        task: &str,
        now_us: i64,
    ) -> Result<Vec<TaskOwner>, RegistryError> {
        let found = self.find(|db| {
            let select = "SELECT server, task, grant_id, conversation, tool, is_private, begun_at_us, until_us
                          FROM tasks WHERE server = ?1 AND task = ?2 AND until_us > ?3 ORDER BY begun_at_us";
            let mut select = db.prepare_cached(select)?;
            let found = select.query_map((server, task, now_us), owner)?;
            let found: Vec<TaskOwner> = found.collect::<Result<_, _>>()?;
            Ok((!found.is_empty()).then_some(found))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// The owners that have not expired, oldest first.
    pub fn task_owners(&self, now_us: i64) -> Result<Vec<TaskOwner>, RegistryError> {
        self.read(|db| {
            let select = "SELECT server, task, grant_id, conversation, tool, is_private, begun_at_us, until_us
                          FROM tasks WHERE until_us > ?1 ORDER BY begun_at_us";
            let mut select = db.prepare(select)?;
            let found = select.query_map([now_us], owner)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}

fn owner(row: &Row<'_>) -> rusqlite::Result<TaskOwner> {
    Ok(TaskOwner {
        server: row.get(0)?,
        task: row.get(1)?,
        grant: row.get(2)?,
        conversation: row.get(3)?,
        tool: row.get(4)?,
        is_private: row.get(5)?,
        begun_at_us: row.get(6)?,
        until_us: row.get(7)?,
    })
}

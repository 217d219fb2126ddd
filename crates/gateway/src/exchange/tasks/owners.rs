//! The table of task owners: who may follow up a task, and which rows are evicted first.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use store::registry::{TASK_OWNERS_MAX, TaskOwner};

/// Rows that one grant may have; its oldest is evicted first.
const OWNERS_PER_GRANT_MAX: usize = 1_000;

/// The stored form of a task id: a hash, because ids are handles.
pub(super) fn hash(id: &str) -> String {
    use std::fmt::Write;
    Sha256::digest(id.as_bytes()).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Server and hash of the task id.
type Key = (String, String);

#[derive(Default)]
pub(super) struct Owners {
    by_task: HashMap<Key, Vec<TaskOwner>>,
    count: usize,
}

impl Owners {
    /// Whether there is an owner of this task.
    pub(super) fn knows(&self, new: &TaskOwner) -> bool {
        self.by_task.contains_key(&(new.server.clone(), new.task.clone()))
    }

    /// Whether a call may become an owner of this task. If the server's ids are shared by all clients, an id of
    /// another grant is refused.
    pub(super) fn may_own(&self, new: &TaskOwner, now_us: i64) -> bool {
        let key = (new.server.clone(), new.task.clone());
        let known = self.by_task.get(&key).into_iter().flatten();
        new.is_private
            || !known.into_iter().any(|known| {
                known.grant != new.grant && !known.is_private && known.until_us > now_us
            })
    }

    pub(super) fn add(&mut self, new: TaskOwner) {
        let rows = self.by_task.entry((new.server.clone(), new.task.clone())).or_default();
        let same = |row: &&mut TaskOwner| {
            row.grant == new.grant && row.conversation == new.conversation && row.tool == new.tool
        };
        if let Some(row) = rows.iter_mut().find(same) {
            (row.until_us, row.is_private) = (row.until_us.max(new.until_us), new.is_private);
            return;
        }
        let (grant, now_us) = (new.grant.clone(), new.begun_at_us);
        rows.push(new);
        self.count += 1;
        self.evict(&grant, now_us);
    }

    /// The tools that created a task, if this caller may follow it up.
    pub(super) fn tools_of(
        &self,
        (grant, conversation): (&str, &str),
        (server, id): (&str, &str),
        now_us: i64,
        is_live: impl Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        let rows = self.by_task.get(&(server.to_owned(), hash(id)))?;
        let rows: Vec<_> = rows.iter().filter(|row| row.until_us > now_us).collect();
        let own: Vec<_> = rows.iter().filter(|row| row.grant == grant).collect();
        let is_callers = |row: &TaskOwner| row.conversation == conversation;
        let tools = |wanted: &dyn Fn(&TaskOwner) -> bool| {
            let mut tools: Vec<String> =
                own.iter().filter(|row| wanted(row)).map(|row| row.tool.clone()).collect();
            tools.sort();
            tools.dedup();
            Some(tools).filter(|tools| !tools.is_empty())
        };
        if own.iter().any(|row| is_callers(row)) {
            // If sessions share the server's ids, it may be the task of another session.
            return tools(&|row| is_callers(row) || !row.is_private);
        }
        // The tasks of an ended session belong to its grant, unless the id may have been reused.
        let is_ended =
            |row: &TaskOwner| !row.conversation.is_empty() && !is_live(&row.conversation);
        if rows.len() > own.len() || !own.iter().all(|row| is_ended(row)) {
            return None;
        }
        tools(&is_ended)
    }

    /// Keeps the table within its limits: a grant with many tasks loses its own oldest first.
    fn evict(&mut self, grant: &str, now_us: i64) {
        let of_grant = |row: &TaskOwner| row.grant == grant;
        let own = self.rows().filter(|row| of_grant(row)).count();
        if own <= OWNERS_PER_GRANT_MAX && self.count <= TASK_OWNERS_MAX {
            return;
        }
        self.retain(|row| row.until_us > now_us);
        if self.rows().filter(|row| of_grant(row)).count() > OWNERS_PER_GRANT_MAX
            || self.count > TASK_OWNERS_MAX
        {
            // The grant has at least the row that was just added.
            let oldest = self.rows().filter(|row| of_grant(row)).min_by_key(|row| row.begun_at_us);
            let is_only = own <= 1;
            let oldest =
                if is_only { self.rows().min_by_key(|row| row.begun_at_us) } else { oldest };
            if let Some(oldest) = oldest.cloned() {
                self.retain(|row| *row != oldest);
            }
        }
    }

    fn rows(&self) -> impl Iterator<Item = &TaskOwner> {
        self.by_task.values().flatten()
    }

    fn retain(&mut self, keep: impl Fn(&TaskOwner) -> bool) {
        self.by_task.retain(|_, rows| {
            rows.retain(&keep);
            !rows.is_empty()
        });
        self.count = self.by_task.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(grant: &str, conversation: &str, id: &str, tool: &str, is_private: bool) -> TaskOwner {
        TaskOwner {
            server: "s".to_owned(),
            task: hash(id),
            grant: grant.to_owned(),
            conversation: conversation.to_owned(),
            tool: tool.to_owned(),
            is_private,
            begun_at_us: 1,
            until_us: 100,
        }
    }

    fn tools(owners: &Owners, grant: &str, conversation: &str, live: &[&str]) -> Vec<String> {
        let is_live = |conversation: &str| live.contains(&conversation);
        owners.tools_of((grant, conversation), ("s", "t"), 50, is_live).unwrap_or_default()
    }

    #[test]
    fn only_the_grant_and_conversation_that_began_a_task_follow_it_up() {
        let mut owners = Owners::default();
        owners.add(owner("a", "1", "t", "red", true));
        let all = ["1", "2"];
        assert_eq!(tools(&owners, "a", "1", &all), ["red"]);
        assert!(tools(&owners, "a", "2", &all).is_empty());
        assert!(tools(&owners, "a", "", &all).is_empty());
        assert!(tools(&owners, "b", "1", &all).is_empty());
        assert_eq!(tools(&owners, "a", "2", &[]), ["red"], "its conversation has ended");
        assert!(tools(&owners, "b", "2", &[]).is_empty());
        let late = owners.tools_of(("a", "1"), ("s", "t"), 100, |_| true);
        assert!(late.is_none(), "expired");
    }

    #[test]
    fn one_id_in_two_conversations_is_two_tasks_unless_the_server_shares_its_ids() {
        for (is_private, expected) in [(true, &["red"][..]), (false, &["plain", "red"])] {
            let mut owners = Owners::default();
            owners.add(owner("a", "1", "t", "red", is_private));
            owners.add(owner("a", "2", "t", "plain", is_private));
            assert_eq!(tools(&owners, "a", "1", &["1", "2"]), expected);
        }
        let mut owners = Owners::default();
        owners.add(owner("a", "1", "t", "red", true));
        owners.add(owner("a", "1", "t", "plain", true));
        assert_eq!(tools(&owners, "a", "1", &["1"]), ["plain", "red"], "an id that is used again");
    }

    #[test]
    fn a_grant_takes_no_task_over() {
        let mut owners = Owners::default();
        owners.add(owner("a", "", "t", "red", false));
        assert!(!owners.may_own(&owner("b", "", "t", "plain", false), 50));
        assert!(owners.may_own(&owner("b", "", "t", "plain", true), 50), "ids of its own");
        assert!(owners.may_own(&owner("b", "", "t", "plain", false), 100), "the other has expired");
        assert!(owners.may_own(&owner("a", "1", "t", "plain", false), 50));
        owners.add(owner("b", "2", "t", "plain", true));
        owners.add(owner("c", "3", "t", "red", true));
        assert!(tools(&owners, "b", "4", &[]).is_empty(), "the id may have become another's");
    }

    #[test]
    fn a_grant_with_many_tasks_loses_its_own_first() {
        let mut owners = Owners::default();
        owners.add(owner("a", "", "t", "red", true));
        for n in 0..=OWNERS_PER_GRANT_MAX {
            owners.add(TaskOwner { begun_at_us: 2, ..owner("b", "", &n.to_string(), "x", true) });
        }
        assert_eq!(owners.count, OWNERS_PER_GRANT_MAX + 1);
        assert_eq!(tools(&owners, "a", "", &[]), ["red"]);
    }
}

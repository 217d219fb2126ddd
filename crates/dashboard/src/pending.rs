//! Servers that were tried and not added yet. They hold secrets that were typed into a form, so they stay in
//! memory, belong to one person and are dropped after a few minutes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use store::registry::NewServer;

const MINUTES_MAX: i64 = 15;
const MINUTE_US: i64 = 60_000_000;
/// Beyond this the oldest is dropped.
const SERVERS_MAX: usize = 32;

#[derive(Default)]
pub(crate) struct PendingServers {
    by_id: Mutex<HashMap<String, Pending>>,
}

struct Pending {
    person: String,
    at_us: i64,
    server: NewServer,
}

impl PendingServers {
    pub(crate) fn put(&self, id: String, person: &str, server: NewServer, now_us: i64) {
        let mut by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        by_id.retain(|_, pending| is_fresh(pending, now_us));
        if by_id.len() >= SERVERS_MAX
            && let Some(oldest) =
                by_id.iter().min_by_key(|(_, one)| one.at_us).map(|(id, _)| id.clone())
        {
            by_id.remove(&oldest);
        }
        by_id.insert(id, Pending { person: person.to_owned(), at_us: now_us, server });
    }

    /// The server that this person tried.
    pub(crate) fn get(&self, id: &str, person: &str, now_us: i64) -> Option<NewServer> {
        let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = by_id.get(id).filter(|pending| is_fresh(pending, now_us))?;
        (pending.person == person).then(|| pending.server.clone())
    }

    pub(crate) fn remove(&self, id: &str) {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

fn is_fresh(pending: &Pending, now_us: i64) -> bool {
    now_us.saturating_sub(pending.at_us) < MINUTES_MAX * MINUTE_US
}

#[cfg(test)]
mod tests {
    use store::registry::{ServerOptions, Target};

    use super::*;

    #[test]
    fn a_tried_server_belongs_to_its_person_and_expires() {
        let target = Target::Builtin { service: "demo".to_owned() };
        let new = NewServer { name: "x".to_owned(), target, options: ServerOptions::default() };
        let pending = PendingServers::default();
        pending.put("1".to_owned(), "ada", new.clone(), 0);
        assert_eq!(pending.get("1", "ada", MINUTE_US), Some(new.clone()));
        assert_eq!(pending.get("1", "eve", MINUTE_US), None);
        assert_eq!(pending.get("1", "ada", 16 * MINUTE_US), None);
        for id in 2..100 {
            pending.put(id.to_string(), "ada", new.clone(), id);
        }
        assert_eq!(pending.get("2", "ada", 100), None, "the oldest are dropped");
        pending.remove("99");
        assert_eq!(pending.get("99", "ada", 100), None);
    }
}

//! All sessions of a gate, and which of them end when there are too many.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::Session;
use crate::bounds::Bounds;

/// All sessions of a gate.
#[derive(Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session. Past `sessions_max` the one that was idle longest is handed back to be ended, and so
    /// are those whose processes are too many.
    pub(crate) fn add(&self, session: &Arc<Session>, bounds: &Bounds) -> Vec<Arc<Session>> {
        let mut evicted = Vec::new();
        let mut table = self.table();
        if table.len() >= bounds.sessions_max {
            let oldest = table.values().min_by_key(|session| session.used_at_us()).cloned();
            evicted.extend(oldest.and_then(|oldest| table.remove(&oldest.id)));
        }
        table.insert(session.id.clone(), Arc::clone(session));
        drop(table);
        evicted.extend(self.take_beyond(session, bounds.commands_per_grant_max));
        evicted
    }

    /// Takes out sessions of the grant of `newest` until no more than so many processes are left to them,
    /// those first that have nothing in flight and were idle longest: a client that opens sessions and
    /// forgets them must not use up the machine.
    pub(crate) fn take_beyond(&self, newest: &Session, commands_max: usize) -> Vec<Arc<Session>> {
        if newest.commands() == 0 {
            return Vec::new();
        }
        let mut table = self.table();
        let mut others: Vec<_> = table
            .values()
            .filter(|session| session.grant == newest.grant && session.id != newest.id)
            .filter_map(|session| {
                Some((session.commands(), Arc::clone(session))).filter(|of| of.0 > 0)
            })
            .collect();
        let mut running =
            newest.commands() + others.iter().map(|(commands, _)| commands).sum::<usize>();
        others.sort_by_key(|(_, session)| (!session.flights.is_empty(), session.used_at_us()));
        let mut gone = Vec::new();
        for (commands, session) in others {
            if running <= commands_max {
                break;
            }
            running -= commands;
            tracing::info!(session = %session.id, commands_max, "a session ends, because its grant has too many commands running");
            gone.extend(table.remove(&session.id));
        }
        gone
    }

    /// The session, if it belongs to this grant and endpoint; to anyone else it does not exist.
    pub(crate) fn find(&self, id: &str, grant: &str, server: Option<&str>) -> Option<Arc<Session>> {
        let session = self.table().get(id).cloned()?;
        (session.grant == grant && session.server.as_deref() == server).then_some(session)
    }

    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.table().contains_key(id)
    }

    pub(crate) fn remove(&self, id: &str) -> Option<Arc<Session>> {
        self.table().remove(id)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.table().values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    /// Takes out every session for which `goes` is true.
    pub(crate) fn take(&self, goes: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut table = self.table();
        let gone: Vec<String> = table
            .values()
            .filter(|session| goes(session))
            .map(|session| session.id.clone())
            .collect();
        gone.iter().filter_map(|id| table.remove(id)).collect()
    }
}

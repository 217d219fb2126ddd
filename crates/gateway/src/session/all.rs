//! All sessions of a gate, and which of them end when there are too many. A grant that opens many loses its
//! own first, so that it cannot end the sessions of others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::Session;
use crate::bounds::Bounds;

/// What the sessions of one grant may keep in memory: handshakes and what servers said of themselves.
const BYTES_PER_GRANT_MAX: usize = 8 << 20;
/// And all sessions.
const BYTES_MAX: usize = 64 << 20;

/// All sessions of a gate.
#[derive(Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
}

/// What sessions come to, for each grant and in all.
#[derive(Default)]
struct Sums {
    by_grant: HashMap<Arc<str>, Sum>,
    all: Sum,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sessions: usize,
    bytes: usize,
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.sessions += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn take(&mut self, bytes: usize) {
        self.sessions = self.sessions.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn is_over(self, sessions_max: usize, bytes_max: usize) -> bool {
        self.sessions > sessions_max || self.bytes > bytes_max
    }
}

impl Sums {
    fn of<'s>(sessions: impl Iterator<Item = &'s Arc<Session>>) -> Sums {
        let mut sums = Sums::default();
        for session in sessions {
            let bytes = session.kept_bytes();
            sums.all.add(bytes);
            sums.by_grant.entry(Arc::from(session.grant.as_str())).or_default().add(bytes);
        }
        sums
    }

    fn take(&mut self, session: &Session) {
        let bytes = session.kept_bytes();
        self.all.take(bytes);
        if let Some(sum) = self.by_grant.get_mut(session.grant.as_str()) {
            sum.take(bytes);
        }
    }

    /// The grant that has to lose a session after this one opened one, if any has.
    fn loser(&self, grant: &str, bounds: &Bounds) -> Option<Arc<str>> {
        let own = self.by_grant.get(grant).copied().unwrap_or_default();
        if own.is_over(bounds.sessions_per_grant_max, BYTES_PER_GRANT_MAX) && own.sessions > 1 {
            return Some(grant.into());
        }
        if !self.all.is_over(bounds.sessions_max, BYTES_MAX) {
            return None;
        }
        if own.sessions > 1 {
            return Some(grant.into());
        }
        let by_bytes = self.all.bytes > BYTES_MAX;
        let others =
            self.by_grant.iter().filter(|(name, sum)| ***name != *grant && sum.sessions > 0);
        let size = |sum: &Sum| if by_bytes { sum.bytes } else { sum.sessions };
        others.max_by_key(|(_, sum)| size(sum)).map(|(name, _)| Arc::clone(name))
    }
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session. Those that have to end for it are handed back: of its own grant where that has more
    /// than its share, of the largest grant where all together are too many.
    pub(crate) fn add(&self, session: &Arc<Session>, bounds: &Bounds) -> Vec<Arc<Session>> {
        self.table().insert(session.id.clone(), Arc::clone(session));
        let mut evicted = self.take_beyond_share(session, bounds);
        evicted.extend(self.take_beyond(session, bounds.commands_per_grant_max));
        evicted
    }

    /// Takes out sessions until the shares hold, those first that have nothing in flight and were idle
    /// longest. `newest` stays.
    pub(crate) fn take_beyond_share(&self, newest: &Session, bounds: &Bounds) -> Vec<Arc<Session>> {
        let mut table = self.table();
        let mut sums = Sums::of(table.values());
        let mut gone = Vec::new();
        while let Some(loser) = sums.loser(&newest.grant, bounds) {
            let others = table.values().filter(|one| *one.grant == *loser && one.id != newest.id);
            let idle = others.min_by_key(|one| (!one.flights.is_empty(), one.used_at_us()));
            let Some(victim) = idle.cloned() else { break };
            sums.take(&victim);
            tracing::info!(session = %victim.id, grant = %victim.grant, "a session ends, because its grant or all grants have too many");
            gone.extend(table.remove(&victim.id));
        }
        gone
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::NewSession;
    use crate::wire::{Revision, Takes};
    use store::settings::Limits;

    fn opened(all: &Sessions, id: &str, grant: &str, bytes: usize, now_us: i64) -> Vec<String> {
        let session = Arc::new(Session::new(NewSession {
            id: id.to_owned(),
            grant: grant.to_owned(),
            server: None,
            revision: Revision::LEGACY_NEWEST,
            client: crate::client::Client::default(),
            greeting: "x".repeat(bytes),
            takes: Takes::default(),
            now_us,
        }));
        let limits = Limits { sessions_max: 6, sessions_per_grant_max: 3, ..Limits::default() };
        let ended = all.add(&session, &Bounds::from_limits(&limits));
        ended.iter().map(|session| session.id.clone()).collect()
    }

    #[test]
    fn a_grant_that_opens_many_sessions_loses_its_own() {
        let all = Sessions::default();
        assert!(opened(&all, "b1", "b", 1, 0).is_empty());
        for (n, ends) in [(1, None), (2, None), (3, None), (4, Some("a1")), (5, Some("a2"))] {
            let ended = opened(&all, &format!("a{n}"), "a", 1, n);
            assert_eq!(ended.first().map(String::as_str), ends);
        }
        assert!(all.is_open("b1"));
        // All places are taken: the largest grant makes room for one that has none, and only then.
        assert!(opened(&all, "c1", "c", 1, 6).is_empty());
        assert!(opened(&all, "c2", "c", 1, 7).is_empty());
        assert_eq!(opened(&all, "c3", "c", 1, 8), ["c1"], "its own first");
        assert_eq!(opened(&all, "d1", "d", 1, 9), ["a3"]);
        assert!(all.is_open("b1"));
    }

    #[test]
    fn what_the_sessions_of_a_grant_keep_is_bounded_in_bytes() {
        let all = Sessions::default();
        opened(&all, "b1", "b", 1, 0);
        assert!(opened(&all, "a1", "a", BYTES_PER_GRANT_MAX / 2, 1).is_empty());
        assert_eq!(opened(&all, "a2", "a", BYTES_PER_GRANT_MAX / 2 + 1, 2), ["a1"]);
        assert!(all.is_open("b1") && all.is_open("a2"));
    }
}

//! All sessions of a gate, and which of them are evicted when there are too many. A grant with many
//! sessions loses its own first, so that it cannot evict those of others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::Session;
use crate::runtime::bounds::Bounds;
use crate::upstream::peer;

/// Memory of all sessions of one grant: handshakes and the servers' initialize results.
const BYTES_PER_GRANT_MAX: usize = 8 << 20;
/// Memory of all sessions.
const BYTES_MAX: usize = 64 << 20;

/// All sessions of a gate.
#[derive(Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
}

/// Totals per grant and over all.
#[derive(Default)]
struct Totals {
    by_grant: HashMap<Arc<str>, Total>,
    all: Total,
}

#[derive(Clone, Copy, Default)]
struct Total {
    sessions: usize,
    bytes: usize,
}

impl Total {
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

impl Totals {
    fn of<'s>(sessions: impl Iterator<Item = &'s Arc<Session>>) -> Totals {
        let mut totals = Totals::default();
        for session in sessions {
            let bytes = session.kept_bytes();
            totals.all.add(bytes);
            totals.by_grant.entry(Arc::from(session.grant.as_str())).or_default().add(bytes);
        }
        totals
    }

    fn take(&mut self, session: &Session) {
        let bytes = session.kept_bytes();
        self.all.take(bytes);
        if let Some(sum) = self.by_grant.get_mut(session.grant.as_str()) {
            sum.take(bytes);
        }
    }

    /// The grant that must lose a session because `grant` opened one, if any.
    fn grant_to_evict(&self, grant: &str, bounds: &Bounds) -> Option<Arc<str>> {
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
        let size = |sum: &Total| if by_bytes { sum.bytes } else { sum.sessions };
        others.max_by_key(|(_, sum)| size(sum)).map(|(name, _)| Arc::clone(name))
    }
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session and returns the evicted ones: of its own grant if that is over its share, of
    /// the largest grant if the total is too high.
    fn add(&self, session: &Arc<Session>, bounds: &Bounds) -> Vec<Arc<Session>> {
        self.table().insert(session.id.clone(), Arc::clone(session));
        let mut evicted = self.take_beyond_share(session, bounds);
        evicted.extend(self.take_beyond(session, bounds.commands_per_grant_max));
        evicted
    }

    /// Opens a session and ends the evicted ones.
    pub(crate) fn open(&self, session: &Arc<Session>, bounds: &Bounds) {
        end_all(self.add(session, bounds));
    }

    /// Ends the sessions that are evicted because this one grew.
    pub(crate) fn evict_for(&self, session: &Session, bounds: &Bounds) {
        end_all(self.take_beyond_share(session, bounds));
        end_all(self.take_beyond(session, bounds.commands_per_grant_max));
    }

    /// Ends a session and waits until its servers are closed.
    pub(crate) async fn end(&self, id: &str) {
        let Some(session) = self.remove(id) else { return };
        for peer in session.end() {
            peer.close().await;
        }
    }

    /// Removes sessions until the shares hold, idle ones without requests in flight first. `newest`
    /// stays.
    fn take_beyond_share(&self, newest: &Session, bounds: &Bounds) -> Vec<Arc<Session>> {
        let mut table = self.table();
        let mut totals = Totals::of(table.values());
        let mut gone = Vec::new();
        while let Some(grant_to_evict) = totals.grant_to_evict(&newest.grant, bounds) {
            let others =
                table.values().filter(|one| *one.grant == *grant_to_evict && one.id != newest.id);
            let idle = others.min_by_key(|one| (!one.client_requests.is_empty(), one.used_at_us()));
            let Some(victim) = idle.cloned() else { break };
            totals.take(&victim);
            tracing::info!(session = %victim.id, grant = %victim.grant, "evicted a session: its grant, or all grants together, have too many");
            gone.extend(table.remove(&victim.id));
        }
        gone
    }

    /// Removes sessions of the grant of `newest` until at most `commands_max` processes remain,
    /// idle ones without requests in flight first: a client that opens sessions and forgets them
    /// must not exhaust the machine.
    fn take_beyond(&self, newest: &Session, commands_max: usize) -> Vec<Arc<Session>> {
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
        others.sort_by_key(|(_, session)| {
            (!session.client_requests.is_empty(), session.used_at_us())
        });
        let mut gone = Vec::new();
        for (commands, session) in others {
            if running <= commands_max {
                break;
            }
            running -= commands;
            tracing::info!(session = %session.id, commands_max, "evicted a session: its grant has too many commands running");
            gone.extend(table.remove(&session.id));
        }
        gone
    }

    /// The session, if it belongs to this grant and endpoint; for anyone else it does not exist.
    pub(crate) fn find(&self, id: &str, grant: &str, server: Option<&str>) -> Option<Arc<Session>> {
        let session = self.table().get(id).cloned()?;
        (session.grant == grant && session.server.as_deref() == server).then_some(session)
    }

    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.table().contains_key(id)
    }

    fn remove(&self, id: &str) -> Option<Arc<Session>> {
        self.table().remove(id)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.table().values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }

    /// Removes every session for which `goes` is true.
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

fn end_all(sessions: Vec<Arc<Session>>) {
    for session in sessions {
        peer::close_all(session.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::NewSession;
    use mcp::{ClientCapabilities, Revision};
    use store::settings::Limits;

    fn opened(all: &Sessions, id: &str, grant: &str, bytes: usize, now_us: i64) -> Vec<String> {
        let session = Arc::new(Session::new(NewSession {
            id: id.to_owned(),
            grant: grant.to_owned(),
            server: None,
            revision: Revision::LEGACY_NEWEST,
            client: mcp::ClientInfo::default(),
            initialize_params: "x".repeat(bytes),
            client_capabilities: ClientCapabilities::default(),
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
        // The total is reached: the largest grant makes way for one without a session, and only
        // then.
        assert!(opened(&all, "c1", "c", 1, 6).is_empty());
        assert!(opened(&all, "c2", "c", 1, 7).is_empty());
        assert_eq!(opened(&all, "c3", "c", 1, 8), ["c1"], "its own first");
        assert_eq!(opened(&all, "d1", "d", 1, 9), ["a3"]);
        assert!(all.is_open("b1"));
    }

    #[test]
    fn the_memory_of_a_grants_sessions_is_bounded() {
        let all = Sessions::default();
        opened(&all, "b1", "b", 1, 0);
        assert!(opened(&all, "a1", "a", BYTES_PER_GRANT_MAX / 2, 1).is_empty());
        assert_eq!(opened(&all, "a2", "a", BYTES_PER_GRANT_MAX / 2 + 1, 2), ["a1"]);
        assert!(all.is_open("b1") && all.is_open("a2"));
    }
}

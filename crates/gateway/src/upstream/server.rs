//! A server in the running gate: its backend, pins, supported eras, and the peers that clients of one grant
//! share.

mod list_cache;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use catalog::pins::{Fingerprint, fingerprint_of_canonical};
use store::registry::{self, PinState};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use self::list_cache::ListCache;
pub(crate) use self::list_cache::{ListRead, ListReadGuard, ListResult};
use crate::builtin::Builtin;
use crate::upstream::health::Health;
use crate::upstream::peer::Peer;
use crate::upstream::pins::Pins;
use crate::upstream::skills::{Skill, SkillBook};
use crate::upstream::{Backoff, ChildOptions, HttpServer, Mask, UpstreamError};
use mcp::ClientCapabilities;

/// A server.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) spec: registry::Server,
    pub(crate) backend: Backend,
    /// Whether it is in the registry. The pins of a wrapped command are kept in memory only.
    pub(crate) is_registered: bool,
    /// How long it may take to start and complete the handshake.
    pub(crate) start_wait_max: Duration,
    pub(crate) health: Health,
    pins: ArcSwap<Pins>,
    skills: ArcSwap<SkillBook>,
    shown_revision: AtomicU64,
    kept: ListCache,
    state: Mutex<State>,
}

/// How a server is reached.
pub(crate) enum Backend {
    Builtin(Arc<Builtin>),
    Http(Arc<HttpServer>),
    Child(Box<ChildOptions>),
    /// The configuration is invalid; calls fail with this reason.
    Broken(String),
}

#[derive(Default)]
struct State {
    eras: Eras,
    shared: HashMap<String, SharedPeerCell>,
    /// By grant: failed starts in a row.
    failing: HashMap<String, StartFailures>,
    /// The first content of each page, for a server that is not in the registry.
    pages: HashMap<String, Fingerprint>,
    /// When the tool list for these client capabilities was last read.
    checked: HashMap<ClientCapabilities, ListCheck>,
}

#[derive(Clone, Copy)]
struct ListCheck {
    at_us: u64,
    took_us: u64,
}

struct StartFailures {
    backoff: Backoff,
    until: Instant,
}

pub(crate) type SharedPeerCell = Arc<OnceCell<Arc<Peer>>>;

/// Pages that are kept for a server that is not in the registry.
const PAGES_MAX: usize = 100;

/// Used instead of a grant id for a process that all clients share. No grant has this id.
const ALL_GRANTS: &str = "(all)";

/// The eras that a server supports, as far as they were tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eras {
    pub(crate) legacy: Option<bool>,
    pub(crate) modern: Option<bool>,
}

impl Server {
    pub(crate) fn new(
        spec: registry::Server,
        backend: Backend,
        pins: Pins,
        start_wait_max: Duration,
    ) -> Server {
        Server {
            name: spec.name.clone(),
            spec,
            backend,
            is_registered: true,
            start_wait_max,
            health: Health::default(),
            pins: ArcSwap::from_pointee(pins),
            skills: ArcSwap::default(),
            shown_revision: AtomicU64::new(0),
            kept: ListCache::default(),
            state: Mutex::default(),
        }
    }

    /// A server that is not in the registry. Its state is lost with the process.
    pub(crate) fn unregistered(
        spec: registry::Server,
        backend: Backend,
        start_wait_max: Duration,
    ) -> Server {
        Server {
            is_registered: false,
            ..Server::new(spec, backend, Pins::default(), start_wait_max)
        }
    }

    /// The skills that it is known to have.
    pub(crate) fn skills(&self) -> Arc<SkillBook> {
        self.skills.load_full()
    }

    /// Notes skills that it listed; with `is_whole` it has no others.
    pub(crate) fn note_skills(&self, found: &[Skill], is_whole: bool) {
        self.skills.rcu(|book| book.with(found.to_vec(), is_whole));
    }

    /// Compares a page or a skill with its first content, for a server that is not in the registry.
    pub(crate) fn observe_page(&self, uri: &str, content: &str) -> PinState {
        let seen = fingerprint_of_canonical(content);
        let mut state = self.state();
        let is_full = state.pages.len() >= PAGES_MAX && !state.pages.contains_key(uri);
        if is_full {
            return PinState::New;
        }
        let first = state.pages.entry(uri.to_owned()).or_insert_with(|| seen.clone());
        if *first == seen { PinState::Accepted } else { PinState::Changed }
    }

    /// Compares skills with those of its first list, for a server that is not in the registry.
    pub(crate) fn observe_skills(
        &self,
        entries: &[(&str, &str)],
        is_whole_list: bool,
    ) -> Vec<PinState> {
        let is_first = is_whole_list && self.skills().all().next().is_none();
        let state = |(uri, entry): &(&str, &str)| {
            let is_known = self.state().pages.contains_key(*uri);
            if is_first || is_known { self.observe_page(uri, entry) } else { PinState::New }
        };
        entries.iter().map(state).collect()
    }

    /// The last lines of its stderr, for the owner only.
    pub(crate) fn last_stderr(&self) -> Option<String> {
        match &self.backend {
            Backend::Child(options) => options.last_stderr(),
            _ => None,
        }
    }

    /// The same right after a failure, when stderr may not have been read yet.
    pub(crate) async fn wait_for_stderr(&self) -> Option<String> {
        const WAIT_MAX: Duration = Duration::from_millis(500);
        const POLL_EVERY: Duration = Duration::from_millis(20);
        if !matches!(self.backend, Backend::Child(_)) {
            return None;
        }
        let message = async {
            loop {
                if let Some(message) = self.last_stderr() {
                    return message;
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, message).await.ok()
    }

    /// Whether it declares that a tool honours `aggregate_only`. The declaration of an outside server would not
    /// be worth anything.
    pub(crate) fn aggregates(&self, tool: &str) -> bool {
        matches!(&self.backend, Backend::Builtin(builtin) if builtin.aggregates(tool))
    }

    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self.backend, Backend::Builtin(_))
    }

    /// Its secrets, which are masked in everything that is shown of it.
    pub(crate) fn mask(&self) -> Option<&Mask> {
        match &self.backend {
            Backend::Child(child) => child.mask.as_deref(),
            Backend::Http(http) => http.mask(),
            Backend::Builtin(_) | Backend::Broken(_) => None,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pins(&self) -> Arc<Pins> {
        self.pins.load_full()
    }

    pub(crate) fn set_pins(&self, pins: Pins) {
        self.pins.store(Arc::new(pins));
    }

    /// Sets the pins from the registry, which the owner may have changed.
    pub(crate) fn accept(&self, pins: Pins) {
        if !self.pins().shows_as(&pins) {
            self.shown_revision.fetch_add(1, Ordering::Relaxed);
        }
        self.set_pins(pins);
    }

    /// Counts the changes of the tools that agents are shown.
    pub(crate) fn shown_revision(&self) -> u64 {
        self.shown_revision.load(Ordering::Relaxed)
    }

    pub(crate) fn eras(&self) -> Eras {
        self.state().eras
    }

    pub(crate) fn learn_eras(&self, learned: impl FnOnce(&mut Eras)) {
        learned(&mut self.state().eras);
    }

    /// Whether all clients share one process, because it has no state per session.
    pub(crate) fn is_shared_by_all(&self) -> bool {
        matches!(self.backend, Backend::Child(_)) && self.is_registered && self.spec.is_shared()
    }

    /// Who shares a peer with the clients of this grant: only they, or all clients.
    pub(crate) fn share_key<'g>(&self, grant: &'g str) -> &'g str {
        if self.is_shared_by_all() { ALL_GRANTS } else { grant }
    }

    /// The cell of the peer that the clients of one grant share.
    pub(crate) fn shared(&self, grant: &str) -> SharedPeerCell {
        Arc::clone(self.state().shared.entry(self.share_key(grant).to_owned()).or_default())
    }

    /// The peer that the clients of one grant share, if it is open.
    pub(crate) fn shared_peer(&self, grant: &str) -> Option<Arc<Peer>> {
        self.state().shared.get(self.share_key(grant))?.get().cloned()
    }

    /// Drops a failed peer. A process that is being restarted stays: a new peer would start another one at
    /// once.
    pub(crate) fn drop_shared(&self, grant: &str) {
        let grant = self.share_key(grant);
        let is_restarting =
            |cell: &SharedPeerCell| cell.get().is_some_and(|peer| peer.is_restarting());
        let mut state = self.state();
        if !state.shared.get(grant).is_some_and(is_restarting)
            && let Some(gone) = state.shared.remove(grant)
            && let Some(peer) = gone.get()
        {
            peer.retire();
        }
    }

    /// Refuses to start a process during its back-off.
    pub(crate) fn may_start(&self, grant: &str) -> Result<(), UpstreamError> {
        let grant = self.share_key(grant);
        let until = self.state().failing.get(grant).map(|failing| failing.until);
        let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now()))
        else {
            return Ok(());
        };
        let seconds = left.as_secs() + 1;
        let why = format!("the server did not start; next attempt in {seconds} s");
        Err(UpstreamError::never_sent(why))
    }

    /// Records the outcome of a start. After a failure the back-off grows.
    pub(crate) fn record_start(&self, grant: &str, succeeded: bool) {
        let grant = self.share_key(grant);
        let Backend::Child(options) = &self.backend else { return };
        let mut state = self.state();
        if succeeded {
            state.failing.remove(grant);
            return;
        }
        let now = Instant::now();
        let failing = state.failing.entry(grant.to_owned()).or_insert_with(|| StartFailures {
            backoff: Backoff::new(&options.bounds),
            until: now,
        });
        failing.until = now + failing.backoff.pause_after(Duration::ZERO);
    }

    /// The open shared peers.
    pub(crate) fn shared_now(&self) -> Vec<Arc<Peer>> {
        self.state().shared.values().filter_map(|cell| cell.get().cloned()).collect()
    }

    /// Removes the shared peers of grants for which `goes` is true, to be closed.
    pub(crate) fn take_shared(&self, goes: impl Fn(&str) -> bool) -> Vec<Arc<Peer>> {
        let mut state = self.state();
        state.failing.retain(|grant, _| !goes(grant));
        let gone = state.shared.extract_if(|grant, _| goes(grant));
        gone.filter_map(|(_, cell)| cell.get().cloned()).collect()
    }

    /// Removes the shared processes that are idle for this long, to be closed. A user of a process holds its
    /// cell or its peer.
    pub(crate) fn take_idle(
        &self,
        now_us: u64,
        for_us: u64,
        is_heard: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Peer>> {
        let is_idle_since = |grant: &String, cell: &mut SharedPeerCell| {
            let Some(peer) = cell.get().filter(|peer| peer.is_child()) else { return false };
            let is_used = Arc::strong_count(cell) > 1 || Arc::strong_count(peer) > 1;
            peer.is_idle_since(now_us, for_us) && !is_used && !is_heard(grant)
        };
        let mut state = self.state();
        let gone = state.shared.extract_if(is_idle_since);
        gone.filter_map(|(_, cell)| cell.get().cloned()).collect()
    }

    /// Whether the tool list was read recently. A list that takes long to read is read less often.
    pub(crate) fn is_fresh(&self, set: ClientCapabilities, now_us: u64) -> bool {
        self.was_read_within(set, self.spec.options.pins_fresh_seconds * 1_000_000, now_us)
    }

    /// Whether it was read so recently that an unlisted name is treated as unknown. Guessing names must not
    /// make a server list its tools each time.
    pub(crate) fn was_just_read(&self, set: ClientCapabilities, now_us: u64) -> bool {
        const JUST_US: u64 = 1_000_000;
        self.was_read_within(set, JUST_US, now_us)
    }

    /// Whether it was read since it last changed.
    pub(crate) fn was_read(&self, set: ClientCapabilities) -> bool {
        self.state().checked.contains_key(&set)
    }

    fn was_read_within(&self, set: ClientCapabilities, keep_us: u64, now_us: u64) -> bool {
        const SHARE_MAX: u64 = 50;
        let Some(checked) = self.state().checked.get(&set).copied() else { return false };
        let keep_us = keep_us.max(checked.took_us.saturating_mul(SHARE_MAX));
        now_us.saturating_sub(checked.at_us) < keep_us
    }

    pub(crate) fn set_checked(&self, set: ClientCapabilities, now_us: u64, took_us: u64) {
        self.state().checked.insert(set, ListCheck { at_us: now_us, took_us });
    }

    pub(crate) fn forget_check(&self) {
        self.state().checked.clear();
    }
}

impl Backend {
    pub(crate) fn broken(message: impl Into<String>) -> Backend {
        Backend::Broken(message.into())
    }

    pub(crate) fn unusable(message: &str) -> UpstreamError {
        UpstreamError::never_sent(message)
    }
}

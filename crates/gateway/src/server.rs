//! A server as the running gate knows it: how to reach it, what its tools are pinned as, which eras it
//! speaks, and the conversations that several clients of one grant share.

mod kept;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use store::registry;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use self::kept::Kept;
pub(crate) use self::kept::{Came, Read, Reading};
use crate::builtin::Builtin;
use crate::peer::Peer;
use crate::pins::Pins;
use crate::standing::Marks;
use crate::upstream::{Backoff, ChildOptions, HttpServer, UpstreamError};
use crate::wire::Takes;

/// A registered server.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) spec: registry::Server,
    pub(crate) reach: Reach,
    /// Whether its pins are in the registry; those of a wrapped command live only here.
    pub(crate) is_kept: bool,
    /// How long it may take to start and shake hands; some servers load a great deal.
    pub(crate) start_wait_max: Duration,
    /// What the owner is told about it while the gate runs.
    pub(crate) marks: Marks,
    pins: ArcSwap<Pins>,
    shown_anew: AtomicU64,
    kept: Kept,
    state: Mutex<State>,
}

/// How a server is reached.
pub(crate) enum Reach {
    Builtin(Arc<Builtin>),
    Http(Arc<HttpServer>),
    Child(Box<ChildOptions>),
    /// Its configuration cannot be used; calls are told why.
    Broken(String),
}

#[derive(Default)]
struct State {
    eras: Eras,
    shared: HashMap<String, Shared>,
    /// By grant: starts of a process that failed, one after the other.
    failing: HashMap<String, Failing>,
    /// When the tool list that clients with these capabilities get was read last.
    checked: HashMap<Takes, Checked>,
}

#[derive(Clone, Copy)]
struct Checked {
    at_us: u64,
    took_us: u64,
}

struct Failing {
    backoff: Backoff,
    until: Instant,
}

pub(crate) type Shared = Arc<OnceCell<Arc<Peer>>>;

/// In the place of a grant's id, for a process that all clients share. No grant has it.
const ALL_GRANTS: &str = "(all)";

/// Which eras a server was found to speak. Not known until tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eras {
    pub(crate) legacy: Option<bool>,
    pub(crate) modern: Option<bool>,
}

impl Server {
    pub(crate) fn new(
        spec: registry::Server,
        reach: Reach,
        pins: Pins,
        start_wait_max: Duration,
    ) -> Server {
        Server {
            name: spec.name.clone(),
            spec,
            reach,
            is_kept: true,
            start_wait_max,
            marks: Marks::default(),
            pins: ArcSwap::from_pointee(pins),
            shown_anew: AtomicU64::new(0),
            kept: Kept::default(),
            state: Mutex::default(),
        }
    }

    /// A server that nobody registered; what is known of it goes with the process.
    pub(crate) fn passing(
        spec: registry::Server,
        reach: Reach,
        start_wait_max: Duration,
    ) -> Server {
        Server { is_kept: false, ..Server::new(spec, reach, Pins::default(), start_wait_max) }
    }

    /// What its processes said last on stderr, for the owner's eyes.
    pub(crate) fn last_words(&self) -> Option<String> {
        match &self.reach {
            Reach::Child(options) => options.last_words(),
            _ => None,
        }
    }

    /// The same of one that has failed just now: what it wrote may not have been read yet.
    pub(crate) async fn last_words_soon(&self) -> Option<String> {
        const WAIT_MAX: Duration = Duration::from_millis(500);
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        if !matches!(self.reach, Reach::Child(_)) {
            return None;
        }
        let words = async {
            loop {
                if let Some(words) = self.last_words() {
                    return words;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, words).await.ok()
    }

    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self.reach, Reach::Builtin(_))
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

    /// The pins as the registry has them, where the owner may have accepted something meanwhile.
    pub(crate) fn accept(&self, pins: Pins) {
        if !self.pins().shows_as(&pins) {
            self.shown_anew.fetch_add(1, Ordering::Relaxed);
        }
        self.set_pins(pins);
    }

    /// How often the owner has changed what agents are shown of its tools.
    pub(crate) fn times_shown_anew(&self) -> u64 {
        self.shown_anew.load(Ordering::Relaxed)
    }

    pub(crate) fn eras(&self) -> Eras {
        self.state().eras
    }

    pub(crate) fn learn(&self, learned: impl FnOnce(&mut Eras)) {
        learned(&mut self.state().eras);
    }

    /// Whether all clients share one process of it, because it keeps nothing between sessions.
    pub(crate) fn is_shared_by_all(&self) -> bool {
        matches!(self.reach, Reach::Child(_)) && self.is_kept && self.spec.is_shared()
    }

    /// Who shares a conversation with the clients of this grant: they alone, or all clients.
    pub(crate) fn sharers<'g>(&self, grant: &'g str) -> &'g str {
        if self.is_shared_by_all() { ALL_GRANTS } else { grant }
    }

    /// The place of the conversation that the clients of one grant share.
    pub(crate) fn shared(&self, grant: &str) -> Shared {
        Arc::clone(self.state().shared.entry(self.sharers(grant).to_owned()).or_default())
    }

    /// The conversation that the clients of one grant share, if it is open.
    pub(crate) fn shared_peer(&self, grant: &str) -> Option<Arc<Peer>> {
        self.state().shared.get(self.sharers(grant))?.get().cloned()
    }

    /// Gives up a conversation that failed. A process that ended stays: it is started again in its own
    /// time, and another one in its place would be started at once.
    pub(crate) fn forget_shared(&self, grant: &str) {
        let grant = self.sharers(grant);
        let is_down = |place: &Shared| place.get().is_some_and(|peer| peer.is_down());
        let mut state = self.state();
        if !state.shared.get(grant).is_some_and(is_down)
            && let Some(gone) = state.shared.remove(grant)
            && let Some(peer) = gone.get()
        {
            peer.retire();
        }
    }

    /// Refuses to start a process again right after it failed to.
    pub(crate) fn may_start(&self, grant: &str) -> Result<(), UpstreamError> {
        let grant = self.sharers(grant);
        let until = self.state().failing.get(grant).map(|failing| failing.until);
        let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now()))
        else {
            return Ok(());
        };
        let seconds = left.as_secs() + 1;
        let why = format!("the server did not start; it is tried again in {seconds} s");
        Err(UpstreamError::NeverSent { why })
    }

    /// Notes how a start went; the next one after a failure has to wait, longer each time.
    pub(crate) fn tried_to_start(&self, grant: &str, it_did: bool) {
        let grant = self.sharers(grant);
        let Reach::Child(options) = &self.reach else { return };
        let mut state = self.state();
        if it_did {
            state.failing.remove(grant);
            return;
        }
        let now = Instant::now();
        let failing = state
            .failing
            .entry(grant.to_owned())
            .or_insert_with(|| Failing { backoff: Backoff::new(&options.bounds), until: now });
        failing.until = now + failing.backoff.pause_after(Duration::ZERO);
    }

    /// The shared conversations there are now.
    pub(crate) fn shared_now(&self) -> Vec<Arc<Peer>> {
        self.state().shared.values().filter_map(|place| place.get().cloned()).collect()
    }

    /// The shared conversations of grants for which `goes` is true, to be closed.
    pub(crate) fn take_shared(&self, goes: impl Fn(&str) -> bool) -> Vec<Arc<Peer>> {
        let mut state = self.state();
        state.failing.retain(|grant, _| !goes(grant));
        let gone = state.shared.extract_if(|grant, _| goes(grant));
        gone.filter_map(|(_, place)| place.get().cloned()).collect()
    }

    /// The shared processes that nobody uses and nobody has used for so long, to be closed. Whoever is
    /// about to use one holds its place or itself.
    pub(crate) fn take_quiet(
        &self,
        now_us: u64,
        for_us: u64,
        is_heard: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Peer>> {
        let is_quiet = |grant: &String, place: &mut Shared| {
            let Some(peer) = place.get().filter(|peer| peer.is_child()) else { return false };
            let is_used = Arc::strong_count(place) > 1 || Arc::strong_count(peer) > 1;
            peer.is_quiet(now_us, for_us) && !is_used && !is_heard(grant)
        };
        let mut state = self.state();
        let gone = state.shared.extract_if(is_quiet);
        gone.filter_map(|(_, place)| place.get().cloned()).collect()
    }

    /// Whether the tool list was read not too long ago. Reading a long list is not repeated so often
    /// that it becomes the work.
    pub(crate) fn is_fresh(&self, set: Takes, now_us: u64) -> bool {
        self.was_read_within(set, self.spec.options.pins_fresh_seconds * 1_000_000, now_us)
    }

    /// Whether it was read so lately that a name that is not on it is taken for unknown: whoever tries
    /// out names does not make a server list its tools for each.
    pub(crate) fn was_just_read(&self, set: Takes, now_us: u64) -> bool {
        const JUST_US: u64 = 1_000_000;
        self.was_read_within(set, JUST_US, now_us)
    }

    /// Whether it was read at all since it last said that it changed.
    pub(crate) fn was_read(&self, set: Takes) -> bool {
        self.state().checked.contains_key(&set)
    }

    fn was_read_within(&self, set: Takes, keep_us: u64, now_us: u64) -> bool {
        const SHARE_MAX: u64 = 50;
        let Some(checked) = self.state().checked.get(&set).copied() else { return false };
        let keep_us = keep_us.max(checked.took_us.saturating_mul(SHARE_MAX));
        now_us.saturating_sub(checked.at_us) < keep_us
    }

    pub(crate) fn set_checked(&self, set: Takes, now_us: u64, took_us: u64) {
        self.state().checked.insert(set, Checked { at_us: now_us, took_us });
    }

    pub(crate) fn forget_check(&self) {
        self.state().checked.clear();
    }
}

impl Reach {
    pub(crate) fn broken(words: impl Into<String>) -> Reach {
        Reach::Broken(words.into())
    }

    pub(crate) fn unusable(words: &str) -> UpstreamError {
        UpstreamError::NeverSent { why: words.to_owned() }
    }
}

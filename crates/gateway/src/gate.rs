//! The gate itself: what all calls share, and the small acts they have in common.

mod aside;
mod door_rows;
mod record;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use hmac::{Hmac, Mac};
use policy::json::Value;
use policy::{Code, Denial, LocalTime, Weekday};
use sha2::Sha256;
use store::clock::Clock;
use store::effective::{Effective, Ended, Lookup, MergeError};
use store::gate_time::GateTime;
use store::ledger::{Ledger, LedgerError};
use store::random::Random;
use store::registry::{Registry, RegistryError, Token, TokenFault};
use store::secret::Secret;
use store::settings::Settings;
use store::vault::Purpose;
use tokio::sync::{mpsc, watch};

use crate::bound::{self, Answers};
use crate::bounds::Bounds;
use crate::builtin::LazyDesk;
use crate::hooks::Hooks;
use crate::in_force::{Holder, InForce, Lease, Leases, Makings};
use crate::metrics::{Came, Metrics};
use crate::mrtr::{Inner, ROUND_SECONDS_MAX, Rounds, Sealer, State, StateRefused};
use crate::peer::Peer;
use crate::scene::Scene;
use crate::server::Server;
use crate::session::{Session, Sessions};
use crate::shared::Shared;
use crate::tasks::Tasks;
use crate::trace::Tracer;
use crate::upstream::Shim;
use crate::wire::Request;
use door_rows::DoorRows;

/// What a gate is made of. Clock, randomness and environment come from outside.
pub struct GateOptions {
    pub registry: Arc<Registry>,
    pub ledger: Arc<Ledger>,
    pub settings: Arc<Settings>,
    pub clock: Clock,
    pub random: Random,
    /// The program that stands between the gate and its child processes.
    pub shim: Shim,
    /// The environment that children may inherit the basics of.
    pub env: Vec<(OsString, OsString)>,
    /// Opens `/metrics`; without one nothing does.
    pub metrics_token: Option<Secret>,
    /// Where built-in servers work.
    pub desk: Arc<LazyDesk>,
    /// Who hears what children say on stderr, line by line and without secrets; it is kept anyway.
    pub stderr_to: Option<mpsc::Sender<String>>,
}

#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error("there is no time zone `{0}`\nhint: `time_zone` is a name such as `Europe/Berlin`")]
    TimeZone(String),
}

/// A running gate.
pub struct Gate {
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) sessions: Sessions,
    pub(crate) rounds: Rounds,
    pub(crate) tasks: Tasks,
    pub(crate) metrics: Metrics,
    pub(crate) hooks: Hooks,
    door_rows: DoorRows,
    pub(crate) tracer: Tracer,
    pub(crate) makings: Makings,
    pub(crate) settings: ArcSwap<Settings>,
    in_force: ArcSwap<InForce>,
    leases: Mutex<Leases>,
    /// Held from reading what the owner wrote to putting it in force, so that an older reading never
    /// replaces a newer one.
    looking: Mutex<()>,
    time: GateTime,
    zone: jiff::tz::TimeZone,
    digest: Hmac<Sha256>,
    /// Tells this gate from others that a request may pass.
    pub(crate) instance: String,
    metrics_token: Option<Secret>,
    stop: watch::Sender<bool>,
    /// Says when another state was put in force.
    renewals: watch::Sender<()>,
    heard: Mutex<HashMap<(String, String), Shared>>,
    /// Why the registry cannot be relied on, while it cannot.
    trouble: ArcSwapOption<String>,
}

impl Gate {
    /// A gate over opened stores.
    pub fn new(options: GateOptions) -> Result<Arc<Gate>, GateError> {
        let now = options.clock.now();
        let time = GateTime::new(now, options.registry.note_time(now.wall_us)?);
        let bounds = Arc::new(Bounds::from_limits(&options.settings.limits));
        let zone = zone(options.settings.time_zone.as_deref(), &options.env)?;
        let makings = Makings {
            registry: Arc::clone(&options.registry),
            shim: options.shim,
            env: options.env,
            limits: options.settings.limits.clone(),
            desk: options.desk,
            stderr_to: options.stderr_to,
        };
        let effective =
            Effective::merge(options.registry.snapshot()?, Arc::clone(&options.settings))?;
        let tasks = Tasks::restored(options.registry.task_owners(time.at(now))?);
        let mut leases = Leases::default();
        let in_force = InForce::build(effective, None, &makings, &mut leases, time.at(now));
        Ok(Arc::new(Gate {
            digest: options.registry.vault().digest(Purpose::ArgumentDigest),
            instance: options.random.name().unwrap_or_default(),
            registry: options.registry,
            ledger: options.ledger,
            clock: options.clock,
            random: options.random,
            bounds,
            sessions: Sessions::default(),
            rounds: Rounds::default(),
            tasks,
            metrics: Metrics::default(),
            hooks: Hooks::default(),
            door_rows: DoorRows::default(),
            tracer: Tracer::new(options.settings.otel_endpoint.as_deref()),
            makings,
            settings: ArcSwap::new(options.settings),
            in_force: ArcSwap::from_pointee(in_force),
            leases: Mutex::new(leases),
            looking: Mutex::default(),
            time,
            zone,
            metrics_token: options.metrics_token,
            stop: watch::Sender::new(false),
            renewals: watch::Sender::new(()),
            heard: Mutex::default(),
            trouble: ArcSwapOption::empty(),
        }))
    }

    pub(crate) fn in_force(&self) -> Arc<InForce> {
        self.in_force.load_full()
    }

    pub(crate) fn turn_to_look(&self) -> MutexGuard<'_, ()> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another state in force, whole. Grants that are not in it lose their open streams.
    pub(crate) fn put_in_force(&self, effective: Effective) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.in_force.load_full();
        let next =
            InForce::build(effective, Some(&before), &self.makings, &mut leases, self.now_us());
        self.in_force.store(Arc::new(next));
        drop(leases);
        self.renewals.send_replace(());
        self.tell_of_lists(&before);
    }

    /// Is told whenever another state was put in force.
    pub(crate) fn renewals(&self) -> watch::Receiver<()> {
        self.renewals.subscribe()
    }

    /// The grant's time: a clock that is set back makes nothing last longer.
    pub(crate) fn now_us(&self) -> i64 {
        self.time.at(self.clock.now())
    }

    /// The grant that a token opens, if it is in force, and the lease of the token.
    pub(crate) fn holder_of(&self, token: &str) -> Option<(Arc<Holder>, Lease)> {
        let hash = Token::hash_of(token).ok()?;
        let in_force = self.in_force.load();
        match in_force.effective.lookup_hash(hash, self.now_us()) {
            Lookup::Active(grant) => {
                let holder = in_force.holders.get(&grant.id)?;
                Some((Arc::clone(holder), in_force.tokens.get(&hash)?.clone()))
            }
            _ => None,
        }
    }

    /// Ends what runs under tokens that a rotation replaced and whose overlap is over.
    pub(crate) fn end_replaced_tokens(&self) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.end_replaced(self.now_us());
    }

    /// Why a token opens nothing, for the owner: the grant it once was for, and what is wrong with it. Its
    /// client is told the same whatever it is.
    pub(crate) fn why_refused(&self, token: &str) -> (Option<String>, &'static str) {
        let in_force = self.in_force.load();
        match in_force.effective.lookup(token, self.now_us()) {
            Lookup::Active(grant) => (Some(grant.label.clone()), "the grant is not in force yet"),
            Lookup::Ended { grant, why } => {
                let words = match why {
                    Ended::Revoked => "the token of a grant that was revoked",
                    Ended::Expired => "the token of a grant that has expired",
                    Ended::Replaced => "a token that was replaced; its overlap is over",
                };
                (Some(grant.label.clone()), words)
            }
            Lookup::Unknown => (None, "the token of no grant in this home"),
            Lookup::NotAToken(TokenFault::Mistyped) => {
                (None, "a token with a typo in it: its last letters do not fit the rest")
            }
            Lookup::NotAToken(TokenFault::NotAToken) => (None, "this is no token of a grant"),
        }
    }

    /// The grant of this label, for a client that the owner started himself.
    pub(crate) fn holder_named(&self, label: &str) -> Option<Arc<Holder>> {
        let in_force = self.in_force.load();
        let grant = in_force.effective.grant(label)?;
        in_force.holders.get(&grant.id).cloned()
    }

    /// A holder as it is in force now, or nothing when it no longer holds the server. The owner on
    /// standard streams is in no registry and stays.
    pub(crate) fn renewed(
        &self,
        holder: &Arc<Holder>,
        server: Option<&str>,
    ) -> Option<Arc<Holder>> {
        if holder.is_owner() {
            return Some(Arc::clone(holder));
        }
        let now = self.in_force.load().holders.get(&holder.id).cloned()?;
        server.is_none_or(|server| now.holdings.contains_key(server)).then_some(now)
    }

    pub(crate) fn is_metrics_token(&self, token: &str) -> bool {
        self.metrics_token.as_ref().is_some_and(|known| *known == Secret::new(token))
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Notes how a sync in the background ended, for the numbers.
    pub fn note_sync(&self, service: &'static connectors::Service, came: Came) {
        self.metrics.synced(service.name, came, self.clock.now().wall_us);
    }

    /// The numbers of this moment.
    pub(crate) fn metrics_now(&self) -> &Metrics {
        self.metrics.sessions.set(i64::try_from(self.sessions.count()).unwrap_or(i64::MAX));
        &self.metrics
    }

    /// Turns true when the gate begins to stop.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    pub(crate) fn begin_stop(&self) {
        self.stop.send_replace(true);
    }

    /// The time in the owner's zone, for rules about hours and weekdays.
    pub(crate) fn local_time(&self) -> LocalTime {
        let stamp = jiff::Timestamp::from_microsecond(self.clock.now().wall_us).unwrap_or_default();
        let local = self.zone.to_datetime(stamp);
        let weekday = match local.weekday() {
            jiff::civil::Weekday::Monday => Weekday::Monday,
            jiff::civil::Weekday::Tuesday => Weekday::Tuesday,
            jiff::civil::Weekday::Wednesday => Weekday::Wednesday,
            jiff::civil::Weekday::Thursday => Weekday::Thursday,
            jiff::civil::Weekday::Friday => Weekday::Friday,
            jiff::civil::Weekday::Saturday => Weekday::Saturday,
            jiff::civil::Weekday::Sunday => Weekday::Sunday,
        };
        LocalTime { hour: local.hour().unsigned_abs(), weekday }
    }

    /// The keyed digest of all that a call is bound to besides its subject, and whether that is anything;
    /// no arguments are as good as empty ones.
    pub(crate) fn bound_digest(&self, request: &Request<'_>, answers: Answers) -> ([u8; 32], bool) {
        let mut mac = self.digest.clone();
        // With room for some escapes, so that it need not grow.
        let bytes = request.params.map_or(0, |params| params.raw().len());
        let mut text = Vec::with_capacity(64 + bytes * 5 / 4);
        let is_any = bound::write(request, answers, &mut text);
        mac.update(&text);
        (mac.finalize().into_bytes().into(), is_any)
    }

    /// What must stay the same from one round of a call to the next.
    pub(crate) fn call_digest(&self, request: &Request<'_>, arguments: &[u8; 32]) -> String {
        use base64::Engine;
        let mut mac = self.digest.clone();
        mac.update(request.method_name.as_bytes());
        for key in ["name", "uri"] {
            let value = request.params.and_then(|params| params.get(key)).map_or("", Value::raw);
            mac.update(&[0]);
            mac.update(value.as_bytes());
        }
        mac.update(arguments);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    /// Notes whether the registry can be relied on. While it cannot, nothing is let through.
    pub(crate) fn set_store_trouble(&self, words: Option<String>) {
        match (self.trouble.load().as_deref(), words) {
            (None, None) => {}
            (Some(before), Some(words)) if *before == words => {}
            (_, None) => {
                tracing::info!("the store can be read again; calls are let through");
                self.trouble.store(None);
            }
            (_, Some(words)) => {
                tracing::error!("the store is in doubt, calls are refused: {words}");
                self.trouble.store(Some(Arc::new(words)));
            }
        }
    }

    /// The refusal that every request gets while the store is in doubt.
    pub(crate) fn trouble(&self) -> Option<Denial> {
        self.trouble.load().as_ref().map(|_| {
            let reason = "the store cannot be read, so nothing is let through; the owner can run `tollgate doctor`";
            Denial::new(Code::StoreUnavailable, "(store)", reason)
        })
    }

    /// Whether a grant is in force and holds the server, or any if none is named.
    pub(crate) fn holds(in_force: &InForce, grant: &str, server: Option<&str>) -> bool {
        match in_force.holders.get(grant) {
            Some(holder) => server.is_none_or(|server| holder.holdings.contains_key(server)),
            // Owners on standard streams are in no registry.
            None => !grant.starts_with("g_") && !grant.starts_with("file:"),
        }
    }

    pub(crate) fn random_name(&self) -> Option<String> {
        use base64::Engine;
        let mut bytes = [0; 24];
        self.random.fill(&mut bytes).ok()?;
        Some(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(crate) fn add_session(self: &Arc<Self>, session: &Arc<Session>) {
        for evicted in self.sessions.add(session, &self.bounds) {
            Gate::close_peers(evicted.end());
        }
    }

    pub(crate) async fn end_session(&self, id: &str) {
        let Some(session) = self.sessions.remove(id) else { return };
        for peer in session.end() {
            peer.close().await;
        }
    }

    pub(crate) fn close_peers(peers: Vec<Arc<Peer>>) {
        for peer in peers {
            tokio::spawn(async move { peer.close().await });
        }
    }

    /// What a shared conversation's server says on its own, for everyone of the grant who listens.
    pub(crate) fn heard(&self, server: &Server, grant: &str) -> Shared {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (server.name.clone(), server.sharers(grant).to_owned());
        heard.entry(key).or_default().clone()
    }

    /// Whether somebody listens to what a shared conversation's server says on its own.
    pub(crate) fn is_heard(&self, server: &str, grant: &str) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.get(&(server.to_owned(), grant.to_owned())).is_some_and(Shared::is_listened_to)
    }

    /// Seals what a client must bring back in the next round of a call.
    pub(crate) fn seal(
        &self,
        scene: &Scene,
        server: &str,
        digest: &str,
        call: u64,
        inner: Inner,
    ) -> Option<String> {
        let sealer = self.sealer(scene, server);
        let until_us = self.now_us() + ROUND_SECONDS_MAX * 1_000_000;
        let state =
            State { call, digest: digest.to_owned(), until_us, nonce: sealer.nonce()?, inner };
        sealer.seal(&state)
    }

    pub(crate) fn open_round(
        &self,
        scene: &Scene,
        server: &str,
        text: &str,
        digest: &str,
    ) -> Result<State, StateRefused> {
        self.sealer(scene, server).open(text, digest, self.now_us(), &self.rounds)
    }

    fn sealer<'a>(&'a self, scene: &'a Scene, server: &'a str) -> Sealer<'a> {
        Sealer {
            vault: self.registry.vault(),
            random: &self.random,
            grant: &scene.holder.id,
            server,
        }
    }
}

fn zone(name: Option<&str>, env: &[(OsString, OsString)]) -> Result<jiff::tz::TimeZone, GateError> {
    const MACHINE_ZONE: &str = "/etc/localtime";
    match name {
        // Asking for the machine's zone by its name has every zone there is looked for, which takes
        // longer than the rest of a start.
        None if env.iter().all(|(name, _)| name != "TZ") => {
            let read = std::fs::read(MACHINE_ZONE).ok();
            let zone = read.and_then(|bytes| jiff::tz::TimeZone::tzif("machine", &bytes).ok());
            Ok(zone.unwrap_or_else(jiff::tz::TimeZone::system))
        }
        None => Ok(jiff::tz::TimeZone::system()),
        Some(name) => {
            jiff::tz::TimeZone::get(name).map_err(|_| GateError::TimeZone(name.to_owned()))
        }
    }
}

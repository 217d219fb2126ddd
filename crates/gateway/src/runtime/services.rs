//! Stores, clock, randomness, bounds, metrics and traces, shared by all requests. Uses no other
//! module, so holding it holds no session and no call.

use std::ffi::OsString;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hmac::Hmac;
use policy::{Code, Denial, LocalTime, Weekday};
use sha2::Sha256;
use store::captures::{CaptureLimits, Captures};
use store::clock::Clock;
use store::gate_time::GateTime;
use store::ledger::{Facts, Ledger, Refusal, RefusalKind};
use store::random::Random;
use store::registry::{Registry, RegistryError};
use store::secret::Secret;
use store::settings::Settings;
use store::vault::Purpose;
use tokio::sync::watch;

use super::anonymous_rows::{AnonymousRows, Reason};
use super::bounds::Bounds;
use super::metrics::Metrics;
use super::trace::Tracer;

/// The stores, clocks and metrics that all modules share.
pub(crate) struct Services {
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) captures: Captures,
    pub(crate) capture_limits: CaptureLimits,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    /// A random id of this gate, for loop detection.
    pub(crate) instance: String,
    anonymous_rows: AnonymousRows,
    time: GateTime,
    zone: jiff::tz::TimeZone,
    digest: Hmac<Sha256>,
    metrics_token: Option<Secret>,
    stop: watch::Sender<bool>,
    /// Set while the registry cannot be read, with the reason.
    store_failure: ArcSwapOption<String>,
}

/// The parts of [`Services`].
pub(crate) struct NewServices<'a> {
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) settings: &'a Settings,
    pub(crate) zone: jiff::tz::TimeZone,
    pub(crate) metrics_token: Option<Secret>,
}

impl Services {
    pub(crate) fn new(new: NewServices<'_>) -> Result<Services, RegistryError> {
        let now = new.clock.now();
        Ok(Services {
            time: GateTime::new(now, new.registry.note_time(now.wall_us)?),
            bounds: Arc::new(Bounds::from_limits(&new.settings.limits)),
            digest: new.registry.vault().digest(Purpose::ArgumentDigest),
            instance: new.random.name().unwrap_or_default(),
            tracer: Tracer::new(new.settings.otel_endpoint.as_deref()),
            captures: new.registry.captures(),
            capture_limits: CaptureLimits::of(new.settings),
            registry: new.registry,
            ledger: new.ledger,
            clock: new.clock,
            random: new.random,
            metrics: Metrics::default(),
            anonymous_rows: AnonymousRows::default(),
            zone: new.zone,
            metrics_token: new.metrics_token,
            stop: watch::Sender::new(false),
            store_failure: ArcSwapOption::empty(),
        })
    }

    /// The time for grants: setting the clock back extends nothing.
    pub(crate) fn now_us(&self) -> i64 {
        self.time.at(self.clock.now())
    }

    pub(crate) fn is_metrics_token(&self, token: &str) -> bool {
        self.metrics_token.as_ref().is_some_and(|known| *known == Secret::new(token))
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

    /// The time in the owner's zone, for rules on hours and weekdays.
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

    /// A keyed digest, for arguments that must not be stored in clear.
    pub(crate) fn digest(&self) -> Hmac<Sha256> {
        self.digest.clone()
    }

    pub(crate) fn random_name(&self) -> Option<String> {
        use base64::Engine;
        let mut bytes = [0; 24];
        self.random.fill(&mut bytes).ok()?;
        Some(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Sets or clears the failure of the registry. While it is set all requests are denied.
    pub(crate) fn set_store_failure(&self, message: Option<String>) {
        match (self.store_failure.load().as_deref(), message) {
            (None, None) => {}
            (Some(before), Some(message)) if *before == message => {}
            (_, None) => {
                tracing::info!("the store is readable again; accepting calls");
                self.store_failure.store(None);
            }
            (_, Some(message)) => {
                tracing::error!("cannot read the store; refusing calls: {message}");
                self.store_failure.store(Some(Arc::new(message)));
            }
        }
    }

    /// Why no call is accepted now. For anybody, so it names nothing.
    pub(crate) fn not_ready(&self) -> Option<&'static str> {
        if self.is_stopping() {
            Some("shutting down")
        } else if self.store_failure.load().is_some() {
            Some("the registry cannot be read")
        } else {
            self.ledger.outage().map(|_| "the store cannot be reached")
        }
    }

    /// The denial of every request while the store has failed.
    pub(crate) fn store_denial(&self) -> Option<Denial> {
        self.store_failure.load().as_ref().map(|_| {
            let reason = "the store cannot be read, so requests are denied; the owner can run `tollgate doctor`";
            Denial::new(Code::StoreUnavailable, "(store)", reason)
        })
    }

    /// Records an HTTP request that was rejected before it became a message. If that fails it is
    /// rejected all the same.
    pub(crate) fn record_rejection(
        &self,
        remote: &str,
        grant: Option<&str>,
        status: u16,
        message: &str,
    ) -> Option<u64> {
        self.metrics.rejected();
        let Some(grant) = grant else {
            return self.record_anonymous(remote, "(http)", "", status, message);
        };
        let kind =
            if status == 401 { RefusalKind::Unauthenticated } else { RefusalKind::Malformed };
        let code = status.to_string();
        let facts = Facts { grant, method: "(http)", remote: Some(remote), ..Facts::default() };
        let refusal = Refusal { kind, code: &code, reason: message };
        self.ledger.record_soon(&refusal, &facts, None).ok().flatten()
    }

    /// Records an unauthenticated request, or counts it as a repeat.
    pub(crate) fn record_anonymous(
        &self,
        remote: &str,
        method: &'static str,
        server: &'static str,
        status: u16,
        message: &str,
    ) -> Option<u64> {
        // Without the port, which differs per connection.
        let address = remote.rsplit_once(':').map_or(remote, |(address, _)| address);
        let reason = Reason::new(address, (method, server), status, message);
        let now_us = self.ledger.time(self.clock.now());
        self.anonymous_rows.record(&reason, remote, now_us, &self.ledger)
    }

    /// Writes the due rows of unauthenticated requests; `all` of them at shutdown.
    pub(crate) fn flush_anonymous_rows(&self, all: bool) {
        self.anonymous_rows.flush(self.ledger.time(self.clock.now()), all, &self.ledger);
    }
}

/// The time zone of the given name, or the machine's.
pub(crate) fn zone(
    name: Option<&str>,
    env: &[(OsString, OsString)],
) -> Result<jiff::tz::TimeZone, String> {
    const MACHINE_ZONE: &str = "/etc/localtime";
    match name {
        // `TimeZone::system` searches the whole zone database for the name, which takes longer than
        // the rest of the start.
        None if env.iter().all(|(name, _)| name != "TZ") => {
            let read = std::fs::read(MACHINE_ZONE).ok();
            let zone = read.and_then(|bytes| jiff::tz::TimeZone::tzif("machine", &bytes).ok());
            Ok(zone.unwrap_or_else(jiff::tz::TimeZone::system))
        }
        None => Ok(jiff::tz::TimeZone::system()),
        Some(name) => jiff::tz::TimeZone::get(name).map_err(|_| name.to_owned()),
    }
}

//! A simulated service with generated records, settings, rate limits and sign-in. What differs
//! between services is in their [`ServiceSpec`].

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::ControlError;
use crate::http::{Request, Response};
use crate::limits::{Limit, Limits, RateLimitStatus};
use crate::oauth::{Provider, TokenKind};
use crate::record_store::{GeneratedRecords, RecordKind, RecordStore, merge};
use crate::rng::Rng;
use crate::stand_in::{Build, StandIn, Start};
use crate::timestamp::DAY_MS;

/// While the clock runs, new records are generated at this interval.
const CATCH_UP_US: i64 = 5 * 60 * 1_000_000;

/// One service, implemented by its settings.
pub(crate) trait ServiceSpec:
    Clone + Debug + Send + Serialize + DeserializeOwned + 'static
{
    /// State other than records, such as used quota.
    type Extra: Debug + Default + Send;

    const NAME: &'static str;
    const KINDS: &'static [RecordKind];
    /// The hosts of the service and their path prefixes in the sandbox.
    const HOSTS: &'static [(&'static str, &'static str)];

    fn limits(&self) -> &[Limit];
    /// Removes rate limits and quotas.
    fn unlimit(&mut self);
    /// The OAuth provider, if the service has one.
    fn provider(seed: u64, url: &str) -> Option<Provider>;
    /// Keys and cookies that the owner supplies, by the names of environment variables.
    fn values(sim: &Simulation<Self>) -> Value;
    fn generate(&self, params: GenerateParams) -> GeneratedRecords;
    fn answer(sim: &Simulation<Self>, request: &Request, now_us: i64) -> Response;
    /// An error in the format of the service.
    fn problem(request: &Request, status: u16, message: &str) -> Response;
    /// Replaces the link to the next page with the page that was requested.
    fn repeat_page(request: &Request, body: &mut Value);
}

/// What to generate. The same seed and day give the same records, whenever they are generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenerateParams {
    pub(crate) seed: u64,
    /// Days since 1970.
    pub(crate) first_day: i64,
    pub(crate) now_ms: i64,
}

impl GenerateParams {
    pub(crate) fn rng(self, subject: &str, number: i64) -> Rng {
        Rng::stream(self.seed, subject, number)
    }

    pub(crate) fn last_day(self) -> i64 {
        self.now_ms.div_euclid(DAY_MS)
    }

    pub(crate) fn days(self) -> std::ops::RangeInclusive<i64> {
        self.first_day..=self.last_day()
    }
}

#[derive(Debug)]
pub(crate) struct Simulation<S: ServiceSpec> {
    pub(crate) seed: u64,
    pub(crate) url: String,
    first_day: i64,
    provider: Option<Provider>,
    limits: Limits,
    /// How often keys and cookies were invalidated.
    voided: AtomicI64,
    state: Mutex<SimulationState<S>>,
}

#[derive(Debug)]
pub(crate) struct SimulationState<S: ServiceSpec> {
    pub(crate) settings: S,
    pub(crate) records: RecordStore,
    pub(crate) extra: S::Extra,
    as_of_us: i64,
}

impl<S: ServiceSpec> Simulation<S> {
    fn new(start: Start<'_>, settings: S) -> Simulation<S> {
        let Start { seed, days, now_us, url, .. } = start;
        let today = now_us.div_euclid(DAY_MS * 1_000);
        let limits = Limits::new(settings.limits());
        let records = RecordStore::new(S::KINDS);
        let state =
            SimulationState { settings, records, extra: S::Extra::default(), as_of_us: now_us };
        let sim = Simulation {
            seed,
            url: url.to_owned(),
            first_day: today - i64::from(days.max(1)) + 1,
            provider: S::provider(seed, url),
            limits,
            voided: AtomicI64::new(0),
            state: Mutex::new(state),
        };
        sim.regenerate(&mut sim.lock(), now_us);
        sim
    }

    /// The records and settings at `now_us`.
    pub(crate) fn open(&self, now_us: i64) -> MutexGuard<'_, SimulationState<S>> {
        let mut state = self.lock();
        if now_us.saturating_sub(state.as_of_us) >= CATCH_UP_US {
            self.regenerate(&mut state, now_us);
        }
        state
    }

    pub(crate) fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    /// Counts one request against the rate limits.
    pub(crate) fn take(&self, now_us: i64) -> Option<RateLimitStatus> {
        self.limits.take(now_us)
    }

    /// A secret of the owner; it changes when secrets are invalidated.
    pub(crate) fn secret(&self, name: &str, length: usize) -> String {
        Rng::stream(self.seed, name, self.voided.load(Ordering::SeqCst)).word(length)
    }

    /// The URL of a path in this sandbox.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn regenerate(&self, state: &mut SimulationState<S>, now_us: i64) {
        state.as_of_us = now_us;
        let Simulation { seed, first_day, .. } = *self;
        let params = GenerateParams { seed, first_day, now_ms: now_us.div_euclid(1_000) };
        let generated = state.settings.generate(params);
        state.records.fill(generated);
    }

    fn lock(&self) -> MutexGuard<'_, SimulationState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: ServiceSpec> Build for S {
    fn unlimit(&mut self) {
        ServiceSpec::unlimit(self);
    }

    fn build(self, start: Start<'_>) -> Box<dyn StandIn> {
        Box::new(Simulation::new(start, self))
    }
}

impl<S: ServiceSpec> StandIn for Simulation<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn answer(&self, request: &Request, now_us: i64) -> Response {
        S::answer(self, request, now_us)
    }

    fn problem(&self, request: &Request, status: u16, message: &str) -> Response {
        S::problem(request, status, message)
    }

    fn repeat_page(&self, request: &Request, body: &mut Value) {
        S::repeat_page(request, body);
    }

    fn hosts(&self) -> Value {
        let host =
            |(host, prefix): &(&str, &str)| ((*host).to_owned(), json!(self.address(prefix)));
        Value::Object(S::HOSTS.iter().map(host).collect())
    }

    fn values(&self) -> Value {
        S::values(self)
    }

    fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    fn expire(&self, kind: TokenKind) {
        match &self.provider {
            Some(provider) => provider.expire(kind),
            None => drop(self.voided.fetch_add(1, Ordering::SeqCst)),
        }
    }

    /// Merges `patch` into the settings; names and values are those of the service.
    fn set(&self, patch: &Value) -> Result<(), ControlError> {
        let mut state = self.lock();
        let bad = |error: serde_json::Error| ControlError::Bad(format!("unknown setting: {error}"));
        let mut settings = match serde_json::to_value(&state.settings).map_err(bad)? {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        merge(&mut settings, patch.as_object().unwrap_or(&Map::new()));
        state.settings = serde_json::from_value(Value::Object(settings)).map_err(bad)?;
        if patch.get("limits").is_some() {
            self.limits.set(state.settings.limits());
        }
        let as_of_us = state.as_of_us;
        self.regenerate(&mut state, as_of_us);
        Ok(())
    }

    fn catch_up(&self, now_us: i64) {
        let mut state = self.lock();
        if state.as_of_us != now_us {
            self.regenerate(&mut state, now_us);
        }
    }

    fn records(&self, kind: &str) -> Result<Vec<Value>, ControlError> {
        let state = self.lock();
        state.records.check_kind(kind)?;
        Ok(state.records.all(kind).to_vec())
    }

    fn record(&self, kind: &str, id: &str) -> Result<Value, ControlError> {
        let state = self.lock();
        state.records.check_kind(kind)?;
        let found = state.records.get(kind, id).cloned();
        found.ok_or_else(|| ControlError::Missing("no such record".to_owned()))
    }

    fn edit(
        &self,
        kind: &str,
        id: &str,
        patch: &Value,
        _now_us: i64,
    ) -> Result<Value, ControlError> {
        self.lock().records.edit(kind, id, patch)
    }

    fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, ControlError> {
        self.lock().records.add(kind, record, self.seed, now_us)
    }

    fn remove(&self, kind: &str, id: &str) -> Result<(), ControlError> {
        self.lock().records.remove(kind, id)
    }

    fn clear(&self, kind: &str) -> Result<(), ControlError> {
        self.lock().records.clear(kind)
    }
}

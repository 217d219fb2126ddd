//! WHOOP: API v2 below `/developer`, OAuth below `/oauth/oauth2`, with the data of a fictional member.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::error::ControlError;
use crate::http::{Request, Response};
use crate::limits::{Limit, Limits, or_none};
use crate::oauth::{
    Client, ClientAuth, Consent, Offline, Provider, Reused, Rotation, Rules, TokenKind,
};
use crate::planted::{self, PlantedPerson};
use crate::stand_in::{Build, StandIn, Start};
use crate::webhook::Message;

mod api;
mod body;
mod collection;
mod days;
mod edit;
mod generate;
mod person;
mod planted_member;
mod scores;
mod sports;
mod stream;
mod webhook;
mod zones;

use collection::{Collection, Entry};
use generate::{WhoopParams, generate};
use person::Person;
use zones::Whereabouts;

/// All scopes.
pub const SCOPES: &[&str] = &[
    "read:profile",
    "read:workout",
    "read:sleep",
    "read:recovery",
    "read:cycles",
    "read:body_measurement",
    "offline",
];

/// WHOOP's own limits: 100 a minute and 10,000 a day for an application.
pub const LIMITS: &[Limit] =
    &[Limit { requests: 100, window_s: 60 }, Limit { requests: 10_000, window_s: 86_400 }];

/// While the clock runs, new data is generated at this interval.
const CATCH_UP_US: i64 = 5 * 60 * 1_000_000;

/// How this WHOOP behaves where the real one may differ or change.
#[derive(Clone, Debug)]
pub struct WhoopSettings {
    /// Empty means unlimited.
    pub limits: Vec<Limit>,
    pub expires_in_s: i64,
    /// The error for a used refresh token.
    pub reused: Reused,
    pub consent: Consent,
    /// Registered redirect addresses; empty accepts any.
    pub redirects: Vec<String>,
    /// The newest sleep, recovery, workout and cycle have no score yet.
    pub pending_newest: bool,
    /// Send `Retry-After` with a 429; WHOOP does not document it.
    pub retry_after: bool,
    /// Whether this member has the sleep stream; not every account has it.
    pub stream: bool,
    /// The member is the planted person of the seed, from this day on (days since 1970).
    pub planted_from: Option<i32>,
}

impl Default for WhoopSettings {
    fn default() -> WhoopSettings {
        WhoopSettings {
            limits: LIMITS.to_vec(),
            expires_in_s: 3_600,
            reused: Reused::InvalidGrant,
            consent: Consent::AtOnce,
            redirects: Vec::new(),
            pending_newest: false,
            retry_after: false,
            stream: true,
            planted_from: None,
        }
    }
}

/// The kinds of records a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Cycle,
    Sleep,
    Recovery,
    Workout,
}

impl Kind {
    fn of(name: &str) -> Result<Kind, ControlError> {
        match name {
            "cycle" => Ok(Kind::Cycle),
            "sleep" => Ok(Kind::Sleep),
            "recovery" => Ok(Kind::Recovery),
            "workout" => Ok(Kind::Workout),
            _ => Err(ControlError::Bad(
                "kinds are `cycle`, `sleep`, `recovery` and `workout`".to_owned(),
            )),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Whoop {
    seed: u64,
    first_day: i64,
    person: Person,
    planted: Option<PlantedPerson>,
    provider: Provider,
    limits: Limits,
    state: Mutex<WhoopState>,
}

#[derive(Debug)]
struct WhoopState {
    settings: WhoopSettings,
    as_of_us: i64,
    collections: Collections,
    /// Manual edits: the current record, or none where it was removed.
    by_hand: HashMap<(Kind, String), Option<Entry>>,
}

#[derive(Debug, Default)]
struct Collections {
    cycles: Collection,
    sleeps: Collection,
    recoveries: Collection,
    workouts: Collection,
}

impl Collections {
    fn of(&self, kind: Kind) -> &Collection {
        match kind {
            Kind::Cycle => &self.cycles,
            Kind::Sleep => &self.sleeps,
            Kind::Recovery => &self.recoveries,
            Kind::Workout => &self.workouts,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Collection {
        match kind {
            Kind::Cycle => &mut self.cycles,
            Kind::Sleep => &mut self.sleeps,
            Kind::Recovery => &mut self.recoveries,
            Kind::Workout => &mut self.workouts,
        }
    }
}

impl Whoop {
    fn new(start: Start<'_>, settings: WhoopSettings) -> Whoop {
        let Start { seed, days, now_us, .. } = start;
        let whereabouts = Whereabouts::of(seed, start.offset_min);
        let client = Client {
            id: "sandbox-whoop-client".to_owned(),
            secret: "sandbox-whoop-secret".to_owned(),
            redirects: settings.redirects.clone(),
            scopes: SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
        };
        let rules = Rules {
            client_auth: ClientAuth::Body,
            rotation: Rotation::Strict,
            reused: settings.reused,
            consent: settings.consent,
            offline: Offline::Scope("offline"),
            state_chars_min: 8,
            expires_in_s: settings.expires_in_s,
            ..Rules::default()
        };
        let collections = Collections::default();
        let state = WhoopState { settings, as_of_us: now_us, collections, by_hand: HashMap::new() };
        let length = i32::try_from(days).unwrap_or(i32::MAX);
        let planted = state.settings.planted_from.map(|first| planted::person(seed, first, length));
        let whoop = Whoop {
            seed,
            first_day: WhoopParams::first_day(whereabouts, days, now_us / 1_000),
            person: Person::of(seed).living(whereabouts),
            planted,
            provider: Provider::new(seed, client, rules, "/oauth/oauth2/auth"),
            limits: Limits::new(&state.settings.limits),
            state: Mutex::new(state),
        };
        whoop.regenerate(&mut whoop.lock(), now_us);
        whoop
    }

    fn up_to(&self, now_us: i64) -> MutexGuard<'_, WhoopState> {
        let mut state = self.lock();
        if now_us.saturating_sub(state.as_of_us) >= CATCH_UP_US {
            self.regenerate(&mut state, now_us);
        }
        state
    }

    fn regenerate(&self, state: &mut WhoopState, now_us: i64) {
        let params = WhoopParams {
            seed: self.seed,
            first_day: self.first_day,
            now_ms: now_us.div_euclid(1_000),
            pending_newest: state.settings.pending_newest,
        };
        let generate = match &self.planted {
            Some(planted) => planted_member::records(planted, params.now_ms),
            None => generate(&self.person, params),
        };
        state.as_of_us = now_us;
        state.collections = Collections {
            cycles: state.with_edits(Kind::Cycle, generate.cycles),
            sleeps: state.with_edits(Kind::Sleep, generate.sleeps),
            recoveries: state.with_edits(Kind::Recovery, generate.recoveries),
            workouts: state.with_edits(Kind::Workout, generate.workouts),
        };
    }

    /// Changes `limits`, `pending_newest`, `retry_after` or `stream` at run time.
    fn change_settings(&self, settings: &Value) -> Result<(), ControlError> {
        let mut state = self.lock();
        for (name, value) in settings.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("limits", limits) => {
                    state.settings.limits = read_limits(limits)?;
                    self.limits.set(&state.settings.limits);
                }
                ("pending_newest", Value::Bool(value)) => state.settings.pending_newest = *value,
                ("retry_after", Value::Bool(value)) => state.settings.retry_after = *value,
                ("stream", Value::Bool(value)) => state.settings.stream = *value,
                _ => {
                    return Err(ControlError::Bad(format!(
                        "no setting `{name}` with such a value"
                    )));
                }
            }
        }
        let as_of_us = state.as_of_us;
        self.regenerate(&mut state, as_of_us);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, WhoopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Build for WhoopSettings {
    fn unlimit(&mut self) {
        self.limits.clear();
    }

    fn build(self, start: Start<'_>) -> Box<dyn StandIn> {
        Box::new(Whoop::new(start, self))
    }
}

impl StandIn for Whoop {
    fn name(&self) -> &'static str {
        "whoop"
    }

    fn answer(&self, request: &Request, now_us: i64) -> Response {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "POST", "/oauth/oauth2/auth") => self.provider.authorise(request, now_us),
            ("POST", "/oauth/oauth2/token") => self.provider.token(request, now_us),
            _ => api::answer(self, request, now_us),
        }
    }

    fn problem(&self, _request: &Request, status: u16, message: &str) -> Response {
        Response::problem(status, message)
    }

    fn repeat_page(&self, request: &Request, body: &mut Value) {
        if let (Some(body), Some(again)) = (body.as_object_mut(), request.value("nextToken")) {
            body.insert("next_token".to_owned(), Value::from(again));
        }
    }

    fn provider(&self) -> Option<&Provider> {
        Some(&self.provider)
    }

    fn expire(&self, kind: TokenKind) {
        self.provider.expire(kind);
    }

    fn set(&self, settings: &Value) -> Result<(), ControlError> {
        self.change_settings(settings)
    }

    fn catch_up(&self, now_us: i64) {
        let mut state = self.lock();
        if state.as_of_us != now_us {
            self.regenerate(&mut state, now_us);
        }
    }

    fn records(&self, kind: &str) -> Result<Vec<Value>, ControlError> {
        edit::records(self, kind)
    }

    fn record(&self, kind: &str, id: &str) -> Result<Value, ControlError> {
        edit::record(self, kind, id)
    }

    fn edit(
        &self,
        kind: &str,
        id: &str,
        patch: &Value,
        now_us: i64,
    ) -> Result<Value, ControlError> {
        edit::edit(self, kind, id, patch, now_us)
    }

    fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, ControlError> {
        edit::add(self, kind, record, now_us)
    }

    fn remove(&self, kind: &str, id: &str) -> Result<(), ControlError> {
        edit::remove(self, kind, id)
    }

    fn clear(&self, kind: &str) -> Result<(), ControlError> {
        edit::clear(self, kind)
    }

    fn webhook(&self, about: &Value, now_us: i64) -> Result<Message, ControlError> {
        webhook::message(self, about, now_us)
    }
}

impl WhoopState {
    /// The generated records with the manual edits applied.
    fn with_edits(&self, kind: Kind, mut made: Vec<Entry>) -> Collection {
        let of_kind = || self.by_hand.iter().filter(|((of, _), _)| *of == kind);
        if of_kind().next().is_some() {
            made.retain(|entry| !self.by_hand.contains_key(&(kind, entry.id.clone())));
            made.extend(of_kind().filter_map(|(_, entry)| entry.clone()));
        }
        Collection::new(made)
    }
}

/// `null` or `[]` for none, or `[[100, 60], [10000, 86400]]`: requests and seconds.
fn read_limits(value: &Value) -> Result<Vec<Limit>, ControlError> {
    or_none(value)
        .map_err(|_| ControlError::Bad("`limits` is null or [[requests, seconds], ..]".to_owned()))
}

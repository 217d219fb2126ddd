//! WHOOP: API v2 below `/developer`, OAuth below `/oauth/oauth2`, from the days of a made-up member.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::control::Trouble;
use crate::http::{Asked, Reply};
use crate::limits::{Limit, Limits, or_none};
use crate::oauth::{
    Client, ClientAuth, Consent, Offline, Provider, Reused, Rotation, Rules, Which,
};

mod api;
mod days;
mod edit;
mod figures;
mod generate;
mod person;
mod shape;
mod shelf;
mod sports;
mod stream;
mod webhook;
mod zones;

use generate::{Ask, world};
use person::Person;
use shelf::{Entry, Shelf};

/// Everything an application can be allowed to ask for.
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

/// While time runs, the data follows it in steps.
const CATCH_UP_US: i64 = 5 * 60 * 1_000_000;

/// How this WHOOP behaves where the real one may differ or change.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Empty means unlimited.
    pub limits: Vec<Limit>,
    pub expires_in_s: i64,
    /// How a used refresh token is answered.
    pub reused: Reused,
    pub consent: Consent,
    /// Registered redirect addresses; empty takes any.
    pub redirects: Vec<String>,
    /// The newest night, recovery, workout and cycle wait for their score.
    pub pending_newest: bool,
    /// Say `Retry-After` with a 429 too; WHOOP does not document it.
    pub retry_after: bool,
    /// Whether the sleep stream is there for this member; not every account has it.
    pub stream: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: LIMITS.to_vec(),
            expires_in_s: 3_600,
            reused: Reused::InvalidGrant,
            consent: Consent::AtOnce,
            redirects: Vec::new(),
            pending_newest: false,
            retry_after: false,
            stream: true,
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
    fn of(name: &str) -> Result<Kind, Trouble> {
        match name {
            "cycle" => Ok(Kind::Cycle),
            "sleep" => Ok(Kind::Sleep),
            "recovery" => Ok(Kind::Recovery),
            "workout" => Ok(Kind::Workout),
            _ => {
                Err(Trouble::Bad("kinds are `cycle`, `sleep`, `recovery` and `workout`".to_owned()))
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Whoop {
    seed: u64,
    first_day: i64,
    person: Person,
    provider: Provider,
    limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    as_of_us: i64,
    shelves: Shelves,
    /// What was changed by hand: the record that stands now, or none where it was removed.
    by_hand: HashMap<(Kind, String), Option<Entry>>,
}

#[derive(Debug, Default)]
struct Shelves {
    cycles: Shelf,
    sleeps: Shelf,
    recoveries: Shelf,
    workouts: Shelf,
}

impl Shelves {
    fn of(&self, kind: Kind) -> &Shelf {
        match kind {
            Kind::Cycle => &self.cycles,
            Kind::Sleep => &self.sleeps,
            Kind::Recovery => &self.recoveries,
            Kind::Workout => &self.workouts,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Shelf {
        match kind {
            Kind::Cycle => &mut self.cycles,
            Kind::Sleep => &mut self.sleeps,
            Kind::Recovery => &mut self.recoveries,
            Kind::Workout => &mut self.workouts,
        }
    }
}

impl Whoop {
    pub(crate) fn new(seed: u64, days: u32, now_us: i64, settings: Settings) -> Whoop {
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
        let shelves = Shelves::default();
        let inner = Inner { settings, as_of_us: now_us, shelves, by_hand: HashMap::new() };
        let whoop = Whoop {
            seed,
            first_day: Ask::first_day(seed, days, now_us / 1_000),
            person: Person::of(seed),
            provider: Provider::new(seed, client, rules, "/oauth/oauth2/auth"),
            limits: Limits::new(&inner.settings.limits),
            inner: Mutex::new(inner),
        };
        whoop.make(&mut whoop.lock(), now_us);
        whoop
    }

    pub(crate) fn answer(&self, asked: &Asked, now_us: i64) -> Reply {
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET" | "POST", "/oauth/oauth2/auth") => self.provider.authorise(asked, now_us),
            ("POST", "/oauth/oauth2/token") => self.provider.token(asked, now_us),
            _ => api::answer(self, asked, now_us),
        }
    }

    /// Brings the records up to a moment: nights that are over by then, scores that came.
    pub(crate) fn catch_up(&self, now_us: i64) {
        let mut inner = self.lock();
        if inner.as_of_us != now_us {
            self.make(&mut inner, now_us);
        }
    }

    fn up_to(&self, now_us: i64) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        if now_us.saturating_sub(inner.as_of_us) >= CATCH_UP_US {
            self.make(&mut inner, now_us);
        }
        inner
    }

    fn make(&self, inner: &mut Inner, now_us: i64) {
        let ask = Ask {
            seed: self.seed,
            first_day: self.first_day,
            now_ms: now_us.div_euclid(1_000),
            pending_newest: inner.settings.pending_newest,
        };
        let world = world(&self.person, ask);
        inner.as_of_us = now_us;
        inner.shelves = Shelves {
            cycles: inner.with_hand(Kind::Cycle, world.cycles),
            sleeps: inner.with_hand(Kind::Sleep, world.sleeps),
            recoveries: inner.with_hand(Kind::Recovery, world.recoveries),
            workouts: inner.with_hand(Kind::Workout, world.workouts),
        };
    }

    /// Changes `limits`, `pending_newest`, `retry_after` or `stream` while it runs.
    pub(crate) fn set(&self, settings: &Value) -> Result<(), Trouble> {
        let mut inner = self.lock();
        for (name, value) in settings.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                ("limits", limits) => {
                    inner.settings.limits = read_limits(limits)?;
                    self.limits.set(&inner.settings.limits);
                }
                ("pending_newest", Value::Bool(value)) => inner.settings.pending_newest = *value,
                ("retry_after", Value::Bool(value)) => inner.settings.retry_after = *value,
                ("stream", Value::Bool(value)) => inner.settings.stream = *value,
                _ => return Err(Trouble::Bad(format!("no setting `{name}` with such a value"))),
            }
        }
        let as_of_us = inner.as_of_us;
        self.make(&mut inner, as_of_us);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every service is asked in the same way.
#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "other services have no provider, or need themselves for an answer"
)]
impl Whoop {
    pub(crate) fn name(&self) -> &'static str {
        "whoop"
    }

    pub(crate) fn provider(&self) -> Option<&Provider> {
        Some(&self.provider)
    }

    pub(crate) fn expire(&self, which: Which) {
        self.provider.expire(which);
    }

    pub(crate) fn problem(&self, _asked: &Asked, status: u16, words: &str) -> Reply {
        Reply::problem(status, words)
    }

    /// The answer with its next page turned into the page that was asked for.
    pub(crate) fn repeat(&self, asked: &Asked, body: &mut Value) {
        if let (Some(body), Some(again)) = (body.as_object_mut(), asked.value("nextToken")) {
            body.insert("next_token".to_owned(), Value::from(again));
        }
    }

    pub(crate) fn hosts(&self) -> Value {
        Value::Null
    }

    pub(crate) fn values(&self) -> Value {
        Value::Null
    }
}

impl Inner {
    /// What was made, with what was changed by hand put over it.
    fn with_hand(&self, kind: Kind, mut made: Vec<Entry>) -> Shelf {
        let of_kind = || self.by_hand.iter().filter(|((of, _), _)| *of == kind);
        if of_kind().next().is_some() {
            made.retain(|entry| !self.by_hand.contains_key(&(kind, entry.id.clone())));
            made.extend(of_kind().filter_map(|(_, entry)| entry.clone()));
        }
        Shelf::new(made)
    }
}

/// `null` or `[]` for none, or `[[100, 60], [10000, 86400]]`: requests and seconds.
fn read_limits(value: &Value) -> Result<Vec<Limit>, Trouble> {
    or_none(value)
        .map_err(|_| Trouble::Bad("`limits` is null or [[requests, seconds], ..]".to_owned()))
}

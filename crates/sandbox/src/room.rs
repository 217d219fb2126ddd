//! One stand-in of a personal service: its records, settings, limits and sign-in, kept the same way
//! for all of them. What is a service's own is in its [`Stand`].

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::chance::Chance;
use crate::control::Trouble;
use crate::http::{Asked, Reply};
use crate::limits::{Limit, Limits, Standing};
use crate::moment::DAY_MS;
use crate::oauth::{Provider, Which};
use crate::shelves::{Kind, Shelves, World, merge};
use crate::webhook::Message;

/// While time runs, the data follows it in steps.
const CATCH_UP_US: i64 = 5 * 60 * 1_000_000;

/// A service, by what can be set about it.
pub(crate) trait Stand: Clone + Debug + Serialize + DeserializeOwned {
    /// What it remembers beside its records, such as a quota that is used up.
    type Books: Debug + Default;

    const NAME: &'static str;
    const KINDS: &'static [Kind];
    /// The hosts of the service and the prefixes that stand for them.
    const HOSTS: &'static [(&'static str, &'static str)];

    fn limits(&self) -> &[Limit];
    /// How one signs in, where that is OAuth.
    fn provider(seed: u64, url: &str) -> Option<Provider>;
    /// What the owner brings beside that, by the names of environment variables.
    fn values(room: &Room<Self>) -> Value;
    fn world(&self, ask: Ask) -> World;
    fn answer(room: &Room<Self>, asked: &Asked, now_us: i64) -> Reply;
    /// The service's own form of an error.
    fn problem(asked: &Asked, status: u16, words: &str) -> Reply;
    /// Turns the next page of an answer into the page that was asked for.
    fn repeat(asked: &Asked, body: &mut Value);
}

/// Which world to make. The same seed and day give the same records, whenever they are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) seed: u64,
    /// Days since 1970.
    pub(crate) first_day: i64,
    pub(crate) now_ms: i64,
}

impl Ask {
    pub(crate) fn chance(self, subject: &str, number: i64) -> Chance {
        Chance::of(self.seed, subject, number)
    }

    pub(crate) fn last_day(self) -> i64 {
        self.now_ms.div_euclid(DAY_MS)
    }

    pub(crate) fn days(self) -> std::ops::RangeInclusive<i64> {
        self.first_day..=self.last_day()
    }
}

#[derive(Debug)]
pub(crate) struct Room<S: Stand> {
    pub(crate) seed: u64,
    pub(crate) url: String,
    first_day: i64,
    provider: Option<Provider>,
    limits: Limits,
    /// How often keys and cookies were made void.
    voided: AtomicI64,
    inner: Mutex<Inner<S>>,
}

#[derive(Debug)]
pub(crate) struct Inner<S: Stand> {
    pub(crate) settings: S,
    pub(crate) shelves: Shelves,
    pub(crate) books: S::Books,
    as_of_us: i64,
}

impl<S: Stand> Room<S> {
    pub(crate) fn new(seed: u64, days: u32, now_us: i64, url: &str, settings: S) -> Room<S> {
        let today = now_us.div_euclid(DAY_MS * 1_000);
        let limits = Limits::new(settings.limits());
        let shelves = Shelves::new(S::KINDS);
        let inner = Inner { settings, shelves, books: S::Books::default(), as_of_us: now_us };
        let room = Room {
            seed,
            url: url.to_owned(),
            first_day: today - i64::from(days.max(1)) + 1,
            provider: S::provider(seed, url),
            limits,
            voided: AtomicI64::new(0),
            inner: Mutex::new(inner),
        };
        room.make(&mut room.lock(), now_us);
        room
    }

    /// The records and settings as they are at a moment.
    pub(crate) fn open(&self, now_us: i64) -> MutexGuard<'_, Inner<S>> {
        let mut inner = self.lock();
        if now_us.saturating_sub(inner.as_of_us) >= CATCH_UP_US {
            self.make(&mut inner, now_us);
        }
        inner
    }

    pub(crate) fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    pub(crate) fn take(&self, now_us: i64) -> Option<Standing> {
        self.limits.take(now_us)
    }

    /// A secret that the owner was given, until it is made void.
    pub(crate) fn secret(&self, name: &str, length: usize) -> String {
        Chance::of(self.seed, name, self.voided.load(Ordering::SeqCst)).word(length)
    }

    /// The address of a path of one of the service's hosts.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn make(&self, inner: &mut Inner<S>, now_us: i64) {
        inner.as_of_us = now_us;
        let Room { seed, first_day, .. } = *self;
        let ask = Ask { seed, first_day, now_ms: now_us.div_euclid(1_000) };
        let world = inner.settings.world(ask);
        inner.shelves.fill(world);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every service is asked in the same way.
#[expect(
    clippy::unused_self,
    reason = "some services need the room for an answer, and some do not"
)]
impl<S: Stand> Room<S> {
    pub(crate) fn name(&self) -> &'static str {
        S::NAME
    }

    pub(crate) fn answer(&self, asked: &Asked, now_us: i64) -> Reply {
        S::answer(self, asked, now_us)
    }

    pub(crate) fn problem(&self, asked: &Asked, status: u16, words: &str) -> Reply {
        S::problem(asked, status, words)
    }

    pub(crate) fn repeat(&self, asked: &Asked, body: &mut Value) {
        S::repeat(asked, body);
    }

    pub(crate) fn hosts(&self) -> Value {
        let host =
            |(host, prefix): &(&str, &str)| ((*host).to_owned(), json!(self.address(prefix)));
        Value::Object(S::HOSTS.iter().map(host).collect())
    }

    pub(crate) fn values(&self) -> Value {
        S::values(self)
    }

    pub(crate) fn expire(&self, which: Which) {
        match &self.provider {
            Some(provider) => provider.expire(which),
            None => drop(self.voided.fetch_add(1, Ordering::SeqCst)),
        }
    }

    /// Merges `patch` into the settings; names and values are those of the service.
    pub(crate) fn set(&self, patch: &Value) -> Result<(), Trouble> {
        let mut inner = self.lock();
        let bad = |error: serde_json::Error| Trouble::Bad(format!("no such setting: {error}"));
        let mut settings = match serde_json::to_value(&inner.settings).map_err(bad)? {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        merge(&mut settings, patch.as_object().unwrap_or(&Map::new()));
        inner.settings = serde_json::from_value(Value::Object(settings)).map_err(bad)?;
        if patch.get("limits").is_some() {
            self.limits.set(inner.settings.limits());
        }
        let as_of_us = inner.as_of_us;
        self.make(&mut inner, as_of_us);
        Ok(())
    }

    pub(crate) fn catch_up(&self, now_us: i64) {
        let mut inner = self.lock();
        if inner.as_of_us != now_us {
            self.make(&mut inner, now_us);
        }
    }

    pub(crate) fn records(&self, kind: &str) -> Result<Vec<Value>, Trouble> {
        let inner = self.lock();
        inner.shelves.known(kind)?;
        Ok(inner.shelves.all(kind).to_vec())
    }

    pub(crate) fn record(&self, kind: &str, id: &str) -> Result<Value, Trouble> {
        let inner = self.lock();
        inner.shelves.known(kind)?;
        let found = inner.shelves.one(kind, id).cloned();
        found.ok_or_else(|| Trouble::Missing("no such record".to_owned()))
    }

    pub(crate) fn edit(
        &self,
        kind: &str,
        id: &str,
        patch: &Value,
        _now_us: i64,
    ) -> Result<Value, Trouble> {
        self.lock().shelves.edit(kind, id, patch)
    }

    pub(crate) fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, Trouble> {
        self.lock().shelves.add(kind, record, self.seed, now_us)
    }

    pub(crate) fn remove(&self, kind: &str, id: &str) -> Result<(), Trouble> {
        self.lock().shelves.remove(kind, id)
    }

    pub(crate) fn clear(&self, kind: &str) -> Result<(), Trouble> {
        self.lock().shelves.clear(kind)
    }

    pub(crate) fn webhook(&self, _about: &Value, _now_us: i64) -> Result<Message, Trouble> {
        Err(Trouble::Bad(format!("{} pushes no messages", S::NAME)))
    }
}

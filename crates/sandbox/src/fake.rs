//! The services that can be stood in for: a closed set, one variant each.

use serde_json::Value;

use crate::control::Trouble;
use crate::http::{Asked, Reply};
use crate::oauth::{Provider, Which};
use crate::room::Room;
use crate::webhook::Message;
use crate::whoop::Whoop;
use crate::{bilibili, reddit, spotify, steam, youtube};

#[derive(Debug)]
pub(crate) enum Fake {
    Whoop(Box<Whoop>),
    Spotify(Box<Room<spotify::Settings>>),
    Steam(Box<Room<steam::Settings>>),
    Reddit(Box<Room<reddit::Settings>>),
    Youtube(Box<Room<youtube::Settings>>),
    Bilibili(Box<Room<bilibili::Settings>>),
}

/// The same words for every service.
macro_rules! each {
    ($fake:expr, $one:ident => $does:expr) => {
        match $fake {
            Fake::Whoop($one) => $does,
            Fake::Spotify($one) => $does,
            Fake::Steam($one) => $does,
            Fake::Reddit($one) => $does,
            Fake::Youtube($one) => $does,
            Fake::Bilibili($one) => $does,
        }
    };
}

impl Fake {
    pub(crate) fn answer(&self, asked: &Asked, now_us: i64) -> Reply {
        each!(self, one => one.answer(asked, now_us))
    }

    /// An error in the form the service gives it.
    pub(crate) fn problem(&self, asked: &Asked, status: u16, words: &str) -> Reply {
        each!(self, one => one.problem(asked, status, words))
    }

    /// The answer with its next page turned into the page that was asked for.
    pub(crate) fn repeat_token(&self, asked: &Asked, reply: Reply) -> Reply {
        let Ok(mut body) = serde_json::from_slice::<Value>(&reply.body) else { return reply };
        each!(self, one => one.repeat(asked, &mut body));
        Reply { body: body.to_string().into(), ..reply }
    }

    pub(crate) fn name(&self) -> &'static str {
        each!(self, one => one.name())
    }

    /// The hosts of the service and where they are here.
    pub(crate) fn hosts(&self) -> Value {
        each!(self, one => one.hosts())
    }

    /// What the owner brings beside a sign-in: keys and cookies.
    pub(crate) fn values(&self) -> Value {
        each!(self, one => one.values())
    }

    /// None where one does not sign in by OAuth.
    pub(crate) fn provider(&self) -> Option<&Provider> {
        each!(self, one => one.provider())
    }

    /// A fresh sign-in of the owner, for all scopes or for some; or the keys and cookies.
    pub(crate) fn grant(&self, scopes: Option<Vec<String>>, now_us: i64) -> Value {
        let Some(provider) = self.provider() else { return self.values() };
        provider.grant(scopes.unwrap_or_else(|| provider.client().scopes.clone()), now_us)
    }

    pub(crate) fn expire(&self, which: Which) {
        each!(self, one => one.expire(which));
    }

    /// Changes what only this service has; the names and values are its own.
    pub(crate) fn set(&self, settings: &Value) -> Result<(), Trouble> {
        each!(self, one => one.set(settings))
    }

    /// Brings the data up to a moment, after the clock was moved.
    pub(crate) fn catch_up(&self, now_us: i64) {
        each!(self, one => one.catch_up(now_us));
    }

    pub(crate) fn records(&self, kind: &str) -> Result<Vec<Value>, Trouble> {
        each!(self, one => one.records(kind))
    }

    pub(crate) fn record(&self, kind: &str, id: &str) -> Result<Value, Trouble> {
        each!(self, one => one.record(kind, id))
    }

    pub(crate) fn edit(
        &self,
        kind: &str,
        id: &str,
        patch: &Value,
        now_us: i64,
    ) -> Result<Value, Trouble> {
        each!(self, one => one.edit(kind, id, patch, now_us))
    }

    pub(crate) fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, Trouble> {
        each!(self, one => one.add(kind, record, now_us))
    }

    pub(crate) fn remove(&self, kind: &str, id: &str) -> Result<(), Trouble> {
        each!(self, one => one.remove(kind, id))
    }

    pub(crate) fn clear(&self, kind: &str) -> Result<(), Trouble> {
        each!(self, one => one.clear(kind))
    }

    /// A message that the service would push.
    pub(crate) fn webhook(&self, about: &Value, now_us: i64) -> Result<Message, Trouble> {
        each!(self, one => one.webhook(about, now_us))
    }
}

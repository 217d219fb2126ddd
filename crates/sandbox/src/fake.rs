//! The services that can be stood in for: a closed set, one variant each.

use serde_json::Value;

use crate::control::Trouble;
use crate::http::{Asked, Reply};
use crate::oauth::Provider;
use crate::webhook::Message;
use crate::whoop::Whoop;

#[derive(Debug)]
pub(crate) enum Fake {
    Whoop(Box<Whoop>),
}

impl Fake {
    pub(crate) fn answer(&self, asked: &Asked, now_us: i64) -> Reply {
        match self {
            Fake::Whoop(whoop) => whoop.answer(asked, now_us),
        }
    }

    /// The answer with its next page turned into the page that was asked for.
    pub(crate) fn repeat_token(&self, asked: &Asked, reply: Reply) -> Reply {
        let (parameter, field) = match self {
            Fake::Whoop(_) => ("nextToken", "next_token"),
        };
        let Ok(Value::Object(mut body)) = serde_json::from_slice(&reply.body) else { return reply };
        let again = asked.value(parameter).map(str::to_owned);
        let next = body.get(field).and_then(Value::as_str).map(str::to_owned);
        let Some(token) = again.or(next) else { return reply };
        body.insert(field.to_owned(), Value::String(token));
        Reply { body: Value::Object(body).to_string().into(), ..reply }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Fake::Whoop(_) => "whoop",
        }
    }

    pub(crate) fn provider(&self) -> &Provider {
        match self {
            Fake::Whoop(whoop) => whoop.provider(),
        }
    }

    /// Every scope a fresh token of the owner has.
    pub(crate) fn scopes(&self) -> Vec<String> {
        self.provider().client().scopes.clone()
    }

    /// Changes what only this service has; the names and values are its own.
    pub(crate) fn set(&self, settings: &Value) -> Result<(), Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.set(settings),
        }
    }

    /// Brings the data up to a moment, after the clock was moved.
    pub(crate) fn catch_up(&self, now_us: i64) {
        match self {
            Fake::Whoop(whoop) => whoop.catch_up(now_us),
        }
    }

    pub(crate) fn records(&self, kind: &str) -> Result<Vec<Value>, Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.records(kind),
        }
    }

    pub(crate) fn record(&self, kind: &str, id: &str) -> Result<Value, Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.record(kind, id),
        }
    }

    pub(crate) fn edit(
        &self,
        kind: &str,
        id: &str,
        patch: &Value,
        now_us: i64,
    ) -> Result<Value, Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.edit(kind, id, patch, now_us),
        }
    }

    pub(crate) fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.add(kind, record, now_us),
        }
    }

    pub(crate) fn remove(&self, kind: &str, id: &str) -> Result<(), Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.remove(kind, id),
        }
    }

    /// A message that the service would push.
    pub(crate) fn webhook(&self, about: &Value, now_us: i64) -> Result<Message, Trouble> {
        match self {
            Fake::Whoop(whoop) => whoop.webhook(about, now_us),
        }
    }
}

//! The interface between the plumbing and a service: the HTTP server and the control interface see
//! every service as a [`StandIn`] and never name one.

use std::fmt::Debug;

use serde_json::Value;

use crate::error::ControlError;
use crate::http::{Request, Response};
use crate::oauth::{Provider, TokenKind};
use crate::webhook::Message;

/// What a service generates its data from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) seed: u64,
    pub(crate) days: u32,
    pub(crate) now_us: i64,
    /// See [`crate::Config::offset_min`].
    pub(crate) offset_min: Option<i64>,
    /// The origin of the sandbox.
    pub(crate) url: &'a str,
}

/// The settings of a service, from which it is built.
pub(crate) trait Build {
    /// Removes rate limits and quotas.
    fn unlimit(&mut self);

    fn build(self, start: Start<'_>) -> Box<dyn StandIn>;
}

/// A simulated service.
pub(crate) trait StandIn: Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn answer(&self, request: &Request, now_us: i64) -> Response;

    /// An error in the format of the service.
    fn problem(&self, request: &Request, status: u16, message: &str) -> Response;

    /// Replaces the link to the next page with the page that was requested.
    fn repeat_page(&self, request: &Request, body: &mut Value);

    /// The hosts of the service, each with its address in the sandbox.
    fn hosts(&self) -> Value {
        Value::Null
    }

    /// Keys and cookies that the owner supplies, by the names of environment variables.
    fn values(&self) -> Value {
        Value::Null
    }

    /// None for a service without OAuth.
    fn provider(&self) -> Option<&Provider>;

    /// Invalidates tokens, or keys and cookies where there are no tokens.
    fn expire(&self, kind: TokenKind);

    /// Changes the service's own settings.
    fn set(&self, settings: &Value) -> Result<(), ControlError>;

    /// Generates the data up to `now_us`, after the clock was moved.
    fn catch_up(&self, now_us: i64);

    fn records(&self, kind: &str) -> Result<Vec<Value>, ControlError>;

    fn record(&self, kind: &str, id: &str) -> Result<Value, ControlError>;

    fn edit(&self, kind: &str, id: &str, patch: &Value, now_us: i64)
    -> Result<Value, ControlError>;

    fn add(&self, kind: &str, record: &Value, now_us: i64) -> Result<Value, ControlError>;

    fn remove(&self, kind: &str, id: &str) -> Result<(), ControlError>;

    fn clear(&self, kind: &str) -> Result<(), ControlError>;

    /// A message that the service would push.
    fn webhook(&self, _about: &Value, _now_us: i64) -> Result<Message, ControlError> {
        Err(ControlError::Bad(format!("{} sends no webhooks", self.name())))
    }
}

impl dyn StandIn {
    /// The response with its next page replaced by the page that was requested.
    pub(crate) fn repeat_token(&self, request: &Request, response: Response) -> Response {
        let Ok(mut body) = serde_json::from_slice::<Value>(&response.body) else { return response };
        self.repeat_page(request, &mut body);
        Response { body: body.to_string().into(), ..response }
    }

    /// A token response for the owner, for the given scopes or all; without OAuth, the keys and
    /// cookies.
    pub(crate) fn grant(&self, scopes: Option<Vec<String>>, now_us: i64) -> Value {
        let Some(provider) = self.provider() else { return self.values() };
        provider.grant(scopes.unwrap_or_else(|| provider.client().scopes.clone()), now_us)
    }
}

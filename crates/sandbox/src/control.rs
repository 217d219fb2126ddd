//! Controls a running sandbox: counters, faults, tokens, clock and records, as Rust methods and as
//! JSON below `/_sandbox`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::counters::Counters;
use crate::error::ControlError;
use crate::faults::Fault;
use crate::http::{Request, Response};
use crate::oauth::TokenKind;
use crate::state::State;
use crate::webhook;

/// The path prefix of the control endpoints.
pub const PREFIX: &str = "/_sandbox";

/// Controls a running sandbox. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Control(Arc<State>);

impl Control {
    pub(crate) fn new(state: Arc<State>) -> Control {
        Control(state)
    }

    pub fn counters(&self) -> Counters {
        self.0.counters.read()
    }

    pub fn reset_counters(&self) {
        self.0.counters.reset();
    }

    pub fn fault(&self, fault: Fault) {
        self.0.faults.add(fault);
    }

    pub fn clear_faults(&self) {
        self.0.faults.clear();
    }

    /// The faults that can still occur.
    pub fn faults(&self) -> Vec<Fault> {
        self.0.faults.left()
    }

    pub fn now_us(&self) -> i64 {
        self.0.clock.now_us()
    }

    /// Advances the clock and generates the records up to the new time.
    pub fn advance(&self, us: u64) {
        self.0.clock.advance(us);
        self.0.service.catch_up(self.0.clock.now_us());
    }

    /// A new token response for the owner, as from the token endpoint; without OAuth, the key or
    /// cookies.
    pub fn tokens(&self) -> Value {
        self.0.service.grant(None, self.now_us())
    }

    /// A token response with only these scopes.
    pub fn tokens_for(&self, scopes: &[&str]) -> Value {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        self.0.service.grant(Some(scopes), self.now_us())
    }

    /// Invalidates tokens.
    pub fn expire(&self, kind: TokenKind) {
        self.0.service.expire(kind);
    }

    /// Changes settings at run time: those of the provider (`expires_in_s`, `consent`, `reused`) and
    /// those of the service.
    pub fn set(&self, settings: &Value) -> Result<(), ControlError> {
        match self.0.service.provider() {
            Some(provider) => self.0.service.set(&provider.set(settings)?),
            None => self.0.service.set(settings),
        }
    }

    /// The owner's answer to a device code: true allows the sign-in.
    pub fn decide_device(&self, user_code: &str, let_in: bool) -> Result<(), ControlError> {
        let provider = self.0.service.provider();
        provider.ok_or_else(no_oauth)?.decide_device(user_code, let_in)
    }

    /// All records of a kind, oldest first.
    pub fn records(&self, kind: &str) -> Result<Vec<Value>, ControlError> {
        self.0.service.records(kind)
    }

    pub fn record(&self, kind: &str, id: &str) -> Result<Value, ControlError> {
        self.0.service.record(kind, id)
    }

    /// Merges `patch` into a record. `updated_at` becomes now unless the patch names it.
    pub fn edit(&self, kind: &str, id: &str, patch: &Value) -> Result<Value, ControlError> {
        self.0.service.edit(kind, id, patch, self.now_us())
    }

    /// Adds a record; missing fields are copied from the newest of its kind.
    pub fn add(&self, kind: &str, record: &Value) -> Result<Value, ControlError> {
        self.0.service.add(kind, record, self.now_us())
    }

    pub fn remove(&self, kind: &str, id: &str) -> Result<(), ControlError> {
        self.0.service.remove(kind, id)
    }

    /// Removes all records of a kind.
    pub fn clear(&self, kind: &str) -> Result<(), ControlError> {
        self.0.service.clear(kind)
    }

    /// Sends a signed message to `url` and returns the response status.
    pub async fn webhook(&self, url: &str, about: &Value) -> Result<u16, ControlError> {
        let message = self.0.service.webhook(about, self.now_us())?;
        webhook::post(url, message).await
    }

    /// What a program needs to use this sandbox: addresses, client and tokens.
    pub fn ready(&self) -> Value {
        let service = &self.0.service;
        let mut ready = Map::new();
        let mut add = |name: &str, value: Value| {
            if !value.is_null() {
                ready.insert(name.to_owned(), value);
            }
        };
        add("service", json!(service.name()));
        add("url", json!(self.0.url));
        add("control", json!(format!("{}{PREFIX}", self.0.url)));
        add("hosts", service.hosts());
        add("values", service.values());
        if let Some(provider) = service.provider() {
            add("client_id", json!(provider.client().id));
            add("client_secret", json!(provider.client().secret));
            add("tokens", self.tokens());
        }
        Value::Object(ready)
    }
}

fn no_oauth() -> ControlError {
    ControlError::Bad("this service has no OAuth sign-in".to_owned())
}

/// The control endpoints: method, path and help text.
const HELP: &[(&str, &str, &str)] = &[
    ("GET", "/", "this list"),
    ("GET", "/ready", "addresses, client and a new token response"),
    ("GET", "/counters", "requests so far"),
    ("DELETE", "/counters", "reset to zero"),
    ("GET", "/faults", "faults that can still occur"),
    ("POST", "/faults", "add one fault or an array of them"),
    ("DELETE", "/faults", "remove all faults"),
    ("GET", "/clock", "the sandbox time"),
    ("POST", "/clock", "advance it: {\"advance_s\": n}"),
    ("POST", "/tokens", "a new token response: {\"scopes\": [..]} or {} for all"),
    ("POST", "/tokens/expire", "{\"which\": \"access\" | \"refresh\" | \"all\"}"),
    ("POST", "/device", "{\"user_code\": .., \"let_in\": true | false}"),
    ("POST", "/settings", "change settings at run time"),
    ("GET", "/records/KIND", "all records of a kind, oldest first"),
    ("POST", "/records/KIND", "add a record"),
    ("DELETE", "/records/KIND", "remove all records of a kind"),
    ("GET", "/records/KIND/ID", "one record"),
    ("PATCH", "/records/KIND/ID", "merge into a record"),
    ("DELETE", "/records/KIND/ID", "remove a record"),
    ("POST", "/webhook", "{\"url\": .., \"type\": .., \"id\": ..}"),
];

/// Answers requests below the prefix; none for any other path.
pub(crate) async fn answer(state: &Arc<State>, request: &Request) -> Option<Response> {
    let parts = request.parts(PREFIX)?;
    let outcome = route(&Control(Arc::clone(state)), request, &parts).await;
    Some(match outcome {
        Ok(Value::Null) => Response::empty(204),
        Ok(value) => Response::json(200, &value),
        Err(error) => Response::json(error.status(), &json!({ "error": error.to_string() })),
    })
}

async fn route(
    control: &Control,
    request: &Request,
    parts: &[&str],
) -> Result<Value, ControlError> {
    match (request.method.as_str(), parts) {
        ("GET", []) => Ok(help()),
        ("GET", ["ready"]) => Ok(control.ready()),
        ("GET", ["counters"]) => Ok(json!(control.counters())),
        ("DELETE", ["counters"]) => {
            control.reset_counters();
            Ok(Value::Null)
        }
        ("GET", ["faults"]) => Ok(json!(control.faults())),
        ("POST", ["faults"]) => add_faults(control, &body(request)?),
        ("DELETE", ["faults"]) => {
            control.clear_faults();
            Ok(Value::Null)
        }
        ("GET", ["clock"]) => Ok(json!({ "now_us": control.now_us() })),
        ("POST", ["clock"]) => advance(control, &body(request)?),
        ("POST", ["tokens"]) => Ok(tokens(control, &body(request)?)),
        ("POST", ["tokens", "expire"]) => {
            control.expire(token_kind(&body(request)?)?);
            Ok(Value::Null)
        }
        ("POST", ["device"]) => device(control, &body(request)?),
        ("POST", ["settings"]) => control.set(&body(request)?).map(|()| Value::Null),
        ("GET", ["records", kind]) => Ok(Value::Array(control.records(kind)?)),
        ("POST", ["records", kind]) => control.add(kind, &body(request)?),
        ("DELETE", ["records", kind]) => control.clear(kind).map(|()| Value::Null),
        ("GET", ["records", kind, id]) => control.record(kind, id),
        ("PATCH", ["records", kind, id]) => control.edit(kind, id, &body(request)?),
        ("DELETE", ["records", kind, id]) => control.remove(kind, id).map(|()| Value::Null),
        ("POST", ["webhook"]) => hook(control, &body(request)?).await,
        _ => Err(ControlError::Missing(format!(
            "unknown control endpoint; GET {PREFIX}/ lists them"
        ))),
    }
}

fn help() -> Value {
    let line = |(method, path, help): &(&str, &str, &str)| json!({ "method": method, "path": format!("{PREFIX}{path}"), "does": help });
    Value::Array(HELP.iter().map(line).collect())
}

/// An empty body counts as `{}`.
fn body(request: &Request) -> Result<Value, ControlError> {
    if request.body.is_empty() {
        return Ok(json!({}));
    }
    request.json().ok_or_else(|| ControlError::Bad("the body is not JSON".to_owned()))
}

fn add_faults(control: &Control, body: &Value) -> Result<Value, ControlError> {
    let list = match body {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let faults: Result<Vec<Fault>, _> = list.into_iter().map(serde_json::from_value).collect();
    let faults = faults.map_err(|error| ControlError::Bad(format!("not a fault: {error}")))?;
    for fault in faults {
        control.fault(fault);
    }
    Ok(Value::Null)
}

fn advance(control: &Control, body: &Value) -> Result<Value, ControlError> {
    let seconds = body.get("advance_s").and_then(Value::as_u64);
    let seconds =
        seconds.ok_or_else(|| ControlError::Bad("`advance_s` is required, a number".to_owned()))?;
    control.advance(seconds.saturating_mul(1_000_000));
    Ok(json!({ "now_us": control.now_us() }))
}

fn tokens(control: &Control, body: &Value) -> Value {
    match body.get("scopes").and_then(Value::as_array) {
        Some(scopes) => {
            let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
            control.tokens_for(&scopes)
        }
        None => control.tokens(),
    }
}

fn token_kind(body: &Value) -> Result<TokenKind, ControlError> {
    match body.get("which").and_then(Value::as_str) {
        None | Some("access") => Ok(TokenKind::Access),
        Some("refresh") => Ok(TokenKind::Refresh),
        Some("all") => Ok(TokenKind::All),
        Some(_) => {
            Err(ControlError::Bad("`which` must be `access`, `refresh` or `all`".to_owned()))
        }
    }
}

fn device(control: &Control, body: &Value) -> Result<Value, ControlError> {
    let code = body.get("user_code").and_then(Value::as_str);
    let code = code.ok_or_else(|| ControlError::Bad("`user_code` is required".to_owned()))?;
    let let_in = body.get("let_in").and_then(Value::as_bool).unwrap_or(true);
    control.decide_device(code, let_in).map(|()| Value::Null)
}

async fn hook(control: &Control, body: &Value) -> Result<Value, ControlError> {
    let url = body.get("url").and_then(Value::as_str);
    let url = url.ok_or_else(|| {
        ControlError::Bad("`url` is required, the address of the receiver".to_owned())
    })?;
    let status = control.webhook(url, body).await?;
    Ok(json!({ "status": status }))
}

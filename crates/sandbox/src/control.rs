//! The hand behind a sandbox: counters, faults, tokens, clock and records, as Rust methods and as
//! JSON below `/_sandbox`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::counters::Counters;
use crate::faults::Fault;
use crate::http::{Asked, Reply};
use crate::oauth::Which;
use crate::server::State;
use crate::webhook;

/// Where the control endpoint begins.
pub const PREFIX: &str = "/_sandbox";

/// Why something could not be done to a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

impl Trouble {
    fn status(&self) -> u16 {
        match self {
            Trouble::Bad(_) => 400,
            Trouble::Missing(_) => 404,
            Trouble::Failed(_) => 502,
        }
    }
}

/// Steers a running sandbox. Cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Control(Arc<State>);

impl Control {
    pub(crate) fn new(state: Arc<State>) -> Control {
        Control(state)
    }

    pub fn counters(&self) -> Counters {
        self.0.tally.read()
    }

    pub fn reset_counters(&self) {
        self.0.tally.reset();
    }

    pub fn fault(&self, fault: Fault) {
        self.0.faults.add(fault);
    }

    pub fn clear_faults(&self) {
        self.0.faults.clear();
    }

    /// The faults that can still strike.
    pub fn faults(&self) -> Vec<Fault> {
        self.0.faults.left()
    }

    pub fn now_us(&self) -> i64 {
        self.0.clock.now_us()
    }

    /// Moves time forward; days that pass bring their records with them.
    pub fn advance(&self, us: u64) {
        self.0.clock.advance(us);
        self.0.fake.catch_up(self.0.clock.now_us());
    }

    /// A fresh token response of the owner, as the token endpoint would have given it; for a
    /// service without one, its key or cookies.
    pub fn tokens(&self) -> Value {
        self.0.fake.grant(None, self.now_us())
    }

    /// A token response for these scopes alone.
    pub fn tokens_for(&self, scopes: &[&str]) -> Value {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        self.0.fake.grant(Some(scopes), self.now_us())
    }

    /// Makes tokens useless from now on.
    pub fn expire(&self, which: Which) {
        self.0.fake.expire(which);
    }

    /// Changes settings while it runs: those of the provider (`expires_in_s`, `consent`,
    /// `reused`) and those of the service.
    pub fn set(&self, settings: &Value) -> Result<(), Trouble> {
        match self.0.fake.provider() {
            Some(provider) => self.0.fake.set(&provider.set(settings)?),
            None => self.0.fake.set(settings),
        }
    }

    /// The client's answer to a device code: true lets it in.
    pub fn decide_device(&self, user_code: &str, let_in: bool) -> Result<(), Trouble> {
        let provider = self.0.fake.provider();
        provider.ok_or_else(no_oauth)?.decide_device(user_code, let_in)
    }

    /// All records of a kind, oldest first.
    pub fn records(&self, kind: &str) -> Result<Vec<Value>, Trouble> {
        self.0.fake.records(kind)
    }

    pub fn record(&self, kind: &str, id: &str) -> Result<Value, Trouble> {
        self.0.fake.record(kind, id)
    }

    /// Merges `patch` into a record. `updated_at` becomes now unless the patch names it.
    pub fn edit(&self, kind: &str, id: &str, patch: &Value) -> Result<Value, Trouble> {
        self.0.fake.edit(kind, id, patch, self.now_us())
    }

    /// Adds a record; what it does not name is taken from the newest of its kind.
    pub fn add(&self, kind: &str, record: &Value) -> Result<Value, Trouble> {
        self.0.fake.add(kind, record, self.now_us())
    }

    pub fn remove(&self, kind: &str, id: &str) -> Result<(), Trouble> {
        self.0.fake.remove(kind, id)
    }

    /// Removes all records of a kind.
    pub fn clear(&self, kind: &str) -> Result<(), Trouble> {
        self.0.fake.clear(kind)
    }

    /// Sends a signed message to `url` and gives the status of the answer.
    pub async fn webhook(&self, url: &str, about: &Value) -> Result<u16, Trouble> {
        let message = self.0.fake.webhook(about, self.now_us())?;
        webhook::post(url, message).await
    }

    /// What a program needs to use this sandbox: addresses, client and tokens.
    pub fn ready(&self) -> Value {
        let fake = &self.0.fake;
        let mut ready = Map::new();
        let mut say = |name: &str, value: Value| {
            if !value.is_null() {
                ready.insert(name.to_owned(), value);
            }
        };
        say("service", json!(fake.name()));
        say("url", json!(self.0.url));
        say("control", json!(format!("{}{PREFIX}", self.0.url)));
        say("hosts", fake.hosts());
        say("values", fake.values());
        if let Some(provider) = fake.provider() {
            say("client_id", json!(provider.client().id));
            say("client_secret", json!(provider.client().secret));
            say("tokens", self.tokens());
        }
        Value::Object(ready)
    }
}

fn no_oauth() -> Trouble {
    Trouble::Bad("this service has no sign-in by OAuth".to_owned())
}

/// What a control endpoint does, as its own help says it.
const HELP: &[(&str, &str, &str)] = &[
    ("GET", "/", "this list"),
    ("GET", "/ready", "addresses, client and a fresh token response"),
    ("GET", "/counters", "what was asked so far"),
    ("DELETE", "/counters", "begin again at zero"),
    ("GET", "/faults", "faults that can still strike"),
    ("POST", "/faults", "add one fault or an array of them"),
    ("DELETE", "/faults", "no more faults"),
    ("GET", "/clock", "the sandbox's time"),
    ("POST", "/clock", "move it forward: {\"advance_s\": n}"),
    ("POST", "/tokens", "a fresh token response: {\"scopes\": [..]} or {} for all"),
    ("POST", "/tokens/expire", "{\"which\": \"access\" | \"refresh\" | \"all\"}"),
    ("POST", "/device", "{\"user_code\": .., \"let_in\": true | false}"),
    ("POST", "/settings", "change settings while it runs"),
    ("GET", "/records/KIND", "all records of a kind, oldest first"),
    ("POST", "/records/KIND", "add a record"),
    ("DELETE", "/records/KIND", "remove all records of a kind"),
    ("GET", "/records/KIND/ID", "one record"),
    ("PATCH", "/records/KIND/ID", "merge into a record"),
    ("DELETE", "/records/KIND/ID", "remove a record"),
    ("POST", "/webhook", "{\"url\": .., \"type\": .., \"id\": ..}"),
];

/// Answers below the prefix; nothing for any other path.
pub(crate) async fn answer(state: &Arc<State>, asked: &Asked) -> Option<Reply> {
    let parts = asked.parts(PREFIX)?;
    let outcome = route(&Control(Arc::clone(state)), asked, &parts).await;
    Some(match outcome {
        Ok(Value::Null) => Reply::empty(204),
        Ok(value) => Reply::json(200, &value),
        Err(trouble) => Reply::json(trouble.status(), &json!({ "error": trouble.to_string() })),
    })
}

async fn route(control: &Control, asked: &Asked, parts: &[&str]) -> Result<Value, Trouble> {
    match (asked.method.as_str(), parts) {
        ("GET", []) => Ok(help()),
        ("GET", ["ready"]) => Ok(control.ready()),
        ("GET", ["counters"]) => Ok(json!(control.counters())),
        ("DELETE", ["counters"]) => {
            control.reset_counters();
            Ok(Value::Null)
        }
        ("GET", ["faults"]) => Ok(json!(control.faults())),
        ("POST", ["faults"]) => add_faults(control, &body(asked)?),
        ("DELETE", ["faults"]) => {
            control.clear_faults();
            Ok(Value::Null)
        }
        ("GET", ["clock"]) => Ok(json!({ "now_us": control.now_us() })),
        ("POST", ["clock"]) => advance(control, &body(asked)?),
        ("POST", ["tokens"]) => Ok(tokens(control, &body(asked)?)),
        ("POST", ["tokens", "expire"]) => {
            control.expire(which(&body(asked)?)?);
            Ok(Value::Null)
        }
        ("POST", ["device"]) => device(control, &body(asked)?),
        ("POST", ["settings"]) => control.set(&body(asked)?).map(|()| Value::Null),
        ("GET", ["records", kind]) => Ok(Value::Array(control.records(kind)?)),
        ("POST", ["records", kind]) => control.add(kind, &body(asked)?),
        ("DELETE", ["records", kind]) => control.clear(kind).map(|()| Value::Null),
        ("GET", ["records", kind, id]) => control.record(kind, id),
        ("PATCH", ["records", kind, id]) => control.edit(kind, id, &body(asked)?),
        ("DELETE", ["records", kind, id]) => control.remove(kind, id).map(|()| Value::Null),
        ("POST", ["webhook"]) => hook(control, &body(asked)?).await,
        _ => Err(Trouble::Missing(format!("nothing there; GET {PREFIX}/ lists what is"))),
    }
}

fn help() -> Value {
    let line = |(method, path, words): &(&str, &str, &str)| json!({ "method": method, "path": format!("{PREFIX}{path}"), "does": words });
    Value::Array(HELP.iter().map(line).collect())
}

/// An empty body counts as `{}`.
fn body(asked: &Asked) -> Result<Value, Trouble> {
    if asked.body.is_empty() {
        return Ok(json!({}));
    }
    asked.json().ok_or_else(|| Trouble::Bad("the body is no JSON".to_owned()))
}

fn add_faults(control: &Control, body: &Value) -> Result<Value, Trouble> {
    let list = match body {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let faults: Result<Vec<Fault>, _> = list.into_iter().map(serde_json::from_value).collect();
    let faults = faults.map_err(|error| Trouble::Bad(format!("not a fault: {error}")))?;
    for fault in faults {
        control.fault(fault);
    }
    Ok(Value::Null)
}

fn advance(control: &Control, body: &Value) -> Result<Value, Trouble> {
    let seconds = body.get("advance_s").and_then(Value::as_u64);
    let seconds = seconds.ok_or_else(|| Trouble::Bad("say `advance_s`, a number".to_owned()))?;
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

fn which(body: &Value) -> Result<Which, Trouble> {
    match body.get("which").and_then(Value::as_str) {
        None | Some("access") => Ok(Which::Access),
        Some("refresh") => Ok(Which::Refresh),
        Some("all") => Ok(Which::All),
        Some(_) => Err(Trouble::Bad("`which` is `access`, `refresh` or `all`".to_owned())),
    }
}

fn device(control: &Control, body: &Value) -> Result<Value, Trouble> {
    let code = body.get("user_code").and_then(Value::as_str);
    let code = code.ok_or_else(|| Trouble::Bad("say `user_code`".to_owned()))?;
    let let_in = body.get("let_in").and_then(Value::as_bool).unwrap_or(true);
    control.decide_device(code, let_in).map(|()| Value::Null)
}

async fn hook(control: &Control, body: &Value) -> Result<Value, Trouble> {
    let url = body.get("url").and_then(Value::as_str);
    let url = url.ok_or_else(|| Trouble::Bad("say `url`, where the webhook goes".to_owned()))?;
    let status = control.webhook(url, body).await?;
    Ok(json!({ "status": status }))
}

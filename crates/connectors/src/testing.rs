//! Test fixture: an owner with a temporary home and a stand-in of a service.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

pub(crate) mod archives;

use std::sync::Arc;

use sandbox::{Config, Running, Sandbox};
use serde_json::{Value, json};
use store::accounts::Account;
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::secret::Secret;
use store::vault::Vault;
use tempfile::TempDir;

use crate::oauth::token_response::Tokens;
use crate::{Answer, Caller, ConnectorContext, Service, ToolCall};

/// Sent where older agents send secrets; no response may contain it.
pub(crate) const PLANTED: &str = "PLANTED-SECRET-0451";

pub(crate) struct Fixture {
    pub(crate) ctx: ConnectorContext,
    pub(crate) sandbox: Running,
    pub(crate) service: &'static Service,
    _home: TempDir,
}

/// An owner who is not signed in. `look` returns the settings for the sandbox's URL.
pub(crate) fn signed_out_fixture(
    service: &'static Service,
    config: Config,
    look: fn(&str, &str) -> Option<String>,
) -> Fixture {
    let sandbox = Sandbox::start(config).unwrap();
    let url = sandbox.url().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; 32])));
    let settings = crate::read_settings(&|name| look(name, &url)).unwrap();
    let ctx =
        ConnectorContext::open(&home, vault, Clock::System, Random::seeded(1), settings).unwrap();
    Fixture { ctx, sandbox, service, _home: folder }
}

impl Fixture {
    pub(crate) fn sign_in(self) -> Fixture {
        self.sign_in_with(&self.sandbox.control().tokens());
        self
    }

    pub(crate) fn sign_in_with(&self, tokens: &Value) {
        let (name, now_us) = (self.service.name, self.ctx.clock.now().wall_us);
        let mut account = Account::new(name, now_us);
        Tokens::read(tokens.as_object().unwrap()).unwrap().apply(&mut account, now_us);
        self.ctx.accounts.lock(name).unwrap().save(&account).unwrap();
    }

    pub(crate) fn set(&self, settings: &Value) {
        self.sandbox.control().set(settings).unwrap();
    }

    /// The value of a successful call.
    pub(crate) async fn good(&self, tool: &str, arguments: Value) -> Value {
        match self.answer(tool, arguments).await {
            Answer::Found(value) | Answer::Text { value, .. } => value,
            answer => panic!("{tool}: {answer:?}"),
        }
    }

    /// The value of a successful call, or the code of a failed one.
    pub(crate) async fn any(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        match self.answer(tool, arguments).await {
            Answer::Found(value) | Answer::Text { value, .. } => Ok(value),
            answer => Err(self.code(tool, &answer)),
        }
    }

    /// The code of a failed call; each has a hint.
    pub(crate) async fn bad(&self, tool: &str, arguments: Value) -> String {
        let answer = self.answer(tool, arguments).await;
        self.code(tool, &answer)
    }

    /// The problem of a failed call.
    pub(crate) async fn problem(&self, tool: &str, arguments: Value) -> Value {
        match self.answer(tool, arguments).await {
            Answer::Refused(mut value) => value["error"].take(),
            answer => panic!("{tool}: {answer:?}"),
        }
    }

    fn code(&self, tool: &str, answer: &Answer) -> String {
        let Answer::Refused(value) = answer else { panic!("{tool}: {answer:?}") };
        let error = &value["error"];
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{value}");
        assert_eq!(error["platform"], self.service.name);
        assert!(error["retryable"].is_boolean(), "{value}");
        error["code"].as_str().unwrap().to_owned()
    }

    /// Calls a tool with secrets in its arguments, and checks that the response has none of them.
    async fn answer(&self, tool: &str, mut arguments: Value) -> Answer {
        let fields = arguments.as_object_mut().unwrap();
        for name in ["access_token", "client_secret", "device_code"] {
            fields.entry(name).or_insert(json!(PLANTED));
        }
        let tool = crate::connector(self.service.name).unwrap().tool(tool).unwrap();
        let arguments = arguments.as_object().unwrap();
        let caller = &Caller::of_grant("alice");
        let answer = (tool.handler.run)(
            ToolCall { ctx: &self.ctx, caller, on_progress: None, gate: None, bound: None },
            arguments,
        )
        .await;
        if let Answer::Found(value) | Answer::Text { value, .. } = &answer {
            fits(&tool.output_schema(), value, tool.name);
        }
        let said = format!("{answer:?}");
        for secret in self.secrets() {
            assert!(!said.contains(&secret), "{} reveals a secret", tool.name);
        }
        answer
    }

    fn secrets(&self) -> Vec<String> {
        let kept = self.ctx.accounts.load(self.service.name).unwrap();
        let kept = kept.iter().flat_map(Account::secrets).map(|secret| secret.expose().clone());
        let ready = self.sandbox.control().ready();
        let values = ready["values"].as_object().into_iter().flatten();
        // A person's id is not a secret.
        let values = values.filter(|(name, _)| !name.ends_with("USER_ID"));
        let values = values.filter_map(|(_, value)| value.as_str().map(str::to_owned));
        let client = ready["client_secret"].as_str().map(str::to_owned);
        kept.chain(values).chain(client).chain([PLANTED.to_owned()]).collect()
    }
}

/// Fails if a value does not match its schema. Supports the keywords of our schemas.
fn fits(schema: &Value, value: &Value, path: &str) {
    let types = match &schema["type"] {
        Value::Null => Vec::new(),
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => vec![one.as_str().unwrap()],
    };
    let is = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{path}: {other} is no type"),
    };
    assert!(types.is_empty() || types.iter().any(is), "{path}: {value} is none of {types:?}");
    if let Some(known) = schema["enum"].as_array() {
        assert!(known.contains(value), "{path}: {value} is none of {known:?}");
    }
    if let Some(only) = schema.get("const") {
        assert_eq!(only, value, "{path}");
    }
    for (place_in, one) in value.as_array().into_iter().flatten().enumerate() {
        fits(&schema["items"], one, &format!("{path}[{place_in}]"));
    }
    let Some(fields) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(fields.contains_key(name.as_str().unwrap()), "{path}: {name} is missing");
    }
    for (name, one) in fields {
        let known = &schema["properties"][name];
        let known = if known.is_null() { &schema["additionalProperties"] } else { known };
        if known.is_object() {
            fits(known, one, &format!("{path}.{name}"));
        }
    }
}

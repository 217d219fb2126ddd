//! A signed-in owner on a home of their own and a service of the sandbox, for tests of tools.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

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

use crate::oauth::answer::Tokens;
use crate::{Answer, Ask, Desk, Reader, Service, Settings};

/// Sent where older agents send secrets; it may never come back.
pub(crate) const PLANTED: &str = "PLANTED-SECRET-0451";

pub(crate) struct Stage {
    pub(crate) desk: Desk,
    pub(crate) sandbox: Running,
    pub(crate) service: &'static Service,
    _home: TempDir,
}

/// Somebody who is not signed in. `look` gives the settings by the sandbox's address.
pub(crate) fn stranger(
    service: &'static Service,
    config: Config,
    look: fn(&str, &str) -> Option<String>,
) -> Stage {
    let sandbox = Sandbox::start(config).unwrap();
    let url = sandbox.url().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; 32])));
    let settings = Settings::read(&|name| look(name, &url)).unwrap();
    let desk = Desk::open(&home, vault, Clock::System, Random::seeded(1), settings).unwrap();
    Stage { desk, sandbox, service, _home: folder }
}

impl Stage {
    pub(crate) fn sign_in(self) -> Stage {
        self.sign_in_with(&self.sandbox.control().tokens());
        self
    }

    pub(crate) fn sign_in_with(&self, tokens: &Value) {
        let (name, now_us) = (self.service.name, self.desk.clock.now().wall_us);
        let mut account = Account::new(name, now_us);
        Tokens::read(tokens.as_object().unwrap()).unwrap().apply(&mut account, now_us);
        self.desk.accounts.lock(name).unwrap().save(&account).unwrap();
    }

    pub(crate) fn set(&self, settings: &Value) {
        self.sandbox.control().set(settings).unwrap();
    }

    /// The value of a good answer.
    pub(crate) async fn good(&self, tool: &str, arguments: Value) -> Value {
        match self.answer(tool, arguments).await {
            Answer::Found(value) | Answer::Said { value, .. } => value,
            answer => panic!("{tool}: {answer:?}"),
        }
    }

    /// The value of a good answer, or the code of a bad one.
    pub(crate) async fn any(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        match self.answer(tool, arguments).await {
            Answer::Found(value) | Answer::Said { value, .. } => Ok(value),
            answer => Err(self.code(tool, &answer)),
        }
    }

    /// The code of a bad answer; every one of them says what to do next.
    pub(crate) async fn bad(&self, tool: &str, arguments: Value) -> String {
        let answer = self.answer(tool, arguments).await;
        self.code(tool, &answer)
    }

    /// What a bad answer says.
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

    /// Calls a tool with everything that must not come back, and looks for it in the answer.
    async fn answer(&self, tool: &str, mut arguments: Value) -> Answer {
        let fields = arguments.as_object_mut().unwrap();
        for name in ["access_token", "client_secret", "device_code"] {
            fields.entry(name).or_insert(json!(PLANTED));
        }
        let tool = self.service.tool(tool).unwrap();
        let arguments = arguments.as_object().unwrap();
        let reader = &Reader::of_grant("alice");
        let answer = (tool.run)(Ask { desk: &self.desk, reader, arguments, told: None }).await;
        if let Answer::Found(value) | Answer::Said { value, .. } = &answer {
            let schema = serde_json::from_str(tool.output_schema).unwrap();
            fits(&schema, value, tool.name);
        }
        let said = format!("{answer:?}");
        for secret in self.secrets() {
            assert!(!said.contains(&secret), "{} tells a secret", tool.name);
        }
        answer
    }

    fn secrets(&self) -> Vec<String> {
        let kept = self.desk.accounts.load(self.service.name).unwrap();
        let kept = kept.iter().flat_map(Account::secrets).map(|secret| secret.expose().clone());
        let ready = self.sandbox.control().ready();
        let values = ready["values"].as_object().into_iter().flatten();
        // The id of a person is no secret.
        let values = values.filter(|(name, _)| !name.ends_with("USER_ID"));
        let values = values.filter_map(|(_, value)| value.as_str().map(str::to_owned));
        let client = ready["client_secret"].as_str().map(str::to_owned);
        kept.chain(values).chain(client).chain([PLANTED.to_owned()]).collect()
    }
}

/// Fails where a value is not what its schema says. Knows the words that our schemas use.
fn fits(schema: &Value, value: &Value, place: &str) {
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
        other => panic!("{place}: {other} is no type"),
    };
    assert!(types.is_empty() || types.iter().any(is), "{place}: {value} is none of {types:?}");
    if let Some(known) = schema["enum"].as_array() {
        assert!(known.contains(value), "{place}: {value} is none of {known:?}");
    }
    if let Some(only) = schema.get("const") {
        assert_eq!(only, value, "{place}");
    }
    for (place_in, one) in value.as_array().into_iter().flatten().enumerate() {
        fits(&schema["items"], one, &format!("{place}[{place_in}]"));
    }
    let Some(fields) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(fields.contains_key(name.as_str().unwrap()), "{place}: {name} is missing");
    }
    for (name, one) in fields {
        let known = &schema["properties"][name];
        let known = if known.is_null() { &schema["additionalProperties"] } else { known };
        if known.is_object() {
            fits(known, one, &format!("{place}.{name}"));
        }
    }
}

//! The tools as an agent calls them, on a home of their own, against the sandbox over real HTTP.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod answers;
mod dated;
mod days;
mod login;
mod reads;

use std::sync::Arc;

use sandbox::{Config, Running, Sandbox, Time};
use serde_json::{Map, Value};
use store::accounts::Account;
use store::clock::{Clock, Now};
use store::home::Home;
use store::random::Random;
use store::secret::Secret;
use store::vault::Vault;
use tempfile::TempDir;

use super::{NAME, SERVICE};
use crate::oauth::answer::Tokens;
use crate::{Answer, Ask, Contents, Desk, Reader, Settings};

/// Wednesday 15 April 2026, 10:00 UTC.
pub(super) const NOW_US: i64 = 1_776_247_200_000_000;

pub(super) struct Stage {
    pub(super) desk: Desk,
    pub(super) whoop: Running,
    pub(super) clock: Clock,
    _home: TempDir,
}

/// A signed-in owner with so many days of history at WHOOP and an empty mirror.
pub(super) fn stage(days: u32) -> Stage {
    let mut config = Config::whoop(7, days, NOW_US);
    config.time = Time::Stands;
    config.service.unlimit();
    let whoop = Sandbox::start(config).unwrap();
    let url = whoop.url().to_owned();
    let look = |name: &str| match name {
        "WHOOP_API_BASE_URL" | "WHOOP_OAUTH_BASE_URL" => Some(url.clone()),
        "WHOOP_CLIENT_ID" => Some("sandbox-whoop-client".to_owned()),
        "WHOOP_CLIENT_SECRET" => Some("sandbox-whoop-secret".to_owned()),
        _ => None,
    };
    let folder = tempfile::tempdir().unwrap();
    let home = Home::create(&folder.path().join("home")).unwrap();
    let vault = Arc::new(Vault::from_key(Secret::new([7; 32])));
    let clock = Clock::set(Now { wall_us: NOW_US, steady_us: 1_000_000 });
    let settings = Settings::read(&look).unwrap();
    let desk = Desk::open(&home, vault, clock.clone(), Random::seeded(1), settings).unwrap();
    let stage = Stage { desk, whoop, clock, _home: folder };
    stage.sign_in();
    stage
}

impl Stage {
    fn sign_in(&self) {
        let tokens = self.whoop.control().tokens();
        let mut account = Account::new(NAME, NOW_US);
        Tokens::read(tokens.as_object().unwrap()).unwrap().apply(&mut account, NOW_US);
        self.desk.accounts.lock(NAME).unwrap().save(&account).unwrap();
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        match self.answer(tool, arguments).await {
            Answer::Found(value) | Answer::Said { value, .. } | Answer::Refused(value) => value,
            Answer::Written(written) => serde_json::from_str(written.plain()).unwrap(),
            Answer::Failed { code, words } => serde_json::json!({"failed": code, "words": words}),
        }
    }

    pub(super) async fn answer(&self, tool: &str, arguments: Value) -> Answer {
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none).clone();
        let tool = SERVICE.tool(tool).unwrap();
        let reader = &Reader::in_conversation("alice", 1);
        (tool.run)(Ask { desk: &self.desk, reader, arguments: &arguments, told: None }).await
    }

    pub(super) async fn read(&self, uri: &str) -> Option<Value> {
        match crate::resource::read(&self.desk, &Reader::of_grant("alice"), &SERVICE, uri).await? {
            (Contents::Text(text), _) => serde_json::from_str(&text).ok(),
            (Contents::Missing, _) => None,
        }
    }

    /// Requests that WHOOP has seen.
    pub(super) fn requests(&self) -> u64 {
        self.whoop.control().counters().requests
    }
}

pub(super) fn ids(answer: &Value) -> Vec<String> {
    let records = answer["records"].as_array().unwrap();
    records.iter().map(|r| r.get("id").unwrap_or(&r["cycle_id"]).to_string()).collect()
}

pub(super) fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or("none")
}

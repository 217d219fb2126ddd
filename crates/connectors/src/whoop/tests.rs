//! The tools as an agent calls them, on a home of their own, against the sandbox over real HTTP.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod across;
mod answers;
mod days;
mod insights;
mod login;
mod reads;
mod record_times;

use std::sync::Arc;

use sandbox::{ClockMode, Config, Running, Sandbox};
use serde_json::{Map, Value};
use store::accounts::Account;
use store::clock::{Clock, Now};
use store::home::Home;
use store::random::Random;
use store::secret::Secret;
use store::vault::Vault;
use tempfile::TempDir;

use super::NAME;
use crate::oauth::token_response::Tokens;
use crate::{Answer, Caller, ConnectorContext, Contents, ToolCall};

/// Wednesday 15 April 2026, 10:00 UTC.
pub(super) const NOW_US: i64 = 1_776_247_200_000_000;

pub(super) struct WhoopFixture {
    pub(super) ctx: ConnectorContext,
    pub(super) whoop: Running,
    pub(super) clock: Clock,
    _home: TempDir,
}

/// A signed-in owner with so many days of history at WHOOP and an empty mirror.
pub(super) fn fixture(days: u32) -> WhoopFixture {
    let mut config = Config::whoop(7, days, NOW_US);
    config.time = ClockMode::Frozen;
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
    let settings = crate::read_settings(&look).unwrap();
    let ctx =
        ConnectorContext::open(&home, vault, clock.clone(), Random::seeded(1), settings).unwrap();
    let fixture = WhoopFixture { ctx, whoop, clock, _home: folder };
    fixture.sign_in();
    fixture
}

impl WhoopFixture {
    fn sign_in(&self) {
        let tokens = self.whoop.control().tokens();
        let mut account = Account::new(NAME, NOW_US);
        Tokens::read(tokens.as_object().unwrap()).unwrap().apply(&mut account, NOW_US);
        self.ctx.accounts.lock(NAME).unwrap().save(&account).unwrap();
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        match self.answer(tool, arguments).await {
            Answer::Found(value) | Answer::Text { value, .. } | Answer::Refused(value) => value,
            Answer::Json(written) => serde_json::from_str(written.plain()).unwrap(),
            Answer::Failed { code, message } => {
                serde_json::json!({"failed": code, "words": message})
            }
        }
    }

    pub(super) async fn answer(&self, tool: &str, arguments: Value) -> Answer {
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none).clone();
        let tool = super::CONNECTOR.tool(tool).unwrap();
        let caller = &Caller::in_session("alice", 1);
        (tool.handler.run)(
            ToolCall { ctx: &self.ctx, caller, on_progress: None, gate: None, bound: None },
            &arguments,
        )
        .await
    }

    pub(super) async fn read(&self, uri: &str) -> Option<Value> {
        match crate::resource::read(
            &self.ctx,
            &Caller::of_grant("alice"),
            super::CONNECTOR.resources,
            super::CONNECTOR.templates,
            uri,
        )
        .await?
        {
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

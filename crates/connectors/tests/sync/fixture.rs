//! A home with a connected account, and the sandbox it is connected to.

use std::collections::BTreeMap;
use std::sync::Arc;

use connectors::ConnectorContext;
use connectors::sync::{self, SyncRequest};
use connectors::whoop::sync::MIRROR;
use sandbox::services::whoop;
use sandbox::{ClockMode, Config, Running, Sandbox, Service};
use serde_json::Value;
use store::accounts::Account;
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::records::Window;
use store::secret::Secret;
use store::vault::{Vault, run_no_program};
use tempfile::TempDir;

pub(crate) const DAY_US: u64 = 86_400_000_000;
/// Kinds as the sandbox and as the mirror call them.
pub(crate) const KINDS: [(&str, &str); 4] =
    [("cycle", "cycles"), ("recovery", "recoveries"), ("sleep", "sleeps"), ("workout", "workouts")];

pub(crate) struct Fixture {
    pub(crate) sandbox: Running,
    pub(crate) ctx: ConnectorContext,
    pub(crate) folder: TempDir,
}

impl Fixture {
    /// A member with so many days, no limits, and a manual clock.
    pub(crate) fn new(days: u32) -> Fixture {
        Fixture::at(days, Clock::System)
    }

    /// The same with a given clock.
    pub(crate) fn at(days: u32, clock: Clock) -> Fixture {
        let sandbox = member(7, days, clock.now().wall_us);
        let folder = tempfile::tempdir().unwrap();
        let ctx = connector_context(&sandbox, &folder, clock);
        connect(&sandbox, &ctx);
        Fixture { sandbox, ctx, folder }
    }

    /// A second context on the same home, which acts as another process.
    pub(crate) fn second_desk(&self) -> ConnectorContext {
        connector_context(&self.sandbox, &self.folder, Clock::System)
    }

    /// Another person signs in on the same home.
    pub(crate) fn somebody_else(&self) -> (Running, ConnectorContext) {
        let sandbox = member(8, 20, self.ctx.clock.now().wall_us);
        let ctx = connector_context(&sandbox, &self.folder, self.ctx.clock.clone());
        connect(&sandbox, &ctx);
        (sandbox, ctx)
    }

    pub(crate) async fn sync(&self, asked: &SyncRequest) -> Value {
        sync::run(&self.ctx, &MIRROR, asked, &|_| {}).await.unwrap().value()
    }

    pub(crate) async fn full(&self) -> Value {
        self.sync(&SyncRequest { full: true, ..SyncRequest::default() }).await
    }

    /// Syncs new records and expects success.
    pub(crate) async fn good(&self) -> Value {
        let result = self.sync(&SyncRequest::default()).await;
        assert_eq!(result["status"], "success", "{result}");
        result
    }

    /// The mirror's records of a kind, by id.
    pub(crate) fn mirrored(&self, kind: &str) -> BTreeMap<String, Value> {
        let rows = self.ctx.records.window("whoop", kind, &Window::default()).unwrap();
        rows.into_iter().map(|row| (row.id, serde_json::from_str(&row.raw).unwrap())).collect()
    }

    /// The sandbox's records of a kind, by id.
    pub(crate) fn upstream(&self, kind: &str) -> BTreeMap<String, Value> {
        let key = if kind == "recovery" { "cycle_id" } else { "id" };
        let records = self.sandbox.control().records(kind).unwrap();
        let id = |record: &Value| match &record[key] {
            Value::String(id) => id.clone(),
            id => id.to_string(),
        };
        records.into_iter().map(|record| (id(&record), record)).collect()
    }

    pub(crate) fn assert_equal(&self) {
        for (theirs, ours) in KINDS {
            let (upstream, mirrored) = (self.upstream(theirs), self.mirrored(ours));
            let missing: Vec<_> =
                upstream.keys().filter(|id| !mirrored.contains_key(*id)).collect();
            let surplus: Vec<_> =
                mirrored.keys().filter(|id| !upstream.contains_key(*id)).collect();
            assert!(missing.is_empty() && surplus.is_empty(), "{ours}: -{missing:?} +{surplus:?}");
            assert_eq!(upstream, mirrored, "{ours}");
        }
    }

    pub(crate) fn edit(&self, kind: &str, id: &str, patch: &Value) {
        self.sandbox.control().edit(kind, id, patch).unwrap();
    }
}

fn member(seed: u64, days: u32, now_us: i64) -> Running {
    let settings = whoop::WhoopSettings { limits: Vec::new(), ..whoop::WhoopSettings::default() };
    let service = Service::Whoop(settings);
    let config = Config { service, time: ClockMode::Frozen, ..Config::whoop(seed, days, now_us) };
    Sandbox::start(config).unwrap()
}

fn connector_context(sandbox: &Running, folder: &TempDir, clock: Clock) -> ConnectorContext {
    let home = Home::create(&folder.path().join("home")).unwrap();
    let vault = Arc::new(Vault::open_home(&home, &Random::System, run_no_program).unwrap());
    let ready = sandbox.control().ready();
    let word = |key: &str| ready[key].as_str().map(str::to_owned);
    let settings = connectors::read_settings(&|name| match name {
        "WHOOP_API_BASE_URL" | "WHOOP_OAUTH_BASE_URL" => Some(sandbox.url().to_owned()),
        "WHOOP_CLIENT_ID" => word("client_id"),
        "WHOOP_CLIENT_SECRET" => word("client_secret"),
        _ => None,
    })
    .unwrap();
    ConnectorContext::open(&home, vault, clock, Random::System, settings).unwrap()
}

fn connect(sandbox: &Running, ctx: &ConnectorContext) {
    let ready = sandbox.control().ready();
    let tokens = sandbox.control().tokens();
    let secret = |value: &Value| Some(Secret::new(value.as_str().unwrap().to_owned()));
    let now_us = ctx.clock.now().wall_us;
    let account = Account {
        client_id: ready["client_id"].as_str().map(str::to_owned),
        client_secret: secret(&ready["client_secret"]),
        access: secret(&tokens["access_token"]),
        refresh: secret(&tokens["refresh_token"]),
        expires_us: Some(now_us + 3_600_000_000),
        ..Account::new("whoop", now_us)
    };
    ctx.accounts.lock("whoop").unwrap().save(&account).unwrap();
}

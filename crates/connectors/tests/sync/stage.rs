//! A home with a connected account, and the sandbox it is connected to.

use std::collections::BTreeMap;
use std::sync::Arc;

use connectors::sync::{self, Asked};
use connectors::whoop::sync::MIRROR;
use connectors::{Desk, Settings};
use sandbox::{Config, Running, Sandbox, Service, Time, whoop};
use serde_json::Value;
use store::accounts::Account;
use store::clock::Clock;
use store::home::Home;
use store::random::Random;
use store::records::Window;
use store::secret::Secret;
use store::vault::{Vault, ask_nobody};
use tempfile::TempDir;

pub(crate) const DAY_US: u64 = 86_400_000_000;
/// Kinds as the sandbox and as the mirror call them.
pub(crate) const KINDS: [(&str, &str); 4] =
    [("cycle", "cycles"), ("recovery", "recoveries"), ("sleep", "sleeps"), ("workout", "workouts")];

pub(crate) struct Stage {
    pub(crate) sandbox: Running,
    pub(crate) desk: Desk,
    pub(crate) folder: TempDir,
}

impl Stage {
    /// A member with so many days, no limits, at a moment that stands still until it is moved.
    pub(crate) fn new(days: u32) -> Stage {
        Stage::at(days, Clock::System)
    }

    /// The same on a clock of one's own.
    pub(crate) fn at(days: u32, clock: Clock) -> Stage {
        let sandbox = member(7, days, clock.now().wall_us);
        let folder = tempfile::tempdir().unwrap();
        let desk = desk(&sandbox, &folder, clock);
        connect(&sandbox, &desk);
        Stage { sandbox, desk, folder }
    }

    /// A second process on the same home, as far as the files can tell.
    pub(crate) fn second_desk(&self) -> Desk {
        desk(&self.sandbox, &self.folder, Clock::System)
    }

    /// Somebody else, who signs in on the same home.
    pub(crate) fn somebody_else(&self) -> (Running, Desk) {
        let sandbox = member(8, 20, self.desk.clock.now().wall_us);
        let desk = desk(&sandbox, &self.folder, self.desk.clock.clone());
        connect(&sandbox, &desk);
        (sandbox, desk)
    }

    pub(crate) async fn sync(&self, asked: &Asked) -> Value {
        sync::run(&self.desk, &MIRROR, asked, &|_| {}).await.unwrap()
    }

    pub(crate) async fn full(&self) -> Value {
        self.sync(&Asked { full: true, ..Asked::default() }).await
    }

    /// Syncs what is new and expects that it works.
    pub(crate) async fn good(&self) -> Value {
        let result = self.sync(&Asked::default()).await;
        assert_eq!(result["status"], "success", "{result}");
        result
    }

    /// What the mirror holds of a kind, by id.
    pub(crate) fn mirrored(&self, kind: &str) -> BTreeMap<String, Value> {
        let rows = self.desk.records.window("whoop", kind, &Window::default()).unwrap();
        rows.into_iter().map(|row| (row.id, serde_json::from_str(&row.raw).unwrap())).collect()
    }

    /// What the sandbox holds of it.
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
    let settings = whoop::Settings { limits: Vec::new(), ..whoop::Settings::default() };
    let service = Service::Whoop(settings);
    let config = Config { service, time: Time::Stands, ..Config::whoop(seed, days, now_us) };
    Sandbox::start(config).unwrap()
}

fn desk(sandbox: &Running, folder: &TempDir, clock: Clock) -> Desk {
    let home = Home::create(&folder.path().join("home")).unwrap();
    let vault = Arc::new(Vault::open_home(&home, &Random::System, ask_nobody).unwrap());
    let ready = sandbox.control().ready();
    let word = |key: &str| ready[key].as_str().map(str::to_owned);
    let settings = Settings::read(&|name| match name {
        "WHOOP_API_BASE_URL" | "WHOOP_OAUTH_BASE_URL" => Some(sandbox.url().to_owned()),
        "WHOOP_CLIENT_ID" => word("client_id"),
        "WHOOP_CLIENT_SECRET" => word("client_secret"),
        _ => None,
    })
    .unwrap();
    Desk::open(&home, vault, clock, Random::System, settings).unwrap()
}

fn connect(sandbox: &Running, desk: &Desk) {
    let ready = sandbox.control().ready();
    let tokens = sandbox.control().tokens();
    let secret = |value: &Value| Some(Secret::new(value.as_str().unwrap().to_owned()));
    let now_us = desk.clock.now().wall_us;
    let account = Account {
        client_id: ready["client_id"].as_str().map(str::to_owned),
        client_secret: secret(&ready["client_secret"]),
        access: secret(&tokens["access_token"]),
        refresh: secret(&tokens["refresh_token"]),
        expires_us: Some(now_us + 3_600_000_000),
        ..Account::new("whoop", now_us)
    };
    desk.accounts.lock("whoop").unwrap().save(&account).unwrap();
}

//! The pretend accounts of the demonstration: a sandbox in this process stands in for the service,
//! and what is connected to it is mirrored once before anybody asks.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use connectors::Service;
use connectors::sync::{self, Asked};
use sandbox::{Config, Running, Sandbox};
use serde_json::Value;
use store::accounts::Account;
use store::secret::Secret;

use crate::context::Stores;
use crate::services::{Look, with_accounts};

/// Enough for trends, and synced before one has read the first line.
const DAYS: u32 = 120;
/// The same person at every start.
const SEED: u64 = 4180;

/// A service that is only pretended. Ends when dropped.
pub(crate) struct Pretend {
    pub(crate) service: &'static Service,
    sandbox: Running,
}

impl Pretend {
    pub(crate) fn start(now_us: i64) -> Result<Pretend> {
        let service = connectors::service("whoop").context("there is no WHOOP here")?;
        let sandbox = Sandbox::start(Config::whoop(SEED, DAYS, now_us))?;
        Ok(Pretend { service, sandbox })
    }

    /// The settings of services in the demonstration: only the pretended ones are anywhere.
    pub(crate) fn look(&self) -> Look {
        let (url, ready) = (self.sandbox.url().to_owned(), self.sandbox.control().ready());
        let word = move |field: &str| ready.get(field).and_then(Value::as_str).map(str::to_owned);
        Arc::new(move |name: &str| {
            let (_, account) = with_accounts().find(|(service, _)| service.name == "whoop")?;
            match name {
                _ if name == account.api.variable => Some(url.clone()),
                _ if name == account.oauth.variable => Some(url.clone()),
                _ if name == account.client_id => word("client_id"),
                _ if name == account.client_secret => word("client_secret"),
                _ => None,
            }
        })
    }

    /// Signs in and mirrors what there is. What an earlier demonstration mirrored was another
    /// pretence and goes first.
    pub(crate) fn connect(&self, stores: &Stores) -> Result<()> {
        let desk = stores.desk()?;
        let ready = self.sandbox.control().ready();
        let account = self.account(&ready, stores.now_us());
        desk.accounts.lock(self.service.name)?.save(&account)?;
        desk.records.forget(self.service.name)?;
        let mirror = sync::mirror(self.service.name).context("there is nothing to mirror")?;
        let runtime = super::super::runtime()?;
        let asked = Asked { full: true, ..Asked::default() };
        let result = runtime
            .block_on(sync::run(&desk, mirror, &asked, &|_| {}))
            .map_err(|error| anyhow!("the sandbox cannot be mirrored: {error}"))?;
        stores.note("synced", self.service.name, &super::super::sync::said(&result))
    }

    fn account(&self, ready: &Value, now_us: i64) -> Account {
        let word = |pointer: &str| ready.pointer(pointer).and_then(Value::as_str);
        let seconds = ready.pointer("/tokens/expires_in").and_then(Value::as_i64).unwrap_or(3600);
        let scopes = word("/tokens/scope").unwrap_or_default();
        Account {
            client_id: word("/client_id").map(str::to_owned),
            client_secret: word("/client_secret").map(Secret::new),
            access: word("/tokens/access_token").map(Secret::new),
            refresh: word("/tokens/refresh_token").map(Secret::new),
            scopes: scopes.split_whitespace().map(str::to_owned).collect(),
            expires_us: Some(now_us.saturating_add(seconds.saturating_mul(1_000_000))),
            ..Account::new(self.service.name, now_us)
        }
    }
}

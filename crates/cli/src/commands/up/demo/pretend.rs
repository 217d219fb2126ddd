//! The pretend accounts of the demonstration: sandboxes in this process stand in for the services.
//! A mirror that a call of the demo needs is filled first; the gate fills the others while it serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use connectors::account::Endpoint;
use connectors::sync::{self, SyncRequest};
use connectors::{Connector, Service};
use sandbox::{Config, Running, Sandbox};
use serde_json::Value;
use store::accounts::Account;
use store::secret::Secret;

use crate::context::Stores;
use crate::services::{VariableLookup, sync_note, with_accounts};

/// Enough for trends, and quick to sync.
const DAYS: u32 = 120;
/// The same person at every start.
const SEED: u64 = 4180;

/// A sandbox for every service with accounts. Stops when dropped.
pub(crate) struct SandboxAccounts(Vec<SandboxAccount>);

/// One of them.
struct SandboxAccount {
    service: &'static Service,
    account: &'static connectors::Account,
    /// The ready message of the sandbox: addresses, client, tokens, keys and cookies.
    ready: Value,
    _sandbox: Running,
}

impl SandboxAccounts {
    /// The person lives where the owner does: at this offset from UTC.
    pub(crate) fn start(now_us: i64, offset_min: i64) -> Result<SandboxAccounts> {
        let start =
            |(service, account)| SandboxAccount::start(service, account, now_us, offset_min);
        Ok(SandboxAccounts(with_accounts().map(start).collect::<Result<_>>()?))
    }

    pub(crate) fn connectors(&self) -> impl Iterator<Item = &'static Connector> {
        self.0.iter().filter_map(|account| connectors::connector(account.service.name))
    }

    /// The variables of the simulated services.
    pub(crate) fn settings(&self) -> BTreeMap<&'static str, String> {
        self.0.iter().flat_map(SandboxAccount::settings).collect()
    }

    /// Settings of services in the demo: only the simulated ones have an address.
    pub(crate) fn look(&self) -> VariableLookup {
        let settings = self.settings();
        Arc::new(move |name: &str| settings.get(name).cloned())
    }

    /// Signs in to every service and mirrors WHOOP.
    pub(crate) fn connect(&self, stores: &Stores) -> Result<()> {
        self.0.iter().try_for_each(|account| account.connect(stores))?;
        let is_first = |one: &&Connector| one.demo.is_some_and(|call| call.needs_mirror);
        self.connectors().filter(is_first).try_for_each(|one| mirror(one.name(), stores))
    }
}

impl SandboxAccount {
    fn start(
        service: &'static Service,
        account: &'static connectors::Account,
        now_us: i64,
        offset_min: i64,
    ) -> Result<SandboxAccount> {
        let pretended = sandbox::Service::named(service.name)
            .with_context(|| format!("no sandbox for `{}`", service.name))?;
        let sandbox = Sandbox::start(Config {
            offset_min: Some(offset_min),
            ..Config::of(pretended, SEED, DAYS, now_us)
        })?;
        Ok(SandboxAccount { service, account, ready: sandbox.control().ready(), _sandbox: sandbox })
    }

    fn word(&self, pointer: &str) -> Option<&str> {
        self.ready.pointer(pointer).and_then(Value::as_str)
    }

    /// The variables of the service.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let account = self.account;
        let settings = [
            (account.api.variable, self.address(&account.api)),
            (account.oauth.variable, self.address(&account.oauth)),
            (account.client_id, self.word("/client_id")),
            (account.client_secret, self.word("/client_secret")),
        ];
        let said = |(name, value): (_, Option<&str>)| Some((name, value?.to_owned()));
        settings.into_iter().filter_map(said).collect()
    }

    /// The sandbox address of one of the service's hosts, which may be a path.
    fn address(&self, endpoint: &Endpoint) -> Option<&str> {
        let host = endpoint.url.split('/').nth(2).unwrap_or_default();
        self.word(&format!("/hosts/{host}")).or_else(|| self.word("/url"))
    }

    /// Signs in. Deletes the mirror of an earlier demo first, which had other data.
    fn connect(&self, stores: &Stores) -> Result<()> {
        let (ctx, name) = (stores.connector_context()?, self.service.name);
        ctx.records.forget(name)?;
        ctx.accounts.lock(name)?.save(&self.signed_in(stores.now_us()))?;
        Ok(())
    }

    fn signed_in(&self, now_us: i64) -> Account {
        let seconds = self.ready.pointer("/tokens/expires_in").and_then(Value::as_i64);
        let expires_us = |seconds: i64| now_us.saturating_add(seconds.saturating_mul(1_000_000));
        let scopes = self.word("/tokens/scope").unwrap_or_default();
        let fields = self.account.values.iter().chain(self.account.sign_in.fields());
        let value = |variable| self.word(&format!("/values/{variable}")).map(Secret::new);
        Account {
            client_id: self.word("/client_id").map(str::to_owned),
            client_secret: self.word("/client_secret").map(Secret::new),
            access: self.word("/tokens/access_token").map(Secret::new),
            refresh: self.word("/tokens/refresh_token").map(Secret::new),
            extra: fields.filter_map(|f| Some((f.name.to_owned(), value(f.variable)?))).collect(),
            scopes: scopes.split_whitespace().map(str::to_owned).collect(),
            expires_us: seconds.map(expires_us),
            ..Account::new(self.service.name, now_us)
        }
    }
}

/// Mirrors all data of a service.
fn mirror(service: &str, stores: &Stores) -> Result<()> {
    let ctx = stores.connector_context()?;
    let mirror = connectors::mirror(service).context("the service has no mirror")?;
    let runtime = crate::gate::runtime()?;
    let asked = SyncRequest { full: true, ..SyncRequest::default() };
    let result = runtime
        .block_on(sync::run(&ctx, mirror, &asked, &|_| {}))
        .map_err(|error| anyhow!("the sandbox cannot be mirrored: {error}"))?;
    let (act, message) = sync_note(&result, mirror, &super::super::sync::message(&result));
    stores.note(act, service, &message)
}

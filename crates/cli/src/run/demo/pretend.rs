//! The pretend accounts of the demonstration: sandboxes in this process stand in for the services.
//! WHOOP is mirrored before anybody asks; the gate mirrors the others while it already serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use connectors::Service;
use connectors::account::Place;
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

/// Every service one can have an account at, only pretended. Ends when dropped.
pub(crate) struct Pretend(Vec<Stand>);

/// One of them.
struct Stand {
    service: &'static Service,
    account: &'static connectors::Account,
    /// What the sandbox says of itself: addresses, the client, tokens, keys and cookies.
    ready: Value,
    _sandbox: Running,
}

impl Pretend {
    pub(crate) fn start(now_us: i64) -> Result<Pretend> {
        let start = |(service, account)| Stand::start(service, account, now_us);
        Ok(Pretend(with_accounts().map(start).collect::<Result<_>>()?))
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &'static Service> {
        self.0.iter().map(|stand| stand.service)
    }

    /// What the environment would say of the pretended services.
    pub(crate) fn settings(&self) -> BTreeMap<&'static str, String> {
        self.0.iter().flat_map(Stand::settings).collect()
    }

    /// The settings of services in the demonstration: only the pretended ones are anywhere.
    pub(crate) fn look(&self) -> Look {
        let settings = self.settings();
        Arc::new(move |name: &str| settings.get(name).cloned())
    }

    /// Signs in everywhere.
    pub(crate) fn connect(&self, stores: &Stores) -> Result<()> {
        self.0.iter().try_for_each(|stand| stand.connect(stores))?;
        mirror("whoop", stores)
    }
}

impl Stand {
    fn start(
        service: &'static Service,
        account: &'static connectors::Account,
        now_us: i64,
    ) -> Result<Stand> {
        let pretended = sandbox::Service::named(service.name)
            .with_context(|| format!("nothing stands in for `{}`", service.name))?;
        let sandbox = Sandbox::start(Config::of(pretended, SEED, DAYS, now_us))?;
        Ok(Stand { service, account, ready: sandbox.control().ready(), _sandbox: sandbox })
    }

    fn word(&self, pointer: &str) -> Option<&str> {
        self.ready.pointer(pointer).and_then(Value::as_str)
    }

    /// What the environment would say of the service.
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

    /// Where a place of the service is pretended. A host may be a path of the sandbox.
    fn address(&self, place: &Place) -> Option<&str> {
        let host = place.url.split('/').nth(2).unwrap_or_default();
        self.word(&format!("/hosts/{host}")).or_else(|| self.word("/url"))
    }

    /// Signs in. What an earlier demonstration mirrored was another pretence and goes first.
    fn connect(&self, stores: &Stores) -> Result<()> {
        let (desk, name) = (stores.desk()?, self.service.name);
        desk.records.forget(name)?;
        desk.accounts.lock(name)?.save(&self.signed_in(stores.now_us()))?;
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

/// Mirrors all of a service, to the end.
fn mirror(service: &str, stores: &Stores) -> Result<()> {
    let desk = stores.desk()?;
    let mirror = sync::mirror(service).context("there is nothing to mirror")?;
    let runtime = super::super::runtime()?;
    let asked = Asked { full: true, ..Asked::default() };
    let result = runtime
        .block_on(sync::run(&desk, mirror, &asked, &|_| {}))
        .map_err(|error| anyhow!("the sandbox cannot be mirrored: {error}"))?;
    stores.note("synced", service, &super::super::sync::said(&result))
}

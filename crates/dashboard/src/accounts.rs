//! Sign-in, sync and sign-out of the owner's accounts for pages: what runs in the background and how it ended.
//! The flows are those of the connectors; nothing here keeps a secret.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connectors::account::{Client, SignIn};
use connectors::credentials::check;
use connectors::oauth::code::{Attempt, Redirect};
use connectors::oauth::device::DeviceCode;
use connectors::oauth::grant::Grant;
use connectors::oauth::listen::Listener;
use connectors::oauth::token_response::Tokens;
use connectors::sync::{self, ResourceError, SyncProgress, SyncRequest};
use connectors::{Account, ConnectorContext, Service, ServiceSettings};
use serde::Serialize;
use store::accounts;
use store::ledger::{Ledger, Note};
use store::secret::Secret;

/// A sign-in in the browser may take this long.
const SIGN_IN_WAIT: Duration = Duration::from_mins(10);

/// What the background does for one service, or did last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Work {
    #[default]
    Idle,
    SigningIn,
    Syncing {
        #[serde(rename = "words")]
        message: String,
    },
    Done {
        #[serde(rename = "words")]
        message: String,
    },
    Failed {
        #[serde(rename = "words")]
        message: String,
    },
}

impl Work {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Work::SigningIn | Work::Syncing { .. })
    }
}

/// How the owner continues a sign-in that was started.
pub(crate) enum Continue {
    /// Open this address in a browser.
    Browser { url: String, redirect: String },
    /// Type this code at this address, on any device.
    Device { url: String, code: String },
    /// Nothing: the values that were sent are being checked.
    Checking,
}

/// The work of all services.
#[derive(Clone, Default)]
pub(crate) struct AccountWork {
    by_service: Arc<Mutex<HashMap<&'static str, Work>>>,
}

impl AccountWork {
    pub(crate) fn of(&self, service: &str) -> Work {
        let all = self.by_service.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(service).cloned().unwrap_or_default()
    }

    fn set(&self, service: &'static str, work: Work) {
        self.by_service.lock().unwrap_or_else(PoisonError::into_inner).insert(service, work);
    }

    /// Claims the service; false if it is busy.
    fn begin(&self, service: &'static str, work: Work) -> bool {
        let mut all = self.by_service.lock().unwrap_or_else(PoisonError::into_inner);
        let current = all.entry(service).or_default();
        if current.is_running() {
            return false;
        }
        *current = work;
        true
    }

    /// Starts a sync of all resources.
    pub(crate) fn sync(
        &self,
        ctx: Arc<ConnectorContext>,
        service: &'static Service,
        (ledger, by): (Arc<Ledger>, String),
    ) -> Result<(), String> {
        let mirror = connectors::mirror(service.name).ok_or("this service has no mirror")?;
        if !self.begin(service.name, Work::Syncing { message: "starting".to_owned() }) {
            return Err("a sync or a sign-in is running already".to_owned());
        }
        let work = self.clone();
        tokio::spawn(async move {
            let progress = |step: SyncProgress<'_>| {
                let message = match step {
                    SyncProgress::Waits => "waiting for another sync of this account".to_owned(),
                    SyncProgress::Page { resource, records, share } => {
                        format!("{resource}: {records} records, {:.0} %", share * 100.0)
                    }
                    SyncProgress::Done { resource } => format!("{resource}: done"),
                };
                work.set(service.name, Work::Syncing { message });
            };
            let ended = match sync::run(&ctx, mirror, &SyncRequest::default(), &progress).await {
                Err(error) => Work::Failed { message: error.to_string() },
                Ok(report) => {
                    let warnings = report.warnings(ResourceError::line);
                    let synced = format!("{} new or changed records", report.upserted());
                    if warnings.is_empty() {
                        Work::Done { message: synced }
                    } else {
                        Work::Failed { message: warnings.join("; ") }
                    }
                }
            };
            let (act, message) = match &ended {
                Work::Failed { message } => ("sync_failed", message.clone()),
                Work::Done { message } => ("synced", message.clone()),
                _ => ("synced", String::new()),
            };
            let note = Note { act, by: &by, about: service.name, words: &message };
            if let Err(error) = ledger.note(&note) {
                tracing::error!(%error, "could not record a sync");
            }
            work.set(service.name, ended);
        });
        Ok(())
    }

    /// Starts a sign-in. What the owner typed is in `field`, by the names of the form.
    pub(crate) async fn connect(
        &self,
        ctx: Arc<ConnectorContext>,
        service: &'static Service,
        field: &(dyn Fn(&str) -> Option<String> + Sync),
        (ledger, by): (Arc<Ledger>, String),
    ) -> Result<Continue, String> {
        let account = service.account.ok_or("this service has no accounts")?;
        let settings = ctx.settings.of(service).ok_or("the service has no settings")?.clone();
        if let Some(refusal) = ctx.http.refusal(&settings.oauth_base) {
            return Err(refusal.to_string());
        }
        let before = ctx.accounts.load(service.name).unwrap_or_default();
        let mut fresh = accounts::Account::new(service.name, ctx.clock.now().wall_us);
        fresh.extra = before.as_ref().map(|before| before.extra.clone()).unwrap_or_default();
        let known = settings.values.iter();
        fresh.extra.extend(known.map(|(name, value)| ((*name).to_owned(), value.clone())));
        let ending =
            Ending { work: self.clone(), ctx: Arc::clone(&ctx), service, before, ledger, by };
        if let SignIn::Values(fields) = account.sign_in {
            for wanted in fields {
                if let Some(value) = field(wanted.name) {
                    fresh.extra.insert(wanted.name.to_owned(), Secret::new(value));
                } else if !fresh.extra.contains_key(wanted.name) {
                    return Err(format!("{} is missing", wanted.title));
                }
            }
            self.claim(service)?;
            tokio::spawn(async move { ending.save_and_check(fresh).await });
            return Ok(Continue::Checking);
        }
        let grant = client(account, &settings, &mut fresh, &ending, field)?;
        let mut settings = settings;
        settings.client_id.clone_from(&fresh.client_id);
        self.claim(service)?;
        let begun = begin(&ctx, account, &settings, grant, fresh, ending).await;
        if let Err(message) = &begun {
            self.set(service.name, Work::Failed { message: message.clone() });
        }
        begun
    }

    fn claim(&self, service: &'static Service) -> Result<(), String> {
        if self.begin(service.name, Work::SigningIn) {
            return Ok(());
        }
        Err("a sync or a sign-in is running already".to_owned())
    }
}

/// The app at the service: typed, from the settings, or of the previous account.
fn client(
    account: &'static Account,
    settings: &ServiceSettings,
    fresh: &mut accounts::Account,
    ending: &Ending,
    field: &(dyn Fn(&str) -> Option<String> + Sync),
) -> Result<Grant, String> {
    let before = ending.before.as_ref();
    let id = field("client_id").or_else(|| settings.client_id.clone());
    let id = id.or_else(|| before.and_then(|before| before.client_id.clone()));
    let id = id.ok_or("the client id is missing")?;
    let of = |other: Option<&String>| other.is_none_or(|other| *other == id);
    let set = settings.client_secret.clone().filter(|_| of(settings.client_id.as_ref()));
    let kept = before.filter(|before| of(before.client_id.as_ref()));
    let secret = field("client_secret").map(Secret::new).or(set);
    let secret = secret.or_else(|| kept.and_then(|before| before.client_secret.clone()));
    let is_public =
        matches!(account.sign_in.client(), Some(Client::Public | Client::BasicIfSecret));
    if secret.is_none() && !is_public {
        return Err("the client secret is missing".to_owned());
    }
    fresh.client_id = Some(id);
    fresh.client_secret = secret;
    let mut settings = settings.clone();
    settings.client_id.clone_from(&fresh.client_id);
    settings.client_secret.clone_from(&fresh.client_secret);
    Grant::new(account, &settings, fresh).map_err(|error| error.to_string())
}

async fn begin(
    ctx: &Arc<ConnectorContext>,
    account: &'static Account,
    settings: &ServiceSettings,
    grant: Grant,
    fresh: accounts::Account,
    ending: Ending,
) -> Result<Continue, String> {
    let message = |error: &dyn std::fmt::Display| error.to_string();
    let SignIn::Code { redirect, .. } = account.sign_in else {
        let code = DeviceCode::begin(&ctx.http, &grant, account).await.map_err(|e| message(&e))?;
        let shown = Continue::Device { url: code.url.to_string(), code: code.user_code.clone() };
        tokio::spawn(async move {
            let tokens = code.tokens(&ending.ctx.http, &grant).await;
            ending.finish(account, fresh, tokens.map_err(|error| error.to_string())).await;
        });
        return Ok(shown);
    };
    let redirect = settings.redirect_uri.as_deref().unwrap_or(redirect);
    let redirect = Redirect::parse(redirect).map_err(|e| message(&e))?;
    let attempt = Attempt::begin(account, settings, grant.client_id(), redirect, &ctx.random);
    let attempt = Arc::new(attempt.map_err(|e| message(&e))?);
    let listener = Listener::open(&attempt.redirect).await.map_err(|e| message(&e))?;
    let listener = listener.ok_or_else(|| {
        format!(
            "the redirect `{}` does not lead to this machine; use `tollgate connect`",
            attempt.redirect.as_str()
        )
    })?;
    let shown = Continue::Browser {
        url: attempt.url.to_string(),
        redirect: attempt.redirect.as_str().to_owned(),
    };
    tokio::spawn(async move {
        let code = tokio::time::timeout(SIGN_IN_WAIT, listener.code(Arc::clone(&attempt))).await;
        let tokens = match code {
            Err(_) => Err("no sign-in within 10 minutes".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(code)) => {
                attempt.exchange(&ending.ctx.http, &grant, &code).await.map_err(|e| e.to_string())
            }
        };
        ending.finish(account, fresh, tokens).await;
    });
    Ok(shown)
}

/// What a sign-in needs when it ends.
struct Ending {
    work: AccountWork,
    ctx: Arc<ConnectorContext>,
    service: &'static Service,
    before: Option<accounts::Account>,
    ledger: Arc<Ledger>,
    by: String,
}

impl Ending {
    async fn finish(
        self,
        account: &'static Account,
        mut fresh: accounts::Account,
        tokens: Result<Tokens, String>,
    ) {
        match tokens {
            Err(message) => self.work.set(self.service.name, Work::Failed { message }),
            Ok(tokens) => {
                fresh.scopes = account.scopes.iter().map(|&scope| scope.to_owned()).collect();
                tokens.apply(&mut fresh, self.ctx.clock.now().wall_us);
                self.save_and_check(fresh).await;
            }
        }
    }

    /// Saves the account and checks it; the old one is restored if the service rejects the new one.
    async fn save_and_check(self, mut fresh: accounts::Account) {
        if let Some(before) = &self.before {
            fresh.remember_secret(before);
        }
        let name = self.service.name;
        if let Err(message) = self.save(Some(&fresh)) {
            return self.work.set(name, Work::Failed { message });
        }
        if let Err(error) = check(&self.ctx, self.service).await
            && error.is_final()
        {
            let message =
                self.save(self.before.as_ref()).err().unwrap_or_else(|| error.to_string());
            return self.work.set(name, Work::Failed { message });
        }
        let note = Note { act: "connect", by: &self.by, about: name, words: "" };
        if let Err(error) = self.ledger.note(&note) {
            tracing::error!(%error, "a sign-in could not be recorded");
        }
        self.work.set(name, Work::Done { message: "connected".to_owned() });
    }

    fn save(&self, account: Option<&accounts::Account>) -> Result<(), String> {
        let locked = self.ctx.accounts.lock(self.service.name).map_err(|e| e.to_string())?;
        let saved = match account {
            Some(account) => locked.save(account),
            None => locked.wipe().map(drop),
        };
        saved.map_err(|error| error.to_string())
    }
}

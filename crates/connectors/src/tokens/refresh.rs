//! One refresh, from lock to disk. A used refresh token is void at services that rotate, so the new
//! one is on disk before anything relies on it, and nothing between response and disk can be skipped.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use store::accounts::{Account, AccountState, Accounts, AccountsError, LockedAccount};
use store::clock::Clock;
use store::secret::Secret;

use super::{LOCK_PAUSE, LOCK_WAIT_MAX, TokenError, is_fresh, not_connected};
use crate::account;
use crate::http::Http;
use crate::oauth::grant::{Form, Grant};
use crate::oauth::token_response::{TokenRefusal, Tokens};
use crate::settings::ServiceSettings;
use crate::{ConnectorContext, Service};

/// A full disk may recover, and the new token has no second copy.
const SAVE_TRIES_MAX: u32 = 40;
const SAVE_PAUSE: Duration = Duration::from_millis(250);

/// Everything a refresh needs, owned, so that it continues when its caller is cancelled.
pub struct Refresher {
    pub(super) service: &'static Service,
    pub(super) settings: ServiceSettings,
    account: &'static account::Account,
    user_agent: String,
    accounts: Accounts,
    http: Http,
    clock: Clock,
}

impl Refresher {
    pub fn new(ctx: &ConnectorContext, service: &'static Service) -> Result<Refresher, TokenError> {
        let (Some(account), Some(settings)) = (service.account, ctx.settings.of(service)) else {
            return Err(not_connected(service.name));
        };
        Ok(Refresher {
            service,
            settings: settings.clone(),
            account,
            user_agent: ctx.user_agent(service),
            accounts: ctx.accounts.clone(),
            http: ctx.http.clone(),
            clock: ctx.clock.clone(),
        })
    }

    /// Refreshes unless another process has done so: the token is still `stale`, or, without one,
    /// about to expire.
    pub async fn run(self, stale: Option<String>) -> Result<(), TokenError> {
        let locked = self.lock().await?;
        let Some(mut account) = locked.load()? else {
            return Err(not_connected(self.service.name));
        };
        if let AccountState::Dead { message, .. } = &account.state {
            return Err(self.dead(message.clone()));
        }
        let is_stale = match (&stale, &account.access) {
            (Some(stale), Some(token)) => *stale == digest(token),
            _ => false,
        };
        if !is_stale && is_fresh(&account, self.now_us()) {
            return Ok(());
        }
        let Some(refresh) = account.refresh.clone() else {
            return Err(
                self.dead("it has expired and the service gave no refresh token".to_owned())
            );
        };
        // Written before the request: a process that finds this mark knows that a refresh was
        // interrupted. It also shows that the disk has space for the new token.
        account.refreshing_us = Some(self.now_us());
        locked.save(&account)?;
        match self.ask(&account, &refresh).await {
            Ok(tokens) => {
                tokens.apply(&mut account, self.now_us());
                self.save(&locked, &account).await
            }
            Err(refusal) => self.refused(&locked, account, &refresh, &refusal),
        }
    }

    async fn lock(&self) -> Result<LockedAccount, TokenError> {
        let tries = LOCK_WAIT_MAX.as_millis() / LOCK_PAUSE.as_millis();
        for _ in 0..tries {
            if let Some(locked) = self.accounts.try_lock(self.service.name)? {
                return Ok(locked);
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Err(self.outage("another process has been refreshing it for too long".to_owned()))
    }

    async fn ask(&self, account: &Account, refresh: &Secret) -> Result<Tokens, TokenRefusal> {
        let grant = Grant::new(self.account, &self.settings, account)?.named(&self.user_agent);
        let mut form = Form::of("refresh_token");
        form.push("refresh_token", refresh.expose());
        if let Some(scope) = self.account.refresh_scope {
            form.push("scope", scope);
        }
        grant.tokens(&self.http, form).await
    }

    async fn save(&self, locked: &LockedAccount, account: &Account) -> Result<(), TokenError> {
        let mut tries = 0;
        loop {
            match locked.save(account) {
                Ok(()) => return Ok(()),
                Err(AccountsError::Io { .. }) if tries < SAVE_TRIES_MAX => tries += 1,
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(SAVE_PAUSE).await;
        }
    }

    fn refused(
        &self,
        locked: &LockedAccount,
        mut account: Account,
        sent: &Secret,
        refusal: &TokenRefusal,
    ) -> Result<(), TokenError> {
        if !refusal.is_dead(self.account.dead) {
            if refusal.was_answered() {
                account.refreshing_us = None;
                locked.save(&account)?;
            }
            let message = refusal.to_string();
            if refusal.is_unknown_client() {
                let service = self.service.name.to_owned();
                return Err(TokenError::UnknownClient { service, message });
            }
            return Err(self.outage(message));
        }
        // A program that ignores our lock may have written a newer token.
        let now = locked.load()?;
        if now.is_some_and(|now| now.refresh.is_some_and(|refresh| refresh != *sent)) {
            return Ok(());
        }
        let message = refusal.to_string();
        account.refreshing_us = None;
        // Where consents expire, the token is worthless from now on.
        if self.account.consent_days_max.is_some() {
            account.refresh = None;
        }
        account.state = AccountState::Dead { since_us: self.now_us(), message: message.clone() };
        locked.save(&account)?;
        Err(self.dead(message))
    }

    fn now_us(&self) -> i64 {
        self.clock.now().wall_us
    }

    fn dead(&self, message: String) -> TokenError {
        TokenError::Dead { service: self.service.name.to_owned(), message }
    }

    fn outage(&self, message: String) -> TokenError {
        TokenError::Outage { service: self.service.name.to_owned(), message }
    }
}

/// Runs a refresh in its own task: cancelling a call must not interrupt it.
pub(super) async fn spawn(refresher: Refresher, stale: Option<String>) -> Result<(), TokenError> {
    let service = refresher.service.name;
    match tokio::spawn(refresher.run(stale)).await {
        Ok(outcome) => outcome,
        Err(error) => {
            Err(TokenError::Outage { service: service.to_owned(), message: error.to_string() })
        }
    }
}

/// Identifies a token without revealing it.
pub(crate) fn digest(token: &Secret) -> String {
    let hash = Sha256::digest(token.expose().as_bytes());
    URL_SAFE_NO_PAD.encode(hash)
}

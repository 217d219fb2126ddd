//! The login of the Python server, in both of its stored forms.

use serde::Deserialize;
use store::accounts::{Account, AccountsError};
use store::secret::Secret;

use super::fernet::{Key, START};
use crate::ConnectorContext;
use crate::whoop::SERVICE;

/// Converts a time without a zone, as that server writes it, to an instant. The caller knows the
/// owner's zone.
pub type LocalTime<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// The result for the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginImport {
    /// There was none.
    None,
    Imported,
    /// An account is already connected, and was not changed.
    KeptOurs,
    /// Without its key it cannot be opened.
    Unreadable,
}

impl LoginImport {
    pub fn as_str(self) -> &'static str {
        match self {
            LoginImport::None => "none",
            LoginImport::Imported => "taken",
            LoginImport::KeptOurs => "kept_ours",
            LoginImport::Unreadable => "unreadable",
        }
    }
}

#[derive(Deserialize)]
struct LegacyTokens {
    access_token: String,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    scope: Option<String>,
}

pub(super) fn take(
    ctx: &ConnectorContext,
    tokens: Option<&str>,
    key: Option<&str>,
    local: LocalTime<'_>,
) -> Result<LoginImport, AccountsError> {
    let Some(tokens) = tokens else { return Ok(LoginImport::None) };
    let locked = ctx.accounts.lock(SERVICE.name)?;
    let present = locked.load()?;
    if present.as_ref().is_some_and(|account| account.refresh.is_some() || account.access.is_some())
    {
        // Ours may have been refreshed since; using theirs would void both.
        return Ok(LoginImport::KeptOurs);
    }
    let key = key.and_then(Key::read);
    let Some(tokens) = read(tokens, key.as_ref()) else { return Ok(LoginImport::Unreadable) };
    let now_us = ctx.clock.now().wall_us;
    let account = account(ctx, present, tokens, now_us, local);
    locked.save(&account)?;
    Ok(LoginImport::Imported)
}

/// A JSON object with sealed members, or the whole object sealed.
fn read(text: &str, key: Option<&Key>) -> Option<LegacyTokens> {
    let text = text.trim();
    let whole = if text.starts_with(START) { Some(key?.open(text)?) } else { None };
    let text = whole.as_ref().map_or(text, |whole| whole.expose());
    let mut tokens: LegacyTokens = serde_json::from_str(text).ok()?;
    let open = |token: String| {
        if !token.starts_with(START) {
            return Some(token);
        }
        key?.open(&token).map(|token| token.expose().clone())
    };
    tokens.access_token = open(tokens.access_token)?;
    tokens.refresh_token = match tokens.refresh_token {
        Some(token) => Some(open(token)?),
        None => None,
    };
    Some(tokens)
}

fn account(
    ctx: &ConnectorContext,
    present: Option<Account>,
    tokens: LegacyTokens,
    now_us: i64,
    local: LocalTime<'_>,
) -> Account {
    let mut account = present.unwrap_or_else(|| Account::new(SERVICE.name, now_us));
    let settings = ctx.settings.of(&SERVICE);
    if account.client_id.is_none() {
        account.client_id = settings.and_then(|s| s.client_id.clone());
    }
    if account.client_secret.is_none() {
        account.client_secret = settings.and_then(|s| s.client_secret.clone());
    }
    account.access = Some(Secret::new(tokens.access_token));
    account.refresh = tokens.refresh_token.filter(|token| !token.is_empty()).map(Secret::new);
    if let Some(token_type) = tokens.token_type {
        account.token_type = token_type;
    }
    account.scopes = match (&tokens.scope, SERVICE.account) {
        (Some(scope), _) => scope.split_whitespace().map(str::to_owned).collect(),
        // That server requested all of them and recorded none.
        (None, Some(known)) => known.scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        (None, None) => Vec::new(),
    };
    // A time that cannot be read counts as past: the first use refreshes.
    account.expires_us = Some(tokens.expires_at.as_deref().and_then(local).unwrap_or(0));
    account.state = store::accounts::AccountState::Live;
    account
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const KEY: &str = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";
    const HELLO: &str = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA==";

    #[test]
    fn sealed_members_are_opened_and_plain_ones_taken() {
        let key = Key::read(KEY);
        let text = format!(r#"{{"access_token":"{HELLO}","refresh_token":"plain"}}"#);
        let tokens = read(&text, key.as_ref()).unwrap();
        assert_eq!(tokens.access_token, "hello");
        assert_eq!(tokens.refresh_token.as_deref(), Some("plain"));
        assert!(read(&text, None).is_none(), "a sealed member without its key");
        assert!(read("{}", key.as_ref()).is_none());
        assert!(read(HELLO, key.as_ref()).is_none(), "sealed, but no object");
    }
}

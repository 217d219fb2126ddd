//! The format of an account file: fields in clear, each secret sealed for its own column.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{Account, AccountState, AccountSummary, AccountsError, damaged};
use crate::random::Random;
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed, Vault};

const VERSION: u32 = 1;
/// One account per service for now; the format already has a place for a second one.
const ACCOUNT: &str = "owner";
/// Prefix of the columns that a service chose.
const EXTRA: &str = "extra.";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountFile {
    version: u32,
    service: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    token_type: String,
    scopes: Vec<String>,
    expires_us: Option<i64>,
    created_us: i64,
    refreshed_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refreshing_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead: Option<Dead>,
    /// Column to sealed value, in base64.
    sealed: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dead {
    since_us: i64,
    #[serde(rename = "words")]
    message: String,
}

pub(super) fn seal(
    account: &Account,
    vault: &Vault,
    random: &Random,
) -> Result<String, AccountsError> {
    let mut sealed = BTreeMap::new();
    for (column, secret) in columns(account) {
        let row = row(&account.service, &column);
        let value = vault.seal(Purpose::AccountSecret, &row, secret.expose().as_bytes(), random)?;
        sealed.insert(column, STANDARD.encode(value.as_bytes()));
    }
    let dead = match &account.state {
        AccountState::Live => None,
        AccountState::Dead { since_us, message } => {
            Some(Dead { since_us: *since_us, message: message.clone() })
        }
    };
    let text = AccountFile {
        version: VERSION,
        service: account.service.clone(),
        client_id: account.client_id.clone(),
        token_type: account.token_type.clone(),
        scopes: account.scopes.clone(),
        expires_us: account.expires_us,
        created_us: account.created_us,
        refreshed_us: account.refreshed_us,
        refreshing_us: account.refreshing_us,
        dead,
        sealed,
    };
    let mut text = serde_json::to_string_pretty(&text)
        .map_err(|e| damaged(&account.service, e.to_string()))?;
    text.push('\n');
    Ok(text)
}

pub(super) fn open(service: &str, text: &str, vault: &Vault) -> Result<Account, AccountsError> {
    let text = read(service, text)?;
    let mut account = Account {
        client_id: text.client_id,
        token_type: text.token_type,
        scopes: text.scopes,
        expires_us: text.expires_us,
        refreshed_us: text.refreshed_us,
        refreshing_us: text.refreshing_us,
        state: state(text.dead),
        ..Account::new(service, text.created_us)
    };
    for (column, value) in text.sealed {
        let secret = opened(service, &column, &value, vault)?;
        match column.as_str() {
            "client_secret" => account.client_secret = Some(secret),
            "access" => account.access = Some(secret),
            "refresh" => account.refresh = Some(secret),
            other => {
                let name = other.strip_prefix(EXTRA).unwrap_or(other).to_owned();
                account.extra.insert(name, secret);
            }
        }
    }
    Ok(account)
}

pub(super) fn summary(service: &str, text: &str) -> Result<AccountSummary, AccountsError> {
    let text = read(service, text)?;
    Ok(AccountSummary {
        service: text.service,
        client_id: text.client_id,
        kept: text.sealed.into_keys().collect(),
        token_type: text.token_type,
        scopes: text.scopes,
        expires_us: text.expires_us,
        created_us: text.created_us,
        refreshed_us: text.refreshed_us,
        refreshing_us: text.refreshing_us,
        state: state(text.dead),
    })
}

/// The parser's message may quote the file, so only the position is reported.
fn read(service: &str, text: &str) -> Result<AccountFile, AccountsError> {
    let text: AccountFile = serde_json::from_str(text).map_err(|e| {
        damaged(service, format!("line {}, column {} cannot be read", e.line(), e.column()))
    })?;
    if text.version != VERSION {
        return Err(damaged(service, format!("it has version {}, not {VERSION}", text.version)));
    }
    if text.service != service {
        return Err(damaged(service, "it belongs to another service"));
    }
    Ok(text)
}

fn opened(
    service: &str,
    column: &str,
    value: &str,
    vault: &Vault,
) -> Result<Secret, AccountsError> {
    let bytes = STANDARD
        .decode(value)
        .map_err(|_| damaged(service, format!("`{column}` is not base64")))?;
    let sealed = Sealed::from_bytes(Purpose::AccountSecret, &row(service, column), bytes);
    vault
        .open_text(&sealed)
        .map_err(|source| AccountsError::Sealed { service: service.to_owned(), source })
}

fn columns(account: &Account) -> Vec<(String, &Secret)> {
    let tokens = [
        ("client_secret", &account.client_secret),
        ("access", &account.access),
        ("refresh", &account.refresh),
    ];
    let tokens =
        tokens.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_ref()?)));
    let extra = account.extra.iter().map(|(name, value)| (format!("{EXTRA}{name}"), value));
    tokens.chain(extra).collect()
}

/// The location that a value is sealed for; it cannot be opened in another.
fn row(service: &str, column: &str) -> String {
    format!("{service}/{ACCOUNT}/{column}")
}

fn state(dead: Option<Dead>) -> AccountState {
    dead.map_or(AccountState::Live, |dead| AccountState::Dead {
        since_us: dead.since_us,
        message: dead.message,
    })
}

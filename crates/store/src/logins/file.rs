//! The format of a login file: facts in clear, all secrets in one sealed value. The seal covers the issuer and the
//! token endpoint, so that a changed file cannot send a token elsewhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Login, LoginFacts, LoginTokens, LoginsError};
use crate::random::Random;
use crate::secret::Secret;
use crate::vault::{Purpose, Sealed, Vault, VaultError};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginFile {
    version: u32,
    login: LoginFacts,
    /// The sealed tokens in base64; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PlainTokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh: Option<String>,
}

pub(super) fn seal(
    name: &str,
    login: &Login,
    vault: &Vault,
    random: &Random,
) -> Result<String, LoginsError> {
    let failed = |e: serde_json::Error| damaged(name, e.to_string());
    let text = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().clone());
    let tokens = &login.tokens;
    let plain = PlainTokens {
        client_secret: text(&tokens.client_secret),
        access: text(&tokens.access),
        refresh: text(&tokens.refresh),
    };
    let sealed = if tokens.secrets().next().is_some() {
        let plain = Zeroizing::new(serde_json::to_vec(&plain).map_err(failed)?);
        let sealed = vault.seal(Purpose::ServerLogin, &row(name, &login.facts), &plain, random)?;
        Some(STANDARD.encode(sealed.as_bytes()))
    } else {
        None
    };
    let file = LoginFile { version: VERSION, login: login.facts.clone(), sealed };
    let mut text = serde_json::to_string_pretty(&file).map_err(failed)?;
    text.push('\n');
    Ok(text)
}

pub(super) fn open(name: &str, text: &str, vault: &Vault) -> Result<Login, LoginsError> {
    let file = read(name, text)?;
    let mut login = Login { facts: file.login, tokens: LoginTokens::default() };
    let Some(sealed) = file.sealed else { return Ok(login) };
    let bytes = STANDARD.decode(sealed).map_err(|_| damaged(name, "its secrets are not base64"))?;
    let sealed = Sealed::from_bytes(Purpose::ServerLogin, &row(name, &login.facts), bytes);
    let closed = |source: VaultError| LoginsError::Sealed { server: server(name), source };
    let plain = vault.open(&sealed).map_err(closed)?;
    let plain: PlainTokens = serde_json::from_slice(plain.expose())
        .map_err(|_| damaged(name, "its secrets cannot be read"))?;
    login.tokens = LoginTokens {
        client_secret: plain.client_secret.map(Secret::new),
        access: plain.access.map(Secret::new),
        refresh: plain.refresh.map(Secret::new),
    };
    Ok(login)
}

pub(super) fn facts(name: &str, text: &str) -> Result<LoginFacts, LoginsError> {
    read(name, text).map(|file| file.login)
}

/// The parser's message may quote the file, so only the position is reported.
fn read(name: &str, text: &str) -> Result<LoginFile, LoginsError> {
    let file: LoginFile = serde_json::from_str(text).map_err(|e| {
        damaged(name, format!("line {}, column {} cannot be read", e.line(), e.column()))
    })?;
    if file.version != VERSION {
        return Err(damaged(name, format!("it has version {}, not {VERSION}", file.version)));
    }
    if file.login.key().file_name() != name {
        return Err(damaged(name, "it belongs to another server or grant"));
    }
    Ok(file)
}

fn row(name: &str, facts: &LoginFacts) -> String {
    format!("{name}\n{}\n{}", facts.issuer, facts.token_endpoint)
}

fn server(name: &str) -> String {
    name.split('@').next().unwrap_or_default().to_owned()
}

fn damaged(name: &str, why: impl Into<String>) -> LoginsError {
    LoginsError::Damaged { server: server(name), why: why.into() }
}

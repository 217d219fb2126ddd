//! Where the values of an account come from.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use connectors::account::{Client as ClientAuth, Field};
use connectors::oauth::code::Redirect;
use connectors::oauth::token_response::Tokens;
use connectors::{Account, ServiceSettings};
use serde_json::{Map, Value};
use store::accounts;
use store::secret::Secret;
use zeroize::Zeroizing;

use super::ConnectArgs;
use crate::credential::SecretArg;
use crate::output::Out;

const TOKENS_BYTES_MAX: u64 = 1 << 20;

/// The OAuth client at the service: from the arguments, the settings or the previous account, in this
/// order.
pub(super) struct OAuthClient<'a> {
    pub(super) settings: &'a ServiceSettings,
    pub(super) before: Option<&'a accounts::Account>,
    pub(super) account: &'static Account,
}

impl OAuthClient<'_> {
    pub(super) fn known_id(&self, args: &ConnectArgs) -> Option<String> {
        let given = args.client_id.clone().or_else(|| self.settings.client_id.clone());
        given.or_else(|| self.before.and_then(|before| before.client_id.clone()))
    }

    pub(super) fn known_secret(
        &self,
        args: &ConnectArgs,
        id: Option<&str>,
    ) -> Result<Option<Secret>> {
        if let Some(file) = &args.client_secret_file {
            return Ok(Some(secret_file(file)?));
        }
        // A secret belongs to an id; one of another app would only be refused.
        let of = |other: Option<&str>| other.is_none() || id.is_none() || other == id;
        let set = self.settings.client_secret.clone();
        let set = set.filter(|_| of(self.settings.client_id.as_deref()));
        let before = self.before.filter(|before| of(before.client_id.as_deref()));
        Ok(set.or_else(|| before.and_then(|before| before.client_secret.clone())))
    }

    pub(super) fn id(&self, args: &ConnectArgs) -> Result<String> {
        match self.known_id(args) {
            Some(id) => Ok(id),
            None => ask("client id").with_context(|| {
                format!(
                    "the client id is not known\nhint: `--client-id ID`, or set `{}`",
                    self.account.client_id
                )
            }),
        }
    }

    pub(super) fn secret(&self, args: &ConnectArgs, id: &str) -> Result<Option<Secret>> {
        if let Some(secret) = self.known_secret(args, Some(id))? {
            return Ok(Some(secret));
        }
        let client = self.account.sign_in.client();
        if matches!(client, Some(ClientAuth::Public | ClientAuth::BasicIfSecret)) {
            return Ok(None);
        }
        if !io::stdin().is_terminal() {
            bail!(
                "the client secret is not known\nhint: `--client-secret-file FILE`, or set `{}`",
                self.account.client_secret
            );
        }
        SecretArg::parse("client-secret-file", "client secret")?.fetch().map(Some)
    }
}

/// A token response from a file or from standard input.
pub(super) fn tokens(file: &Path) -> Result<Tokens> {
    let shown = file.display();
    let mut text = Zeroizing::new(String::new());
    if file == Path::new("-") {
        io::stdin().take(TOKENS_BYTES_MAX).read_to_string(&mut text)
    } else {
        let opened = store::files::open(file).with_context(|| format!("cannot read `{shown}`"))?;
        opened.take(TOKENS_BYTES_MAX).read_to_string(&mut text)
    }
    .map_err(|e| anyhow!("cannot read `{shown}` as text: {}", e.kind()))?;
    // The parser's message may quote the text, so only the position is shown.
    let object: Map<String, Value> = serde_json::from_str(&text).map_err(|e| {
        anyhow!(
            "`{shown}` is not a token response: line {}, column {}\nhint: it is a JSON object with `access_token`, `refresh_token`, `expires_in`",
            e.line(),
            e.column()
        )
    })?;
    Tokens::read(&object).map_err(|e| {
        anyhow!("`{shown}` is not a token response: {e}\nhint: it is a JSON object with `access_token`, `refresh_token`, `expires_in`")
    })
}

/// The values of a service without OAuth: each from its variable, or asked for.
pub(super) fn values(
    fields: &[Field],
    settings: &ServiceSettings,
) -> Result<BTreeMap<String, Secret>> {
    let mut values = BTreeMap::new();
    for field in fields {
        let value = match settings.values.get(field.name) {
            Some(value) => value.clone(),
            None if field.hidden && io::stdin().is_terminal() => {
                SecretArg::parse(field.variable, field.title)?.fetch()?
            }
            None => Secret::new(ask(field.title).with_context(|| {
                format!("{} is not known\nhint: set `{}`", field.title, field.variable)
            })?),
        };
        values.insert(field.name.to_owned(), value);
    }
    Ok(values)
}

/// Values beyond the sign-in: those of the previous account, overridden by the environment.
pub(super) fn known_values(
    settings: &ServiceSettings,
    before: Option<&accounts::Account>,
) -> BTreeMap<String, Secret> {
    let mut values = before.map(|before| before.extra.clone()).unwrap_or_default();
    values.extend(settings.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    values
}

/// Prints the steps to get the credentials.
pub(super) fn guide(account: &Account, redirect: Option<&Redirect>, out: &Out) {
    for (n, step) in account.guide.iter().enumerate() {
        out.say(format_args!("{}. {step}", n + 1));
    }
    if let Some(redirect) = redirect {
        out.say(format_args!("redirect address: {}", redirect.as_str()));
    }
}

fn secret_file(file: &Path) -> Result<Secret> {
    if file == Path::new("-") {
        return Ok(Secret::new(line()?));
    }
    SecretArg::parse("client-secret-file", &format!("client secret=@{}", file.display()))?.fetch()
}

fn ask(title: &str) -> Result<String> {
    if io::stdin().is_terminal() {
        eprint_prompt(title);
    }
    line()
}

/// A line that may be empty.
pub(super) fn optional(title: &str) -> Result<String> {
    eprint_prompt(title);
    let mut text = String::new();
    io::stdin().lock().read_line(&mut text).context("cannot read standard input")?;
    Ok(text.trim().to_owned())
}

#[expect(clippy::print_stderr, reason = "a prompt stays on its line")]
fn eprint_prompt(title: &str) {
    eprint!("{title}: ");
}

fn line() -> Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_line(&mut text).context("cannot read standard input")?;
    let text = text.trim().to_owned();
    if text.is_empty() { Err(anyhow!("the input is empty")) } else { Ok(text) }
}

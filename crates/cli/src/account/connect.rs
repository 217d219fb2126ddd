//! Signs in, tries the credentials for real, and only then says that the account is connected.

use std::io::{self, IsTerminal as _};

use anyhow::{Context as _, Result, anyhow, bail};
use connectors::account::{CheckError, Client as ClientAs, SignIn, check};
use connectors::oauth::answer::Tokens;
use connectors::oauth::grant::Grant;
use connectors::whoop::export;
use connectors::{Account, Desk, Service};
use serde_json::json;
use store::accounts;

use super::sources::{self, Client};
use super::{ConnectArgs, find, runtime, sign_in};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, visible};

pub(crate) fn connect(args: &ConnectArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (service, account) = find(&args.service)?;
    let stores = context.open()?;
    let desk = stores.desk()?;
    let settings = desk.settings.of(service).context("the service has no settings")?;
    if let Some(refusal) = desk.http.refusal(&settings.oauth_base) {
        return Err(refusal.into());
    }
    let before = match desk.accounts.load(service.name) {
        Ok(before) => before,
        Err(error) => {
            out.warn(visible(&error.to_string()));
            None
        }
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut fresh = fresh(args, service, account, &desk, before.as_ref(), out).await?;
        if let Some(before) = &before {
            fresh.remember_secret(before);
        }
        keep(args, service, &desk, &fresh, before.as_ref(), &stores, out).await
    });
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    ended
}

/// The account as the owner brings it now.
async fn fresh(
    args: &ConnectArgs,
    service: &'static Service,
    account: &'static Account,
    desk: &Desk,
    before: Option<&accounts::Account>,
    out: &Out,
) -> Result<accounts::Account> {
    let now_us = desk.clock.now().wall_us;
    let settings = desk.settings.of(service).context("the service has no settings")?;
    let mut fresh = accounts::Account::new(service.name, now_us);
    if let SignIn::Values(fields) = account.sign_in {
        sources::guide(account, None, out);
        fresh.extra = sources::known_values(settings, before);
        fresh.extra.extend(sources::values(fields, settings)?);
        return Ok(fresh);
    }
    fresh.extra = sources::known_values(settings, before);
    let client = Client { settings, before, account };
    if let Some(file) = &args.tokens {
        let tokens = sources::tokens(file)?;
        fresh.client_id = client.known_id(args);
        fresh.client_secret = client.known_secret(args, fresh.client_id.as_deref())?;
        tokens.apply(&mut fresh, now_us);
        return Ok(fresh);
    }
    let redirect = sign_in::redirect(account, settings, args.port)?;
    if client.known_id(args).is_none() {
        sources::guide(account, redirect.as_ref(), out);
    }
    let id = client.id(args)?;
    fresh.client_secret = client.secret(args, &id)?;
    fresh.client_id = Some(id);
    // What was just typed counts before the environment: it is the client the owner means.
    let mut settings = settings.clone();
    settings.client_id.clone_from(&fresh.client_id);
    settings.client_secret.clone_from(&fresh.client_secret);
    let grant = Grant::new(account, &settings, &fresh)?;
    let tokens: Tokens = match redirect {
        Some(redirect) => {
            sign_in::browser(desk, account, &settings, &grant, redirect, args.no_browser, out)
                .await?
        }
        None => sign_in::device(desk, account, &grant, args.no_browser, out).await?,
    };
    // A service that grants just what was asked for need not say so.
    fresh.scopes = account.scopes.iter().map(|&scope| scope.to_owned()).collect();
    tokens.apply(&mut fresh, desk.clock.now().wall_us);
    Ok(fresh)
}

/// Keeps the account, tries it, and puts the old one back if it does not work or is of somebody else
/// than the records here.
async fn keep(
    args: &ConnectArgs,
    service: &'static Service,
    desk: &Desk,
    fresh: &accounts::Account,
    before: Option<&accounts::Account>,
    stores: &Stores,
    out: &mut Out,
) -> Result<Ending> {
    let begun = stores.begin("connect", service.name)?;
    save(desk, service, Some(fresh))?;
    let mut checked = check(desk, service).await;
    if args.replace && matches!(checked, Err(CheckError::OtherPerson(_))) {
        let forgetting = stores.begin("forget", service.name)?;
        let wiped = desk.records.forget(service.name)?;
        stores.done(&forgetting, "the records of another person")?;
        out.say(format_args!("{wiped} records of another person were deleted"));
        checked = check(desk, service).await;
    }
    if let Err(error) = &checked
        && error.is_final()
    {
        save(desk, service, before)?;
        stores.undone(&begun);
        let kept =
            if before.is_some() { "the account there was is kept" } else { "nothing is kept" };
        if let CheckError::OtherPerson(_) = error {
            bail!("{kept}: {error}");
        }
        // What it hints at is what was just tried.
        let words = error.to_string();
        let words = words.lines().next().unwrap_or_default();
        bail!(
            "{words}; {kept}\nhint: check what you gave, then `tollgate connect {}` again",
            service.name
        );
    }
    stores.done(&begun, "")?;
    if service.name == connectors::whoop::NAME && args.tokens.is_none() && !out.wants_json() {
        ask_for_exports(desk, stores, out)?;
    }
    let facts = desk.accounts.facts(service.name)?;
    let facts = facts.ok_or_else(|| anyhow!("the account was removed meanwhile"))?;
    told(service, &facts, checked.as_ref().err(), out)
}

/// Asks once, and only at a terminal, for a folder that agents may export to.
fn ask_for_exports(desk: &Desk, stores: &Stores, out: &Out) -> Result<()> {
    let is_known = desk.exports_allowed.is_some() || export::is_folder_asked(&desk.records)?;
    if is_known || !io::stdin().is_terminal() {
        return Ok(());
    }
    out.say(format_args!("agents may write exports to `{}`", desk.exports.display()));
    let folder = sources::optional("Another folder for them, such as ~/whoop (empty for none)")?;
    if !folder.is_empty() && !folder.starts_with("~/") && !folder.starts_with('/') {
        out.warn("not a folder from `/` or `~/`; `exports` of `[services.whoop]` in tollgate.toml sets one");
        return Ok(());
    }
    export::allow_folder(&desk.records, &folder)?;
    if !folder.is_empty() {
        stores.note("exports", connectors::whoop::NAME, &folder)?;
    }
    Ok(())
}

fn save(desk: &Desk, service: &Service, account: Option<&accounts::Account>) -> Result<()> {
    let locked = desk.accounts.lock(service.name)?;
    match account {
        Some(account) => locked.save(account)?,
        None => drop(locked.wipe()?),
    }
    Ok(())
}

fn told(
    service: &Service,
    facts: &accounts::Facts,
    unclear: Option<&CheckError>,
    out: &mut Out,
) -> Result<Ending> {
    let missing = missing_scopes(service, facts);
    let is_oauth = !matches!(service.account.map(|a| &a.sign_in), Some(SignIn::Values(_)));
    if let Some(error) = unclear {
        out.warn(format_args!("saved, but not checked: {}", visible(&error.to_string())));
    }
    if !missing.is_empty() {
        out.warn(format_args!(
            "not granted: {}; what needs it will not work",
            visible(&missing.join(" "))
        ));
    }
    if is_oauth && !facts.has("refresh") {
        out.warn("no refresh token came: the login ends when its access token does");
    } else if let Some(unknown) = unknown_client(service, facts) {
        out.warn(format_args!(
            "{unknown}: without it the login ends when its access token does; connect again with it"
        ));
    }
    if out.wants_json() {
        out.json(&json!({
            "service": service.name,
            "state": "connected",
            "checked": unclear.is_none(),
            "client_id": facts.client_id,
            "scopes": facts.scopes,
            "missing_scopes": missing,
            "expires_at": facts.expires_us.map(moment::utc),
            "has_refresh_token": facts.has("refresh"),
        }))?;
    } else {
        let state = if unclear.is_none() { "it works" } else { "not checked yet" };
        out.line(format_args!("{} is connected: {state}", service.name))?;
        out.say(format_args!("next: `tollgate sync {}`", service.name));
    }
    Ok(Ending::Yes)
}

/// What a refresh would lack. A login from a file may come without the app it belongs to.
fn unknown_client(service: &Service, facts: &accounts::Facts) -> Option<String> {
    let account = service.account?;
    let needs_secret = match account.sign_in.client()? {
        ClientAs::Public | ClientAs::BasicIfSecret => false,
        ClientAs::Basic | ClientAs::Post => true,
    };
    let missing = match &facts.client_id {
        None => account.client_id,
        Some(_) if needs_secret && !facts.has("client_secret") => account.client_secret,
        Some(_) => return None,
    };
    Some(format!("`{missing}` is not known"))
}

/// Asked for but not granted. An account that does not know what was granted lacks nothing.
pub(super) fn missing_scopes(service: &Service, facts: &accounts::Facts) -> Vec<String> {
    let asked = service.account.map_or(&[][..], |account| account.scopes);
    if facts.scopes.is_empty() {
        return Vec::new();
    }
    let is_missing = |scope: &&&str| !facts.scopes.iter().any(|granted| granted == **scope);
    asked.iter().filter(is_missing).map(|&scope| scope.to_owned()).collect()
}

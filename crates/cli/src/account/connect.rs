//! Signs in, checks the credentials at the service, and only then reports the account as connected.

use std::io::{self, IsTerminal as _};

use anyhow::{Context as _, Result, anyhow, bail};
use connectors::account::{Client as ClientAuth, SignIn};
use connectors::credentials::{CheckError, check};
use connectors::oauth::grant::Grant;
use connectors::oauth::token_response::Tokens;
use connectors::{Account, AgentExports, ConnectorContext, Service};
use serde_json::json;
use store::accounts;

use super::sources::{self, OAuthClient};
use super::{ConnectArgs, find, runtime, sign_in};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, visible};

pub(crate) fn connect(args: &ConnectArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let (service, account) = find(&args.service)?;
    let stores = context.open()?;
    let ctx = stores.connector_context()?;
    let settings = ctx.settings.of(service).context("the service has no settings")?;
    if let Some(refusal) = ctx.http.refusal(&settings.oauth_base) {
        return Err(refusal.into());
    }
    let before = match ctx.accounts.load(service.name) {
        Ok(before) => before,
        Err(error) => {
            out.warn(visible(&error.to_string()));
            None
        }
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut fresh = sign_in_account(args, service, account, &ctx, before.as_ref(), out).await?;
        if let Some(before) = &before {
            fresh.remember_secret(before);
        }
        save_and_check(args, service, &ctx, &fresh, before.as_ref(), &stores, out).await
    });
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    ended
}

/// The account from this sign-in, not checked yet.
async fn sign_in_account(
    args: &ConnectArgs,
    service: &'static Service,
    account: &'static Account,
    ctx: &ConnectorContext,
    before: Option<&accounts::Account>,
    out: &Out,
) -> Result<accounts::Account> {
    let now_us = ctx.clock.now().wall_us;
    let settings = ctx.settings.of(service).context("the service has no settings")?;
    let mut fresh = accounts::Account::new(service.name, now_us);
    if let SignIn::Values(fields) = account.sign_in {
        sources::guide(account, None, out);
        fresh.extra = sources::known_values(settings, before);
        fresh.extra.extend(sources::values(fields, settings)?);
        return Ok(fresh);
    }
    fresh.extra = sources::known_values(settings, before);
    let client = OAuthClient { settings, before, account };
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
    // What was just typed overrides the environment: it is the client that the owner means.
    let mut settings = settings.clone();
    settings.client_id.clone_from(&fresh.client_id);
    settings.client_secret.clone_from(&fresh.client_secret);
    let grant = Grant::new(account, &settings, &fresh)?;
    let tokens: Tokens = match redirect {
        Some(redirect) => {
            sign_in::browser(ctx, account, &settings, &grant, redirect, args.no_browser, out)
                .await?
        }
        None => sign_in::device(ctx, account, &grant, args.no_browser, out).await?,
    };
    // A service that grants exactly the requested scopes need not list them.
    fresh.scopes = account.scopes.iter().map(|&scope| scope.to_owned()).collect();
    tokens.apply(&mut fresh, ctx.clock.now().wall_us);
    Ok(fresh)
}

/// Saves the account and checks it. Restores the old one if the check fails or if the records here
/// belong to another person.
async fn save_and_check(
    args: &ConnectArgs,
    service: &'static Service,
    ctx: &ConnectorContext,
    fresh: &accounts::Account,
    before: Option<&accounts::Account>,
    stores: &Stores,
    out: &mut Out,
) -> Result<Ending> {
    let begun = stores.begin("connect", service.name)?;
    save(ctx, service, Some(fresh))?;
    let mut checked = check(ctx, service).await;
    if args.replace && matches!(checked, Err(CheckError::OtherPerson(_))) {
        let forgetting = stores.begin("forget", service.name)?;
        let wiped = ctx.records.forget(service.name)?;
        stores.done(&forgetting, "the records of another person")?;
        out.say(format_args!("{wiped} records of another person were deleted"));
        checked = check(ctx, service).await;
    }
    if let Err(error) = &checked
        && error.is_final()
    {
        save(ctx, service, before)?;
        stores.undone(&begun);
        let kept =
            if before.is_some() { "the previous account is kept" } else { "nothing was saved" };
        if let CheckError::OtherPerson(_) = error {
            bail!("{kept}: {error}");
        }
        // Its hint suggests what was just tried.
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        bail!(
            "{message}; {kept}\nhint: check the values you entered, then `tollgate connect {}` again",
            service.name
        );
    }
    stores.done(&begun, "")?;
    let exports = connectors::connector(service.name).and_then(|connector| connector.agent_exports);
    if let Some(exports) = exports.filter(|_| args.tokens.is_none() && !out.wants_json()) {
        ask_for_exports(service, exports, ctx, stores, out)?;
    }
    let facts = ctx.accounts.summary(service.name)?;
    let facts = facts.ok_or_else(|| anyhow!("the account was removed during the check"))?;
    report(service, &facts, checked.as_ref().err(), out)
}

/// Asks once, and only at a terminal, for a folder that agents may export to.
fn ask_for_exports(
    service: &Service,
    exports: &AgentExports,
    ctx: &ConnectorContext,
    stores: &Stores,
    out: &Out,
) -> Result<()> {
    let is_known = ctx.exports_allowed.is_some() || (exports.is_requested)(&ctx.records)?;
    if is_known || !io::stdin().is_terminal() {
        return Ok(());
    }
    out.say(format_args!("agents may write exports to `{}`", ctx.exports.display()));
    let question = format!("Another folder for them, such as {} (empty for none)", exports.example);
    let folder = sources::optional(&question)?;
    if !folder.is_empty() && !folder.starts_with("~/") && !folder.starts_with('/') {
        out.warn(format_args!(
            "not a folder from `/` or `~/`; `exports` of `[services.{}]` in tollgate.toml sets one",
            service.name
        ));
        return Ok(());
    }
    (exports.allow)(&ctx.records, &folder)?;
    if !folder.is_empty() {
        stores.note("exports", service.name, &folder)?;
    }
    Ok(())
}

fn save(
    ctx: &ConnectorContext,
    service: &Service,
    account: Option<&accounts::Account>,
) -> Result<()> {
    let locked = ctx.accounts.lock(service.name)?;
    match account {
        Some(account) => locked.save(account)?,
        None => drop(locked.wipe()?),
    }
    Ok(())
}

fn report(
    service: &Service,
    facts: &accounts::AccountSummary,
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
            "not granted: {}; tools that need it will not work",
            visible(&missing.join(" "))
        ));
    }
    if is_oauth && !facts.has("refresh") {
        out.warn("the service sent no refresh token: the login ends with its access token");
    } else if let Some(unknown) = unknown_client(service, facts) {
        out.warn(format_args!(
            "{unknown}: without it the login ends with its access token; connect again with it"
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

/// The client value that a refresh would lack. Tokens from a file may come without their app.
fn unknown_client(service: &Service, facts: &accounts::AccountSummary) -> Option<String> {
    let account = service.account?;
    let needs_secret = match account.sign_in.client()? {
        ClientAuth::Public | ClientAuth::BasicIfSecret => false,
        ClientAuth::Basic | ClientAuth::Post => true,
    };
    let missing = match &facts.client_id {
        None => account.client_id,
        Some(_) if needs_secret && !facts.has("client_secret") => account.client_secret,
        Some(_) => return None,
    };
    Some(format!("`{missing}` is not known"))
}

/// Scopes that were requested but not granted. Empty if the granted scopes are unknown.
pub(super) fn missing_scopes(service: &Service, facts: &accounts::AccountSummary) -> Vec<String> {
    let requested = service.account.map_or(&[][..], |account| account.scopes);
    if facts.scopes.is_empty() {
        return Vec::new();
    }
    let is_missing = |scope: &&&str| !facts.scopes.iter().any(|granted| granted == **scope);
    requested.iter().filter(is_missing).map(|&scope| scope.to_owned()).collect()
}

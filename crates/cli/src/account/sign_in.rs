//! The interactive part of a sign-in: a browser redirect, a pasted address, or a code typed on another
//! device.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use connectors::account::SignIn;
use connectors::oauth::code::{Attempt, Redirect};
use connectors::oauth::device::DeviceCode;
use connectors::oauth::grant::Grant;
use connectors::oauth::listen::Listener;
use connectors::oauth::token_response::Tokens;
use connectors::oauth::{SignInError, browser as browsers};
use connectors::{Account, ConnectorContext, ServiceSettings};
use store::secret::Secret;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::output::{Out, visible};

const WAIT_MINUTES_MAX: u64 = 10;
const LINE_BYTES_MAX: usize = 16 << 10;

/// The redirect address; none for a service that signs in without a browser on this machine.
pub(super) fn redirect(
    account: &Account,
    settings: &ServiceSettings,
    port: Option<u16>,
) -> Result<Option<Redirect>> {
    let SignIn::Code { redirect, .. } = account.sign_in else { return Ok(None) };
    let redirect = Redirect::parse(settings.redirect_uri.as_deref().unwrap_or(redirect))?;
    Ok(Some(match port {
        Some(port) => redirect.with_port(port)?,
        None => redirect,
    }))
}

/// Signs in with a browser, on this machine or another one.
pub(super) async fn browser(
    ctx: &ConnectorContext,
    account: &Account,
    settings: &ServiceSettings,
    grant: &Grant,
    redirect: Redirect,
    no_browser: bool,
    out: &Out,
) -> Result<Tokens> {
    let attempt = Attempt::begin(account, settings, grant.client_id(), redirect, &ctx.random)?;
    let attempt = Arc::new(attempt);
    let listener = Listener::open(&attempt.redirect).await?;
    let host = settings.oauth_base.host();
    let opened = if no_browser { None } else { browsers::open(&attempt.url, std::env::vars_os())? };
    out.say(format_args!("sign in at {}:", visible(&host)));
    out.say(attempt.url.as_str());
    if opened.is_some() {
        out.say("your browser should show it now");
    }
    let paste = "paste the whole address it ends at here and press Enter";
    match &listener {
        Some(_) => out.say(format_args!(
            "waiting for the browser at {}; if it runs on another machine, {paste}",
            attempt.redirect.as_str()
        )),
        None => out.say(format_args!("when the browser shows a page it cannot open, {paste}")),
    }
    let wait = Duration::from_secs(WAIT_MINUTES_MAX * 60);
    let code = tokio::time::timeout(wait, code(&attempt, listener, out)).await;
    let code = code.map_err(|_| SignInError::TimedOut { minutes: WAIT_MINUTES_MAX })??;
    Ok(attempt.exchange(&ctx.http, grant, &code).await?)
}

async fn code(attempt: &Arc<Attempt>, listener: Option<Listener>, out: &Out) -> Result<Secret> {
    match listener {
        Some(listener) => tokio::select! {
            code = listener.code(Arc::clone(attempt)) => Ok(code?),
            code = pasted(attempt, true, out) => code,
        },
        None => pasted(attempt, false, out).await,
    }
}

/// Reads lines until one is the address of this sign-in.
async fn pasted(attempt: &Attempt, may_wait: bool, out: &Out) -> Result<Secret> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let Some(line) = lines.next_line().await? else {
            if may_wait {
                return std::future::pending().await;
            }
            bail!("standard input ended before the address was pasted");
        };
        if line.trim().is_empty() {
            continue;
        }
        match address(attempt, line.trim()).and_then(|back| attempt.code_from(&back)) {
            Ok(code) => return Ok(code),
            Err(SignInError::NotOurs) => {
                out.say("that is not the address of this sign-in; paste all of it, from http on");
            }
            Err(error) => return Err(anyhow!(error)),
        }
    }
}

fn address(attempt: &Attempt, text: &str) -> Result<url::Url, SignInError> {
    if text.len() > LINE_BYTES_MAX {
        return Err(SignInError::NotOurs);
    }
    // People may copy only the part after the question mark.
    let parsed = match text.strip_prefix('?') {
        Some(query) => url::Url::parse(&format!("{}?{query}", attempt.redirect.as_str())),
        None => url::Url::parse(text),
    };
    parsed.map_err(|_| SignInError::NotOurs)
}

/// Signs in with a code that is typed on any device.
pub(super) async fn device(
    ctx: &ConnectorContext,
    account: &Account,
    grant: &Grant,
    no_browser: bool,
    out: &Out,
) -> Result<Tokens> {
    let code = DeviceCode::begin(&ctx.http, grant, account).await?;
    out.say(format_args!("open {} on any device", visible(code.url.as_str())));
    out.say(format_args!("and type {}", visible(&code.user_code)));
    if !no_browser {
        browsers::open(&code.url, std::env::vars_os())?;
    }
    Ok(code.tokens(&ctx.http, grant).await?)
}

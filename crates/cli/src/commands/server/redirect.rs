//! Receives the redirect that ends a sign-in: at a running gate, at a listener of this command, or pasted.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use connectors::oauth::SignInError as ListenError;
use connectors::oauth::code::Redirect;
use connectors::oauth::listen::Listener;
use connectors::server_login::{ServerLogins, Started};
use oauth::client::callback;
use store::secret::Secret;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use url::Url;

use crate::context::Stores;
use crate::output::{Out, visible};
use crate::running;

const POLL_EVERY: Duration = Duration::from_millis(100);
const LINE_BYTES_MAX: usize = 16 << 10;

/// How the redirect arrives.
pub(super) enum RedirectReceiver {
    /// A running gate takes it and stores the login.
    Gate(Redirect),
    /// A listener of this command takes it.
    Own(Redirect, Listener),
    /// The owner pastes it.
    Paste(Redirect),
}

/// Which process stored the login. A gate has recorded it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishedBy {
    Gate,
    Command,
}

/// The listener is open before the browser is.
pub(super) async fn redirect_receiver(
    port: Option<u16>,
    is_pasted: bool,
    stores: &Stores,
) -> Result<RedirectReceiver> {
    let gates = running::all(stores.home.path());
    let gate = gates.iter().filter(|gate| gate.command == "up").find_map(|gate| {
        let mut url = Url::parse(gate.url.as_deref()?).ok()?;
        url.set_path(gateway::CALLBACK);
        let is_any = url.host_str().is_some_and(|host| host == "0.0.0.0" || host == "[::]");
        if is_any {
            url.set_host(Some("127.0.0.1")).ok()?;
        }
        Some(url)
    });
    let own = || {
        let port = port.unwrap_or(stores.settings.listen.port());
        Redirect::parse(&format!("http://127.0.0.1:{port}{}", gateway::CALLBACK))
    };
    Ok(match (gate.filter(|_| port.is_none()), is_pasted) {
        (Some(url), false) => RedirectReceiver::Gate(Redirect::parse(url.as_str())?),
        (Some(url), true) => RedirectReceiver::Paste(Redirect::parse(url.as_str())?),
        (None, true) => RedirectReceiver::Paste(own()?),
        (None, false) => {
            let redirect = own()?;
            let listener = Listener::open(&redirect).await?;
            let listener = listener.context("the redirect address is not on this machine")?;
            RedirectReceiver::Own(redirect, listener)
        }
    })
}

impl RedirectReceiver {
    pub(super) fn redirect(&self) -> &Redirect {
        match self {
            RedirectReceiver::Gate(redirect)
            | RedirectReceiver::Own(redirect, _)
            | RedirectReceiver::Paste(redirect) => redirect,
        }
    }

    /// Another address of the gate, or the one to be pasted.
    pub(super) fn return_to(&mut self, uri: &str) -> Result<()> {
        match self {
            RedirectReceiver::Gate(redirect) | RedirectReceiver::Paste(redirect) => {
                *redirect = Redirect::parse(uri)?;
            }
            // Its own listener takes no other address.
            RedirectReceiver::Own(..) => {}
        }
        Ok(())
    }

    pub(super) fn redirect_uri(&self) -> String {
        self.redirect().as_str().to_owned()
    }

    /// Waits until the login is stored.
    pub(super) async fn wait(
        self,
        logins: &Arc<ServerLogins>,
        started: &Started,
        out: &Out,
    ) -> Result<FinishedBy> {
        let finish = async |query: &str| {
            logins.finish(query, None).await?;
            anyhow::Ok(FinishedBy::Command)
        };
        match self {
            RedirectReceiver::Paste(redirect) => {
                finish(&pasted(&redirect, started, false, out).await?).await
            }
            RedirectReceiver::Gate(redirect) => tokio::select! {
                outcome = outcome(logins, started) => outcome.map(|()| FinishedBy::Gate),
                query = pasted(&redirect, started, true, out) => finish(&query?).await,
            },
            RedirectReceiver::Own(redirect, listener) => {
                let state = started.state.clone();
                let read = move |back: &Url| {
                    let query = back.query().unwrap_or_default();
                    let is_ours =
                        callback::state(query).is_some_and(|found| Secret::new(found) == state);
                    if is_ours { Ok(query.to_owned()) } else { Err(ListenError::NotOurs) }
                };
                let query = tokio::select! {
                    query = listener.wait(redirect.clone(), Arc::new(read)) => query?,
                    query = pasted(&redirect, started, true, out) => query?,
                };
                finish(&query).await
            }
        }
    }
}

/// The outcome that a gate left.
async fn outcome(logins: &ServerLogins, started: &Started) -> Result<()> {
    loop {
        if let Some(outcome) = logins.store.take_outcome(started.state.expose()) {
            if outcome.is_signed_in {
                return Ok(());
            }
            bail!("the sign-in did not succeed: {}", visible(&outcome.message));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Reads lines until one is the redirect of this sign-in; its query.
async fn pasted(
    redirect: &Redirect,
    started: &Started,
    may_wait: bool,
    out: &Out,
) -> Result<String> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        let Some(line) = lines.next_line().await? else {
            if may_wait {
                return std::future::pending().await;
            }
            bail!("standard input ended before the address was pasted");
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(query) = query_of(line, redirect)
            && callback::state(&query).is_some_and(|state| Secret::new(state) == started.state)
        {
            return Ok(query);
        }
        out.say("that is not the address of this sign-in; paste all of it, from http on");
    }
}

fn query_of(line: &str, redirect: &Redirect) -> Option<String> {
    if line.len() > LINE_BYTES_MAX {
        return None;
    }
    // People may copy only the part after the question mark.
    if let Some(query) = line.strip_prefix('?') {
        return Some(query.to_owned());
    }
    let url = Url::parse(line).ok()?;
    let is_here = url.path() == redirect.url().path();
    url.query().filter(|_| is_here).map(str::to_owned)
}

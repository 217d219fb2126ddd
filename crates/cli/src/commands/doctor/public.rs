//! `doctor --public`: takes the steps of each client that knows only the address, and says for each which step would
//! fail. A client without a metadata document registers, as it would; the registration expires within the hour.
//! Nothing else is changed.

use std::net::SocketAddr;

use connectors::http::Reply;
use oauth::server::Issuer;

mod clients;
mod walk;

use super::Finding;
use crate::context::Context;
use crate::gate::runtime;
use crate::running;
use clients::{CLIENTS, SignInClient, SignInStep};
use walk::{Fault, Walk, host_hint};

const NO_ADDRESS: &str = "set `public_url` in tollgate.toml and start the gate again, or give the address: `tollgate doctor --public=https://gate.example`";

/// `named` is the address that was given, or empty.
pub(super) fn check(
    named: &str,
    connect_to: Option<SocketAddr>,
    context: &Context,
) -> anyhow::Result<Vec<Finding>> {
    let Some(address) = address(named, context)? else {
        let message = "the gate has no public address, so clients elsewhere cannot reach it";
        return Ok(vec![Finding::wrong("public", message, NO_ADDRESS)]);
    };
    let issuer = match Issuer::parse(&address) {
        Ok(issuer) => issuer,
        Err(why) => {
            let message = format!("`{address}` cannot be the public address: {why}");
            return Ok(vec![Finding::wrong("public", message, NO_ADDRESS)]);
        }
    };
    let is_dashboard_wanted = context.settings()?.public_dashboard;
    let walk = Walk::new(issuer, connect_to)?;
    runtime()?.block_on(async {
        let mut findings = vec![dashboard(&walk, is_dashboard_wanted).await];
        for client in CLIENTS {
            findings.push(verdict(client, &walk.issuer, walk.of(client).await));
        }
        Ok(findings)
    })
}

/// The address that was given, that of a running gate, or that of the settings.
fn address(named: &str, context: &Context) -> anyhow::Result<Option<String>> {
    if !named.is_empty() {
        return Ok(Some(named.to_owned()));
    }
    let running = running::all(&context.home_path()?);
    let running = running.into_iter().find_map(|gate| gate.public_url);
    let settings = context.settings()?.public_url;
    Ok(running.or_else(|| settings.map(|issuer| issuer.as_str().to_owned())))
}

fn verdict(
    client: &SignInClient,
    issuer: &Issuer,
    walked: Result<(), (SignInStep, Fault)>,
) -> Finding {
    let steps = client.steps();
    match walked {
        Ok(()) => {
            let message = format!(
                "can sign in at {}: {} steps checked; the next one is your consent",
                issuer.at("/mcp"),
                steps.len()
            );
            Finding::good(client.name, message)
        }
        Err((failed, fault)) => {
            let at = steps.iter().position(|step| *step == failed).unwrap_or_default();
            let message = format!("stops at step {} of {}: {}", at + 1, steps.len(), fault.message);
            Finding::wrong(client.name, message, fault.fix)
        }
    }
}

/// The dashboard should not be reachable under a public address.
async fn dashboard(walk: &Walk, is_wanted: bool) -> Finding {
    if is_wanted {
        let message =
            "the dashboard is served under the public address, as `public_dashboard` says";
        return Finding::careful(
            "dashboard",
            message,
            "leave out `public_dashboard` unless you need it there",
        );
    }
    match walk.send(walk.get(&["grants"])).await {
        Err(fault) => Finding::wrong("dashboard", fault.message, fault.fix),
        Ok(reply) if reply.status == 404 => {
            Finding::good("dashboard", "not served under the public address")
        }
        Ok(_) if !walk.issuer.is_https() => {
            Finding::good("dashboard", "served on this machine only")
        }
        Ok(reply) if !host_hint(&reply).is_empty() => {
            let words = format!("cannot be checked{}", host_hint(&reply));
            Finding::careful("dashboard", words, walk.address_fix())
        }
        Ok(reply) if !is_of_the_gate(&reply) => Finding::careful(
            "dashboard",
            format!(
                "cannot be checked: /grants answers with status {}, and it is not the gate that answers",
                reply.status
            ),
            "the proxy has a guard of its own, which clients cannot pass; take it off for this name",
        ),
        Ok(reply) => Finding::wrong(
            "dashboard",
            format!(
                "it answers under the public address, with status {}: the Host header of the request was changed on its way",
                reply.status
            ),
            walk.address_fix(),
        ),
    }
}

/// The pages of the gate say whose they are, and it has no other way to ask for a sign-in.
fn is_of_the_gate(reply: &Reply) -> bool {
    reply.header("www-authenticate").is_none()
        && String::from_utf8_lossy(&reply.body).contains("tollgate")
}

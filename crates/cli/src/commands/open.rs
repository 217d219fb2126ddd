//! `tollgate open`: makes a one-time sign-in link to the dashboard of the running gate and opens it.

use std::io::{self, IsTerminal as _};

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;
use store::registry::OWNER;

use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;
use crate::running;

#[derive(Args)]
pub(crate) struct OpenArgs {
    /// Who signs in; people are added on the dashboard
    #[arg(long, value_name = "NAME", default_value = OWNER)]
    person: String,
    /// Make the link for the public address, where clients elsewhere ask for access
    #[arg(long)]
    public: bool,
    /// Print the link and open nothing
    #[arg(long)]
    no_browser: bool,
}

pub(crate) fn run(args: &OpenArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let gates = running::all(stores.home.path());
    let gate = gates.into_iter().find(|gate| gate.url.is_some());
    let gate = gate.ok_or_else(|| {
        anyhow!("no gate is running on this home\nhint: start one with `tollgate up`")
    })?;
    let address = if args.public { gate.public_url } else { gate.url };
    let mcp_url = address.ok_or_else(|| {
        anyhow!("the gate has no public address\nhint: set `public_url` in tollgate.toml and start the gate again")
    })?;
    let secret = stores.registry.create_sign_in_link(&args.person, stores.now_us())?;
    stores.note("sign_in_link", &args.person, "")?;
    let link = dashboard::sign_in_link(&mcp_url, &secret);
    if out.wants_json() {
        out.json(&json!({ "link": link, "person": args.person }))?;
        return Ok(Ending::Yes);
    }
    out.line(&link)?;
    out.say("the link works once, within 15 minutes");
    if !args.no_browser && io::stdout().is_terminal() {
        let url = link.parse().map_err(|_| anyhow!("the gate's address is not a web address"))?;
        connectors::oauth::browser::open(&url, std::env::vars_os())?;
    }
    Ok(Ending::Yes)
}

//! `server sign-in`: makes the login at a server that wants OAuth.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use connectors::oauth::browser;
use connectors::server_login::{
    ClientGiven, Discovered, ResourceGiven, ServerProbe, ServerSignInError, SignInOptions, Started,
};
use oauth::server::issuer::MCP_PATH;
use oauth::server::{Issuer, OFFLINE_ACCESS};
use serde_json::json;
use store::logins::LoginKey;
use store::registry::Server;
use store::secret::Secret;
use url::Url;

use super::redirect::{FinishedBy, RedirectReceiver, redirect_receiver};
use crate::account;
use crate::context::{Context, Stores};
use crate::credential;
use crate::failure::Ending;
use crate::output::{Out, count, visible};
use crate::running;
use crate::server_login::redirect_uris::RedirectUris;
use crate::server_login::text::{self, advice};
use crate::server_login::{address, resource_for, takes_own_document};

const WAIT_MINUTES_MAX: u64 = 10;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct SignInArgs {
    /// The server's name
    name: String,
    /// For this grant only, at a server with `per_grant`
    #[arg(long, value_name = "LABEL")]
    grant: Option<String>,
    /// The client id of an OAuth app that you made at the service
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// A file with the secret of that app
    #[arg(long, value_name = "FILE", requires = "client_id")]
    client_secret_file: Option<PathBuf>,
    /// The environment variable with the secret of that app
    #[arg(
        long,
        value_name = "VARIABLE",
        requires = "client_id",
        conflicts_with = "client_secret_file"
    )]
    client_secret_env: Option<String>,
    /// Request these scopes instead of those that the server names
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Send no `resource` parameter, for issuers that refuse it (Entra)
    #[arg(long)]
    no_resource: bool,
    /// Send this `resource` instead of the server's address
    #[arg(long, value_name = "VALUE", conflicts_with = "no_resource")]
    resource: Option<String>,
    /// The public address of a client metadata document whose redirect address is this gate
    #[arg(long, value_name = "URL")]
    client_document: Option<Url>,
    /// Do not use the document that a gate with a public address serves; register a client instead
    #[arg(long, conflicts_with = "client_document")]
    no_client_document: bool,
    /// The port that the browser is redirected to [default: the gate's own]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Show the address instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    /// Do not wait for the browser; read the address it ended at from standard input
    #[arg(long)]
    paste: bool,
}

pub(super) fn sign_in(args: &SignInArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let server = super::find(&args.name, &stores)?;
    let url = address(&server)?;
    let key = key(&server, args.grant.as_deref(), &stores)?;
    let logins = stores.logins();
    stores.ready_to_note()?;
    let runtime = account::runtime()?;
    let ended = runtime.block_on(async {
        let found = match logins.probe(&url).await? {
            ServerProbe::NeedsSignIn(found) => found,
            ServerProbe::Open => bail!("server `{}` answers without a sign-in", server.name),
        };
        let mut receiver = redirect_receiver(args.port, args.paste, &stores).await?;
        let own = own_document(args, &found, &stores)?;
        if let Some((_, redirect_uri)) = &own {
            receiver.return_to(redirect_uri)?;
        }
        let document = args.client_document.clone().or(own.map(|(document, _)| document));
        let options = options(args, &key, &url, receiver.redirect_uri(), document)?;
        let started = logins.begin(&found, &options).await;
        let started =
            started.map_err(|error| needs_client(error, &server.name, &url, &receiver))?;
        say_start(args, &server, &found, &started, &receiver, out)?;
        let wait = Duration::from_secs(WAIT_MINUTES_MAX * 60);
        let ended = tokio::time::timeout(wait, receiver.wait(&logins, &started, out)).await;
        ended.map_err(|_| {
            anyhow!(
                "sign-in timed out after {WAIT_MINUTES_MAX} minutes\nhint: run the command again"
            )
        })?
    });
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    let finished_by = ended?;
    finish(&server, &key, &stores, finished_by, context, out)
}

/// Records the sign-in, unless the gate that finished it has, lists the tools and reports the login.
fn finish(
    server: &Server,
    key: &LoginKey,
    stores: &Stores,
    finished_by: FinishedBy,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    let facts = stores.logins().store.facts(key)?;
    let facts = facts.ok_or_else(|| anyhow!("the login was removed during the sign-in"))?;
    if finished_by == FinishedBy::Command {
        stores.note("server_signed_in", &server.name, &facts.issuer)?;
    }
    let mut tools = None;
    if key.grant.is_none() {
        match crate::probe::update_pins_until_signal(&server.name, stores, context) {
            Ok(found) => tools = Some(found),
            Err(error) => {
                out.warn(visible(&format!("signed in, but listing its tools failed: {error:#}")));
            }
        }
    }
    if out.wants_json() {
        out.json(&json!({
            "signed_in": text::json(&facts, stores.now_us()),
            "tools": tools,
        }))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!("signed in to `{}` at {}", server.name, visible(&facts.issuer)))?;
    let mut missing = oauth::client::scope::missing(&facts.scopes_granted, &facts.scopes_requested);
    // Issuers that give a refresh token for it need not name it again.
    missing.retain(|scope| scope != OFFLINE_ACCESS);
    if !missing.is_empty() {
        out.warn(format_args!("not granted: {}", visible(&missing.join(" "))));
    }
    if let Some(tools) = tools {
        out.say(format_args!(
            "{} listed; `tollgate server tools {}` shows them",
            count(tools, "tool"),
            server.name
        ));
        if stores.effective()?.grants().is_empty() {
            out.say(next_for_clients(stores));
        }
    }
    Ok(Ending::Yes)
}

/// How a first client gets access: at the gate that runs, or at one that is started.
fn next_for_clients(stores: &Stores) -> String {
    let running = running::all(stores.home.path()).into_iter();
    let mut addresses = running.filter_map(|gate| match gate.public_url {
        Some(origin) => Some(format!("{origin}{MCP_PATH}")),
        None => gate.url,
    });
    let first = addresses.next().map_or_else(
        || "`tollgate up`, then add its address".to_owned(),
        |address| format!("add {address}"),
    );
    format!("next: {first} to a client: it asks for access in your browser")
}

pub(super) fn key(server: &Server, grant: Option<&str>, stores: &Stores) -> Result<LoginKey> {
    let name = &server.name;
    let Some(label) = grant else { return Ok(LoginKey::shared(name)) };
    if !server.options.per_grant {
        bail!(
            "all grants share one login at server `{name}`\nhint: leave out `--grant`, or add the server with `--per-grant`"
        );
    }
    let effective = stores.effective()?;
    let found = effective.grants().iter().find(|grant| grant.label == label);
    let found = found.ok_or_else(|| {
        anyhow!("there is no grant `{label}`\nhint: `tollgate grant list` shows them")
    })?;
    Ok(LoginKey::of_grant(name, &found.id))
}

fn options(
    args: &SignInArgs,
    key: &LoginKey,
    url: &Url,
    redirect_uri: String,
    document: Option<Url>,
) -> Result<SignInOptions> {
    let known = url.host_str().and_then(catalog::known_servers::at_host);
    let resource = match &args.resource {
        Some(value) => ResourceGiven::Value(value.clone()),
        None if args.no_resource => ResourceGiven::Omitted,
        None => resource_for(known),
    };
    Ok(SignInOptions {
        key: key.clone(),
        client: client(args)?,
        scopes: oauth::client::scope::split_scopes(&args.scope.join(" ")),
        resource,
        redirect_uri,
        document,
        needs_scopes: known.is_some_and(|known| known.needs_scopes),
        browser: None,
    })
}

/// The document of a running gate with a public address, and where the browser returns then.
fn own_document(
    args: &SignInArgs,
    found: &Discovered,
    stores: &Stores,
) -> Result<Option<(Url, String)>> {
    let is_other = args.client_id.is_some()
        || args.client_document.is_some()
        || args.no_client_document
        || args.port.is_some();
    let known = found.server.host_str().and_then(catalog::known_servers::at_host);
    if is_other || !takes_own_document(&stores.logins(), found, known)? {
        return Ok(None);
    }
    let gates = running::all(stores.home.path());
    Ok(gates.iter().find_map(|gate| {
        let issuer = Issuer::parse(gate.public_url.as_deref()?).ok()?;
        let redirects = RedirectUris::new(gate.url.as_deref()?, &issuer);
        redirects.document_url().zip(redirects.public())
    }))
}

/// The owner's own client. Its secret comes from a file, a variable or a prompt, never from the command line.
fn client(args: &SignInArgs) -> Result<Option<ClientGiven>> {
    let Some(id) = &args.client_id else { return Ok(None) };
    let secret = match (&args.client_secret_file, &args.client_secret_env) {
        (Some(file), _) => Some(credential::read_file(file)?),
        (None, Some(variable)) => Some(credential::read_variable(variable)?),
        (None, None) if std::io::stdin().is_terminal() => {
            let typed = rpassword::prompt_password("Client secret (not shown; empty for none): ")?;
            Some(Secret::new(typed))
        }
        (None, None) => None,
    };
    let secret = secret.filter(|secret: &Secret| !secret.expose().is_empty());
    Ok(Some(ClientGiven { id: id.clone(), secret }))
}

fn say_start(
    args: &SignInArgs,
    server: &Server,
    found: &Discovered,
    started: &Started,
    receiver: &RedirectReceiver,
    out: &mut Out,
) -> Result<()> {
    let opened = if args.no_browser || args.paste {
        None
    } else {
        browser::open(&started.url, std::env::vars_os())?
    };
    out.say(format_args!(
        "server `{}` uses the issuer {} ({})",
        server.name,
        visible(&found.issuer.issuer),
        started.mode.as_str()
    ));
    let known = found.server.host_str().and_then(catalog::known_servers::at_host);
    if let Some(note) = known.map(|known| known.note).filter(|note| !note.is_empty()) {
        out.say(format_args!("note: {note}"));
    }
    if !started.scopes.is_empty() {
        out.say(format_args!("scopes to request: {}", visible(&started.scopes.join(" "))));
    }
    out.say("sign in at:");
    out.say(visible(started.url.as_str()));
    if opened.is_some() {
        out.say("your browser should show it now");
    }
    let paste = "paste the whole address it ends at here and press Enter";
    let at = receiver.redirect().as_str();
    match receiver {
        RedirectReceiver::Paste(_) => {
            out.say(format_args!("when the browser has returned to {at}, {paste}"));
        }
        RedirectReceiver::Gate(_) | RedirectReceiver::Own(..) => out.say(format_args!(
            "waiting for the browser at {at}; if it runs on another machine, {paste}"
        )),
    }
    Ok(())
}

/// A server without registration needs a client of the owner: says where and how.
fn needs_client(
    error: ServerSignInError,
    name: &str,
    url: &Url,
    receiver: &RedirectReceiver,
) -> anyhow::Error {
    if !matches!(error, ServerSignInError::NeedsClient { .. }) {
        return error.into();
    }
    let known = url.host_str().and_then(catalog::known_servers::at_host);
    anyhow!("{error}\nhint: {}", advice(name, known, receiver.redirect().as_str()))
}

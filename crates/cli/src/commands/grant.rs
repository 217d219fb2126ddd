//! `tollgate grant`: access for clients: which servers, under which policy. A token is printed once, with
//! the configuration for a client.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::registry::{
    Grant, GrantState, NewGrant, OVERLAP_SECONDS_DEFAULT, Prefix, ServerAccess, Token,
};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table, visible};
use crate::running;
use crate::snippet::Snippet;

mod policy;

#[derive(Subcommand)]
pub(crate) enum GrantCommand {
    /// Create a grant; prints its token once, with the configuration to paste
    Create(CreateArgs),
    /// List the grants
    List,
    /// Show one grant
    Show(LabelArgs),
    /// Replace the token; the old one works for a while longer
    Rotate(RotateArgs),
    /// End a grant at once
    Revoke(LabelArgs),
    /// Set the policy for one of its servers
    Policy(policy::PolicyArgs),
    /// Set whether names at `/mcp` begin with their server's name
    Prefix(PrefixArgs),
    /// Make a token for a grant that is defined in tollgate.toml
    Token,
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Its name, such as alice-laptop
    label: String,
    /// A server it may use and the policy there; may be given several times
    #[arg(long = "server", value_name = "SERVER[=POLICY]", required = true)]
    servers: Vec<String>,
    /// When it expires, such as 30d
    #[arg(long, value_name = "SPAN")]
    expires: Option<String>,
    /// Whether names at `/mcp` begin with their server's name; never: only where two servers have one name
    #[arg(long, value_name = "always|never", value_parser = prefix_of, default_value = "always")]
    prefix: Prefix,
    /// May use the operator server, which decides calls of other grants; cannot be changed later
    #[arg(long)]
    operator: bool,
}

#[derive(Args)]
pub(crate) struct LabelArgs {
    /// The grant's label
    label: String,
}

#[derive(Args)]
pub(crate) struct RotateArgs {
    /// The grant's label
    label: String,
    /// How long the old token still works, such as 1h; 0s ends it at once
    #[arg(long, value_name = "SPAN")]
    overlap: Option<String>,
}

#[derive(Args)]
pub(crate) struct PrefixArgs {
    /// The grant's label
    label: String,
    /// always: `server__tool`; never: `tool`, and `server__tool` where two servers have one name
    #[arg(value_name = "always|never", value_parser = prefix_of)]
    prefix: Prefix,
}

fn prefix_of(text: &str) -> Result<Prefix, String> {
    Prefix::parse(text).ok_or_else(|| "it is `always` or `never`".to_owned())
}

impl GrantCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            GrantCommand::Create(args) => create(&args, &context.open()?, out),
            GrantCommand::List => list(&context.open()?, out),
            GrantCommand::Show(args) => show(&args.label, &context.open()?, out),
            GrantCommand::Rotate(args) => rotate(&args, &context.open()?, out),
            GrantCommand::Revoke(args) => revoke(&args.label, &context.open()?, out),
            GrantCommand::Policy(args) => policy::run(&args, &context.open()?, out),
            GrantCommand::Prefix(args) => prefix(&args, &context.open()?, out),
            GrantCommand::Token => token(context, out),
        }
    }
}

fn create(args: &CreateArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let now_us = stores.now_us();
    let expires_at_us = args.expires.as_deref().map(|span| after(span, now_us)).transpose()?;
    let new = NewGrant {
        label: args.label.clone(),
        server_access: server_access(&args.servers)?,
        expires_at_us,
    };
    stores.ready_to_note()?;
    let (mut grant, token) = if args.operator {
        stores.registry.create_operator_grant(&new, &stores.file_names, now_us)?
    } else {
        stores.registry.create_grant(&new, &stores.file_names, now_us)?
    };
    if args.prefix != grant.prefix {
        stores.registry.set_prefix(&args.label, args.prefix, now_us)?;
        grant.prefix = args.prefix;
    }
    stores.record()?;
    for open in grant.server_access.iter().filter(|access| access.policy.is_none()) {
        if stores.own_policy(&grant, &open.server)?.is_some() {
            out.say(format_args!(
                "`{0}` uses its built-in policy; `tollgate grant policy {1} {0} POLICY` replaces it",
                open.server, grant.label
            ));
            continue;
        }
        out.warn(format_args!(
            "no policy on `{0}`, so every call there is denied; `tollgate grant policy {1} {0} POLICY`",
            open.server, grant.label
        ));
    }
    policy::warn(&grant, stores, out)?;
    show_token("created", &grant, &token, stores, out)
}

fn rotate(args: &RotateArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    refuse_file(&args.label, stores)?;
    let overlap_seconds = match args.overlap.as_deref() {
        None => OVERLAP_SECONDS_DEFAULT,
        Some("0" | "0s") => 0,
        Some(span) => moment::parse_seconds(span)?,
    };
    stores.ready_to_note()?;
    let token = stores.registry.rotate_grant(&args.label, overlap_seconds, stores.now_us())?;
    stores.record()?;
    let grant = stores.registry.grant(&args.label)?;
    if overlap_seconds > 0 {
        let span = moment::span(overlap_seconds);
        out.say(format_args!("the old token works for {span} more"));
    } else {
        out.say("the old token has stopped working");
    }
    show_token("rotated", &grant, &token, stores, out)
}

/// Shows the token, which happens only once.
fn show_token(
    what: &str,
    grant: &Grant,
    token: &Token,
    stores: &Stores,
    out: &mut Out,
) -> Result<Ending> {
    let mut snippet = Snippet::new(grant, token, &stores.settings, stores.home.path());
    if let Some(url) = running_at(stores) {
        snippet = snippet.at(&url);
    }
    if out.wants_json() {
        let mut fact = grant_json(grant, stores);
        if let Value::Object(fields) = &mut fact {
            fields.insert("token".to_owned(), token.expose().into());
            fields.insert("url".to_owned(), snippet.url.clone().into());
            fields.insert("configuration".to_owned(), snippet.http_json());
        }
        out.json(&fact)?;
    } else {
        let kind = if grant.operator { "operator grant" } else { "grant" };
        out.line(format_args!(
            "{kind} `{}` {what}: {}",
            grant.label,
            holdings_text(grant, stores)
        ))?;
        out.raw(snippet.text().as_bytes())?;
    }
    Ok(Ending::Yes)
}

/// Where a gate of this home listens now, which may differ from the settings.
fn running_at(stores: &Stores) -> Option<String> {
    let is_everywhere = |url: &String| url.contains("//0.0.0.0:") || url.contains("//[::]:");
    let mut urls = running::all(stores.home.path()).into_iter().filter_map(|facts| facts.url);
    urls.find(|url| !is_everywhere(url))
}

fn list(stores: &Stores, out: &mut Out) -> Result<Ending> {
    stores.warn_of_conflicts(out)?;
    let now_us = stores.now_us();
    let effective = stores.effective()?;
    let grants = effective.grants();
    if out.wants_json() {
        out.json(&grants.iter().map(|grant| grant_json(grant, stores)).collect::<Vec<_>>())?;
        return Ok(Ending::Yes);
    }
    if grants.is_empty() {
        out.say(
            "no grants yet; create one with `tollgate grant create LABEL --server SERVER=POLICY`",
        );
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["label", "kind", "state", "servers", "expires", "from"]);
    for grant in grants {
        table.row([
            grant.label.clone(),
            grant.kind().to_owned(),
            state_text(grant, now_us),
            holdings_text(grant, stores),
            grant.expires_at_us.map_or_else(|| "never".to_owned(), moment::local),
            grant.origin.as_str().to_owned(),
        ]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}

fn show(label: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let now_us = stores.now_us();
    let grant = find_with_revoked(label, stores)?;
    if out.wants_json() {
        out.json(&grant_json(&grant, stores))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!("label    {}", grant.label))?;
    out.line(format_args!("id       {}", grant.id))?;
    out.line(format_args!("state    {}", state_text(&grant, now_us)))?;
    out.line(format_args!("created  {}", moment::local(grant.created_at_us)))?;
    let expires = grant.expires_at_us.map_or_else(|| "never".to_owned(), moment::local);
    out.line(format_args!("expires  {expires}"))?;
    out.line(format_args!("prefix   {}", grant.prefix.as_str()))?;
    if let Some(at_us) = grant.revoked_at_us {
        out.line(format_args!("revoked  {}", moment::local(at_us)))?;
    }
    for access in &grant.server_access {
        out.line(format_args!("server   {}", access_text(&grant, access, stores)))?;
    }
    if let Some(client) = &grant.client {
        out.line(format_args!("client   {} ({})", visible(&client.name), visible(&client.id)))?;
        out.line(format_args!("address  {}", client.audience))?;
    }
    for token in &grant.tokens {
        let until = match token.valid_until_us {
            _ if grant.revoked_at_us.is_some() => "refused".to_owned(),
            Some(until) if token.audience.is_some() => {
                format!("works until {}", moment::local(until))
            }
            Some(until) => format!("replaced, works until {}", moment::local(until)),
            None => "in use".to_owned(),
        };
        out.line(format_args!("token    made {}, {until}", moment::local(token.created_at_us)))?;
    }
    Ok(Ending::Yes)
}

/// The grant with this label, or the last one that was revoked.
fn find_with_revoked(label: &str, stores: &Stores) -> Result<Grant> {
    let error = match stores.grant(label) {
        Ok(grant) => return Ok(grant),
        Err(error) => error,
    };
    let gone = stores.registry.grants()?.into_iter().filter(|grant| grant.label == label);
    gone.max_by_key(|grant| grant.revoked_at_us).ok_or(error)
}

fn revoke(label: &str, stores: &Stores, out: &mut Out) -> Result<Ending> {
    refuse_file(label, stores)?;
    stores.registry.revoke_grant(label, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&json!({ "revoked": label }))?;
    } else {
        out.line(format_args!(
            "grant `{label}` revoked; its tokens are refused from the next call"
        ))?;
    }
    Ok(Ending::Yes)
}

fn prefix(args: &PrefixArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    refuse_file(&args.label, stores)?;
    stores.ready_to_note()?;
    stores.registry.set_prefix(&args.label, args.prefix, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&grant_json(&stores.registry.grant(&args.label)?, stores))?;
    } else {
        let prefix = args.prefix.as_str();
        out.line(format_args!("grant `{}`: prefix `{prefix}` at `/mcp`", args.label))?;
    }
    Ok(Ending::Yes)
}

/// A token for a grant in the settings file, which holds only its hash.
fn token(context: &Context, out: &mut Out) -> Result<Ending> {
    let token = Token::generate(&context.random)?;
    let sha256 = token.hash().to_hex();
    if out.wants_json() {
        out.json(&json!({ "token": token.expose(), "token_sha256": sha256 }))?;
    } else {
        out.say("token for the client (shown once; keep it like a password):");
        out.line(token.expose())?;
        out.flush()?;
        out.say("line for the grant in tollgate.toml:");
        out.line(format_args!("token_sha256 = \"{sha256}\""))?;
    }
    Ok(Ending::Yes)
}

/// A label that is also in `gate.db` is changed there: the definition in the file is not used.
fn refuse_file(label: &str, stores: &Stores) -> Result<()> {
    if stores.file_names.grants.contains(label) && stores.registry.grant(label).is_err() {
        bail!("grant `{label}` is defined in tollgate.toml\nhint: change it in that file");
    }
    Ok(())
}

/// Refuses a server that is given twice: its policy would be ambiguous.
fn server_access(texts: &[String]) -> Result<Vec<ServerAccess>> {
    let mut server_access: Vec<ServerAccess> = Vec::new();
    for text in texts {
        let new = access(text)?;
        if server_access.iter().any(|held| held.server == new.server) {
            bail!("`--server {}` is given twice\nhint: name each server once", new.server);
        }
        server_access.push(new);
    }
    Ok(server_access)
}

fn access(text: &str) -> Result<ServerAccess> {
    let (server, policy) = match text.split_once('=') {
        Some((server, policy)) => (server, Some(policy)),
        None => (text, None),
    };
    if server.is_empty() || policy == Some("") {
        bail!("`--server {text}` names no server or no policy\nhint: `--server SERVER=POLICY`");
    }
    Ok(ServerAccess { server: server.to_owned(), policy: policy.map(str::to_owned) })
}

fn after(span: &str, now_us: i64) -> Result<i64> {
    let seconds = i64::try_from(moment::parse_seconds(span)?)?;
    Ok(now_us.saturating_add(seconds.saturating_mul(1_000_000)))
}

/// The policy on a server: the owner's, its built-in one, or none.
fn access_text(grant: &Grant, access: &ServerAccess, stores: &Stores) -> String {
    let rules = match (&access.policy, built_in(grant, access, stores)) {
        (Some(policy), _) => format!("policy {policy}"),
        (None, Some(name)) => format!("policy {name}"),
        (None, None) => "no policy".to_owned(),
    };
    format!("{} ({rules})", access.server)
}

/// The state, and whether it is an operator grant.
fn state_text(grant: &Grant, now_us: i64) -> String {
    let state = grant.state(now_us).as_str();
    if grant.operator { format!("{state}, operator") } else { state.to_owned() }
}

fn built_in(grant: &Grant, access: &ServerAccess, stores: &Stores) -> Option<String> {
    if access.policy.is_some() {
        return None;
    }
    stores.own_policy(grant, &access.server).ok()?.map(|text| text.name)
}

fn holdings_text(grant: &Grant, stores: &Stores) -> String {
    if grant.server_access.is_empty() {
        return "none".to_owned();
    }
    let texts = grant.server_access.iter().map(|access| access_text(grant, access, stores));
    texts.collect::<Vec<_>>().join(", ")
}

fn grant_json(grant: &Grant, stores: &Stores) -> Value {
    let now_us = stores.now_us();
    let server_access: Vec<Value> = grant
        .server_access
        .iter()
        .map(|access| {
            json!({
                "server": access.server,
                "policy": access.policy,
                "built_in_policy": built_in(grant, access, stores),
            })
        })
        .collect();
    json!({
        "label": grant.label,
        "id": grant.id,
        "kind": grant.kind(),
        "person": grant.person,
        "client": grant.client.as_ref().map(|client| {
            json!({ "id": client.id, "name": client.name, "audience": client.audience })
        }),
        "state": grant.state(now_us).as_str(),
        "active": grant.state(now_us) == GrantState::Active,
        "operator": grant.operator,
        "servers": server_access,
        "created_at": moment::utc(grant.created_at_us),
        "expires_at": grant.expires_at_us.map(moment::utc),
        "revoked_at": grant.revoked_at_us.map(moment::utc),
        "tokens": grant.tokens.len(),
        "prefix": grant.prefix.as_str(),
        "origin": grant.origin.as_str(),
    })
}

//! `tollgate grant`: who may come in, to which servers, under which policy. A token is printed once,
//! with what to paste into a client.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::registry::{Grant, GrantState, Holding, NewGrant, OVERLAP_SECONDS_DEFAULT, Token};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table};
use crate::running;

pub(crate) mod paste;

use paste::Paste;

#[derive(Subcommand)]
pub(crate) enum GrantCommand {
    /// Make a grant; prints its token once, with the configuration to paste
    Create(CreateArgs),
    /// List the grants
    List,
    /// Show one grant
    Show(LabelArgs),
    /// Replace the token; the old one works for a while longer
    Rotate(RotateArgs),
    /// End a grant at once
    Revoke(LabelArgs),
    /// Put another policy on one of its servers
    Policy(PolicyArgs),
    /// Make a token for a grant that stands in tollgate.toml
    Token,
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// What you call it, such as alice-laptop
    label: String,
    /// A server it may use and the policy there; may be given several times
    #[arg(long = "server", value_name = "SERVER[=POLICY]", required = true)]
    servers: Vec<String>,
    /// When it ends by itself, such as 30d
    #[arg(long, value_name = "SPAN")]
    expires: Option<String>,
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
pub(crate) struct PolicyArgs {
    /// The grant's label
    label: String,
    /// One of its servers, or one it should hold from now on
    server: String,
    /// The policy for that server
    policy: String,
}

impl GrantCommand {
    pub(crate) fn run(self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self {
            GrantCommand::Create(args) => create(&args, &context.open()?, out),
            GrantCommand::List => list(&context.open()?, out),
            GrantCommand::Show(args) => show(&args.label, &context.open()?, out),
            GrantCommand::Rotate(args) => rotate(&args, &context.open()?, out),
            GrantCommand::Revoke(args) => revoke(&args.label, &context.open()?, out),
            GrantCommand::Policy(args) => policy(&args, &context.open()?, out),
            GrantCommand::Token => token(context, out),
        }
    }
}

fn create(args: &CreateArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    let now_us = stores.now_us();
    let expires_at_us = args.expires.as_deref().map(|span| after(span, now_us)).transpose()?;
    let new =
        NewGrant { label: args.label.clone(), holdings: holdings(&args.servers)?, expires_at_us };
    stores.ready_to_note()?;
    let (grant, token) = stores.registry.create_grant(&new, &stores.file_names, now_us)?;
    stores.record()?;
    for open in grant.holdings.iter().filter(|holding| holding.policy.is_none()) {
        if stores.own_policy(&grant, &open.server)?.is_some() {
            out.say(format_args!(
                "`{0}` is under its built-in rules; `tollgate grant policy {1} {0} POLICY` puts others in their place",
                open.server, grant.label
            ));
            continue;
        }
        out.warn(format_args!(
            "no policy on `{0}`, so every call there is denied; `tollgate grant policy {1} {0} POLICY`",
            open.server, grant.label
        ));
    }
    hand_over("created", &grant, &token, stores, out)
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
    hand_over("rotated", &grant, &token, stores, out)
}

/// The one time a token is shown.
fn hand_over(
    what: &str,
    grant: &Grant,
    token: &Token,
    stores: &Stores,
    out: &mut Out,
) -> Result<Ending> {
    let mut paste = Paste::new(grant, token, &stores.settings, stores.home.path());
    if let Some(url) = running_at(stores) {
        paste = paste.at(&url);
    }
    if out.wants_json() {
        let mut fact = grant_json(grant, stores);
        if let Value::Object(fields) = &mut fact {
            fields.insert("token".to_owned(), token.expose().into());
            fields.insert("url".to_owned(), paste.url.clone().into());
            fields.insert("configuration".to_owned(), paste.http_json());
        }
        out.json(&fact)?;
    } else {
        out.line(format_args!("grant `{}` {what}: {}", grant.label, holdings_text(grant, stores)))?;
        out.raw(paste.text().as_bytes())?;
    }
    Ok(Ending::Yes)
}

/// Where a gate of this home listens now, which may be elsewhere than the settings say.
fn running_at(stores: &Stores) -> Option<String> {
    let is_everywhere = |url: &String| url.contains("//0.0.0.0:") || url.contains("//[::]:");
    let mut urls = running::all(stores.home.path()).into_iter().filter_map(|facts| facts.url);
    urls.find(|url| !is_everywhere(url))
}

fn list(stores: &Stores, out: &mut Out) -> Result<Ending> {
    let now_us = stores.now_us();
    let effective = stores.effective()?;
    let grants = effective.grants();
    if out.wants_json() {
        out.json(&grants.iter().map(|grant| grant_json(grant, stores)).collect::<Vec<_>>())?;
        return Ok(Ending::Yes);
    }
    if grants.is_empty() {
        out.say(
            "no grants yet; make one with `tollgate grant create LABEL --server SERVER=POLICY`",
        );
        return Ok(Ending::Yes);
    }
    let mut table = Table::new(&["label", "state", "servers", "expires", "from"]);
    for grant in grants {
        table.row([
            grant.label.clone(),
            grant.state(now_us).as_str().to_owned(),
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
    let grant = found(label, stores)?;
    if out.wants_json() {
        out.json(&grant_json(&grant, stores))?;
        return Ok(Ending::Yes);
    }
    out.line(format_args!("label    {}", grant.label))?;
    out.line(format_args!("id       {}", grant.id))?;
    out.line(format_args!("state    {}", grant.state(now_us).as_str()))?;
    out.line(format_args!("created  {}", moment::local(grant.created_at_us)))?;
    let expires = grant.expires_at_us.map_or_else(|| "never".to_owned(), moment::local);
    out.line(format_args!("expires  {expires}"))?;
    if let Some(at_us) = grant.revoked_at_us {
        out.line(format_args!("revoked  {}", moment::local(at_us)))?;
    }
    for holding in &grant.holdings {
        out.line(format_args!("server   {}", holding_text(&grant, holding, stores)))?;
    }
    for token in &grant.tokens {
        let until = match token.valid_until_us {
            _ if grant.revoked_at_us.is_some() => "refused".to_owned(),
            Some(until) => format!("replaced, works until {}", moment::local(until)),
            None => "in use".to_owned(),
        };
        out.line(format_args!("token    made {}, {until}", moment::local(token.created_at_us)))?;
    }
    Ok(Ending::Yes)
}

/// The grant of a label; where it was revoked, as it was last.
fn found(label: &str, stores: &Stores) -> Result<Grant> {
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

fn policy(args: &PolicyArgs, stores: &Stores, out: &mut Out) -> Result<Ending> {
    refuse_file(&args.label, stores)?;
    let mut holdings = stores.registry.grant(&args.label)?.holdings;
    holdings.retain(|holding| holding.server != args.server);
    holdings.push(Holding { server: args.server.clone(), policy: Some(args.policy.clone()) });
    stores.ready_to_note()?;
    stores.registry.set_holdings(&args.label, &holdings, &stores.file_names, stores.now_us())?;
    stores.record()?;
    if out.wants_json() {
        out.json(&grant_json(&stores.registry.grant(&args.label)?, stores))?;
    } else {
        out.line(format_args!(
            "grant `{}`: policy `{}` decides on `{}` from the next call",
            args.label, args.policy, args.server
        ))?;
    }
    Ok(Ending::Yes)
}

/// A token that no home knows: the file gets its hash, the client the token itself.
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

/// One that stands in both places is changed in `gate.db`: the other is in force nowhere.
fn refuse_file(label: &str, stores: &Stores) -> Result<()> {
    if stores.file_names.grants.contains(label) && stores.registry.grant(label).is_err() {
        bail!("grant `{label}` stands in tollgate.toml\nhint: change it in that file");
    }
    Ok(())
}

/// Two policies for one server have two meanings.
fn holdings(texts: &[String]) -> Result<Vec<Holding>> {
    let mut holdings: Vec<Holding> = Vec::new();
    for text in texts {
        let new = holding(text)?;
        if holdings.iter().any(|held| held.server == new.server) {
            bail!("`--server {}` is given twice\nhint: name each server once", new.server);
        }
        holdings.push(new);
    }
    Ok(holdings)
}

fn holding(text: &str) -> Result<Holding> {
    let (server, policy) = match text.split_once('=') {
        Some((server, policy)) => (server, Some(policy)),
        None => (text, None),
    };
    if server.is_empty() || policy == Some("") {
        bail!("`--server {text}` names no server or no policy\nhint: `--server SERVER=POLICY`");
    }
    Ok(Holding { server: server.to_owned(), policy: policy.map(str::to_owned) })
}

fn after(span: &str, now_us: i64) -> Result<i64> {
    let seconds = i64::try_from(moment::parse_seconds(span)?)?;
    Ok(now_us.saturating_add(seconds.saturating_mul(1_000_000)))
}

/// Which rules decide on a server: the owner's policy, those it brings along, or none at all.
fn holding_text(grant: &Grant, holding: &Holding, stores: &Stores) -> String {
    let rules = match (&holding.policy, built_in(grant, holding, stores)) {
        (Some(policy), _) => format!("policy {policy}"),
        (None, Some(name)) => format!("policy {name}"),
        (None, None) => "no policy".to_owned(),
    };
    format!("{} ({rules})", holding.server)
}

fn built_in(grant: &Grant, holding: &Holding, stores: &Stores) -> Option<String> {
    if holding.policy.is_some() {
        return None;
    }
    stores.own_policy(grant, &holding.server).ok()?.map(|text| text.name)
}

fn holdings_text(grant: &Grant, stores: &Stores) -> String {
    if grant.holdings.is_empty() {
        return "none".to_owned();
    }
    let texts = grant.holdings.iter().map(|holding| holding_text(grant, holding, stores));
    texts.collect::<Vec<_>>().join(", ")
}

fn grant_json(grant: &Grant, stores: &Stores) -> Value {
    let now_us = stores.now_us();
    let holdings: Vec<Value> = grant
        .holdings
        .iter()
        .map(|holding| {
            json!({
                "server": holding.server,
                "policy": holding.policy,
                "built_in_policy": built_in(grant, holding, stores),
            })
        })
        .collect();
    json!({
        "label": grant.label,
        "id": grant.id,
        "state": grant.state(now_us).as_str(),
        "active": grant.state(now_us) == GrantState::Active,
        "servers": holdings,
        "created_at": moment::utc(grant.created_at_us),
        "expires_at": grant.expires_at_us.map(moment::utc),
        "revoked_at": grant.revoked_at_us.map(moment::utc),
        "tokens": grant.tokens.len(),
        "origin": grant.origin.as_str(),
    })
}

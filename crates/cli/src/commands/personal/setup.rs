//! Connects services one after another: known values are used, missing ones are prompted for at a terminal,
//! and each account is checked.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use connectors::account::{Client, Field, SignIn};
use connectors::credentials::check;
use connectors::personal_server::MEMBERS;
use connectors::{Account, Service};
use serde_json::json;
use store::accounts::AccountState;
use store::secret::Secret;

use super::SetupArgs;
use crate::account;
use crate::context::{Context, Stores};
use crate::credential::SecretArg;
use crate::failure::Ending;
use crate::output::{Out, Table};

/// The result for one service.
struct Row {
    service: &'static Service,
    is_configured: bool,
    /// Variables whose values are not known.
    missing: Vec<&'static str>,
    message: String,
    next_step: Option<String>,
}

pub(super) fn setup(args: &SetupArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let chosen = chosen(args)?;
    let given = values(&args.set, &chosen)?;
    let look = move |name: &str| {
        given.get(name).map(|value| value.expose().clone()).or_else(|| std::env::var(name).ok())
    };
    let context = context.clone().with_services(Arc::new(look));
    let mut rows = Vec::new();
    for (service, account) in chosen {
        rows.push(one(service, account, args.dry_run, &context, out)?);
    }
    show(&rows, args.dry_run, out)?;
    Ok(Ending::of(rows.iter().all(|row| row.is_configured)))
}

type Chosen = (&'static Service, &'static Account);

/// All of the personal services, or those that were named. All names are checked before anything is done.
fn chosen(args: &SetupArgs) -> Result<Vec<Chosen>> {
    let names: Vec<&str> = MEMBERS.iter().map(|member| member.connector.name()).collect();
    if args.platform.is_empty() && !args.all {
        bail!("name the services\nhint: `--platform {}`, or `--all`", names.join(","));
    }
    let named: Vec<&str> = if args.all {
        names.clone()
    } else {
        args.platform.iter().map(|name| name.trim()).collect()
    };
    let find = |name: &str| {
        let mut known = MEMBERS.iter().map(|member| member.connector);
        let found = known.find(|connector| connector.name().eq_ignore_ascii_case(name));
        found.and_then(|found| Some((found.service, found.account()?))).ok_or_else(|| {
            let known = names.join("`, `");
            anyhow!("unknown personal service `{name}`\nhint: known are `{known}`")
        })
    };
    named.into_iter().map(find).collect()
}

/// The values of the command line, by the names of their variables. Secrets are never given there.
fn values(set: &[String], chosen: &[Chosen]) -> Result<HashMap<String, Secret>> {
    let mut values = HashMap::new();
    for text in set {
        let name = text.split('=').next().unwrap_or_default();
        let Some(is_secret) = chosen.iter().find_map(|(_, account)| kind(account, name)) else {
            bail!("these services have no value `{name}`\nhint: `--dry-run` lists what is missing");
        };
        let value = match text.split_once('=') {
            Some((_, value)) if !is_secret => Secret::new(value.trim()),
            _ => SecretArg::parse("set", text)?.fetch()?,
        };
        values.insert(name.to_owned(), value);
    }
    Ok(values)
}

/// Whether a variable of an account holds a secret; none if the account has no such variable.
fn kind(account: &Account, name: &str) -> Option<bool> {
    let mut fields = account.sign_in.fields().iter().chain(account.values);
    if let Some(field) = fields.find(|field| field.variable == name) {
        return Some(field.hidden);
    }
    match &account.sign_in {
        _ if name == account.client_secret => Some(true),
        _ if name == account.client_id => Some(false),
        SignIn::Code { redirect_variable, .. } if *redirect_variable == name => Some(false),
        _ => None,
    }
}

fn one(
    service: &'static Service,
    account: &'static Account,
    is_dry: bool,
    context: &Context,
    out: &mut Out,
) -> Result<Row> {
    let stores = context.open()?;
    let mut row = Row {
        service,
        is_configured: false,
        missing: missing(service, account, &stores)?,
        message: String::new(),
        next_step: Some(format!("tollgate connect {}", service.name)),
    };
    let ctx = stores.connector_context()?;
    let facts = ctx.accounts.summary(service.name)?;
    if facts.is_some_and(|facts| facts.state == AccountState::Live) {
        let checked =
            if is_dry { Ok(()) } else { account::runtime()?.block_on(check(&ctx, service)) };
        row.is_configured = checked.is_ok();
        row.message = match checked {
            Ok(()) => "connected".to_owned(),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        };
    } else if !row.missing.is_empty() && (is_dry || !io::stdin().is_terminal()) {
        row.message = format!("needs {}", row.missing.join(", "));
    } else if !account.sign_in.fields().is_empty() || io::stdin().is_terminal() {
        if is_dry {
            "all values are known".clone_into(&mut row.message);
        } else {
            connect(&mut row, context, out);
        }
    } else {
        "the application is known; the sign-in needs a browser or a typed code"
            .clone_into(&mut row.message);
    }
    if row.is_configured {
        row.next_step = None;
    }
    Ok(row)
}

fn connect(row: &mut Row, context: &Context, out: &mut Out) {
    match account::connect(&account::ConnectArgs::of(row.service.name), context, out) {
        Ok(_) => {
            row.is_configured = true;
            row.missing.clear();
            "connected: it works".clone_into(&mut row.message);
        }
        Err(error) => {
            let message = error.to_string();
            message.lines().next().unwrap_or_default().clone_into(&mut row.message);
        }
    }
}

/// The variables whose values are missing.
fn missing(
    service: &'static Service,
    account: &'static Account,
    stores: &Stores,
) -> Result<Vec<&'static str>> {
    let ctx = stores.connector_context()?;
    let kept = ctx.accounts.summary(service.name)?;
    let has = |column: &str| kept.as_ref().is_some_and(|facts| facts.has(column));
    let settings = ctx.settings.of(service);
    let is_set = |name: &str| settings.is_some_and(|settings| settings.values.contains_key(name));
    let unknown = |field: &&Field| !is_set(field.name) && !has(field.name);
    let mut missing: Vec<&str> =
        account.sign_in.fields().iter().filter(unknown).map(|field| field.variable).collect();
    let Some(client) = account.sign_in.client() else { return Ok(missing) };
    let has_id = kept.as_ref().is_some_and(|facts| facts.client_id.is_some());
    if !has_id && settings.is_none_or(|settings| settings.client_id.is_none()) {
        missing.push(account.client_id);
    }
    let needs_secret = !matches!(client, Client::Public | Client::BasicIfSecret);
    let has_secret =
        has("client_secret") || settings.is_some_and(|settings| settings.client_secret.is_some());
    if needs_secret && !has_secret {
        missing.push(account.client_secret);
    }
    Ok(missing)
}

fn show(rows: &[Row], is_dry: bool, out: &mut Out) -> Result<()> {
    if out.wants_json() {
        let all: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "platform": row.service.name,
                    "configured": row.is_configured,
                    "missing": row.missing,
                    "message": row.message,
                    "next_step": row.next_step,
                })
            })
            .collect();
        return out.json(&json!({ "dry_run": is_dry, "platforms": all }));
    }
    let mut table = Table::new(&["service", "state", "what", "next step"]);
    for row in rows {
        let state = match (row.is_configured, row.missing.is_empty()) {
            (true, _) => "configured",
            (false, false) => "needs input",
            (false, true) => "not connected",
        };
        table.row([
            row.service.name.to_owned(),
            state.to_owned(),
            row.message.clone(),
            row.next_step.clone().unwrap_or_default(),
        ]);
    }
    out.table(&table)
}

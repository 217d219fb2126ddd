//! Status of the accounts: state, scopes, expiry, last refresh, last use, last sync.

use anyhow::Result;
use connectors::credentials::check;
use connectors::{Account, Service};
use serde_json::{Value, json};
use store::accounts::{AccountState, AccountSummary};

use super::connect::missing_scopes;
use super::{AccountsArgs, find, runtime};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, Table, visible};
use crate::services::{self, LastSync};

const DAY_US: i64 = 86_400_000_000;

struct Row {
    service: &'static Service,
    account: &'static Account,
    facts: Result<Option<AccountSummary>, String>,
    /// Not signed in, but the environment holds the credentials.
    is_from_environment: bool,
    used_us: Option<i64>,
    sync: LastSync,
    checked: Option<Result<(), String>>,
}

pub(crate) fn show(args: &AccountsArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let wanted = match &args.service {
        Some(name) => vec![find(name)?],
        None => services::with_accounts().collect(),
    };
    let mut rows = Vec::new();
    for (service, account) in wanted {
        rows.push(row(service, account, args.check, &stores)?);
    }
    let fine = rows.iter().all(is_fine);
    if out.wants_json() {
        let all: Vec<Value> = rows.iter().map(json_row).collect();
        out.json(&all)?;
        return Ok(Ending::of(fine));
    }
    let now_us = stores.now_us();
    let mut table =
        Table::new(&["service", "state", "token ends", "refreshed", "used", "synced", "scopes"]);
    for row in &rows {
        let facts = row.facts.as_ref().ok().and_then(Option::as_ref);
        let ago = |us: Option<i64>| us.map(|us| moment::ago(us, now_us)).unwrap_or_default();
        table.row([
            row.service.name.to_owned(),
            state(row).to_owned(),
            facts.and_then(|facts| facts.expires_us).map(moment::local).unwrap_or_default(),
            ago(facts.and_then(|facts| facts.refreshed_us)),
            ago(row.used_us),
            ago(row.sync.good_us),
            facts.map(|facts| facts.scopes.join(" ")).unwrap_or_default(),
        ]);
    }
    out.table(&table)?;
    for row in &rows {
        remarks(row, now_us, out);
    }
    Ok(Ending::of(fine))
}

fn row(
    service: &'static Service,
    account: &'static Account,
    is_checked: bool,
    stores: &Stores,
) -> Result<Row> {
    // Without an account there is nothing to open.
    if !services::account_file(&stores.home, service).exists() {
        let (facts, sync) = (Ok(None), LastSync::default());
        let is_from_environment = is_from_environment(account);
        return Ok(Row {
            service,
            account,
            facts,
            is_from_environment,
            used_us: None,
            sync,
            checked: None,
        });
    }
    let checked = if is_checked {
        let ctx = stores.connector_context()?;
        Some(runtime()?.block_on(check(&ctx, service)).map_err(|e| e.to_string()))
    } else {
        None
    };
    let status = services::account_status(service, stores);
    let sync = status.sync.unwrap_or_default();
    let used_us = stores.connector_context()?.accounts.used_us(service.name);
    let facts = status.account;
    Ok(Row { service, account, facts, is_from_environment: false, used_us, sync, checked })
}

/// Whether the environment holds every credential that a call needs.
fn is_from_environment(account: &Account) -> bool {
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
    let fields = account.sign_in.fields();
    let is_complete = !fields.is_empty() && fields.iter().all(|field| is_set(field.variable));
    is_complete || account.access_token.is_some_and(is_set)
}

/// An account that was never connected is not a problem.
fn is_fine(row: &Row) -> bool {
    let is_live = match &row.facts {
        Ok(Some(facts)) => facts.state == AccountState::Live,
        Ok(None) => true,
        Err(_) => false,
    };
    is_live && !matches!(row.checked, Some(Err(_)))
}

fn state(row: &Row) -> &'static str {
    match (&row.facts, &row.checked) {
        (Err(_), _) => "damaged",
        (Ok(None), _) if row.is_from_environment => "environment",
        (Ok(None), _) => "not connected",
        (Ok(Some(facts)), _) if facts.state != AccountState::Live => "ended",
        (_, Some(Err(_))) => "failing",
        _ => "connected",
    }
}

fn consent_ends_us(row: &Row) -> Option<i64> {
    let days = row.account.consent_days_max?;
    let facts = row.facts.as_ref().ok()?.as_ref()?;
    Some(facts.created_us.saturating_add(i64::from(days) * DAY_US))
}

fn remarks(row: &Row, now_us: i64, out: &Out) {
    let name = row.service.name;
    let say = |message: &str| out.say(format_args!("{name}: {}", visible(message)));
    match &row.facts {
        Err(message) => say(message.lines().next().unwrap_or_default()),
        Ok(None) if row.is_from_environment => {
            say(&format!("from the environment; `tollgate connect {name}` keeps it sealed"));
        }
        Ok(None) => say(&format!("`tollgate connect {name}` signs in")),
        Ok(Some(facts)) => {
            if let AccountState::Dead { message, since_us } = &facts.state {
                let since = moment::ago(*since_us, now_us);
                say(&format!("{message}, {since}; `tollgate connect {name}` signs in again"));
            }
            let missing = missing_scopes(row.service, facts);
            if !missing.is_empty() {
                say(&format!("requested but not granted: {}", missing.join(" ")));
            }
            if facts.refreshing_us.is_some() {
                say("a refresh is running or was interrupted");
            }
        }
    }
    if let Some(Err(message)) = &row.checked {
        say(message.lines().next().unwrap_or_default());
    }
    if let Some(ends_us) = consent_ends_us(row) {
        say(&format!("consent ends {}", moment::local(ends_us)));
    }
    if let Some(mirror) = connectors::mirror(name) {
        for failed in services::grouped(mirror, &row.sync.failed) {
            say(&format!("the last sync failed: {failed}"));
        }
    }
}

fn json_row(row: &Row) -> Value {
    let facts = row.facts.as_ref().ok().and_then(Option::as_ref);
    let problem = match (&row.facts, facts.map(|facts| &facts.state), &row.checked) {
        (Err(message), ..)
        | (_, Some(AccountState::Dead { message, .. }), _)
        | (_, _, Some(Err(message))) => Some(message.clone()),
        _ => None,
    };
    json!({
        "service": row.service.name,
        "state": state(row).replace(' ', "_"),
        "problem": problem,
        "checked": row.checked.is_some(),
        "client_id": facts.and_then(|facts| facts.client_id.clone()),
        "asked_scopes": row.account.scopes,
        "scopes": facts.map(|facts| facts.scopes.clone()),
        "missing_scopes": facts.map(|facts| missing_scopes(row.service, facts)),
        "has_refresh_token": facts.is_some_and(|facts| facts.has("refresh")),
        "connected_at": facts.map(|facts| moment::utc(facts.created_us)),
        "expires_at": facts.and_then(|facts| facts.expires_us).map(moment::utc),
        "refreshed_at": facts.and_then(|facts| facts.refreshed_us).map(moment::utc),
        "consent_ends_at": consent_ends_us(row).map(moment::utc),
        "used_at": row.used_us.map(moment::utc),
        "synced_at": row.sync.good_us.map(moment::utc),
        "sync_problems": row.sync.failed,
    })
}

//! `tollgate status`: whether a gate is running on this home, since when, where, and what it serves. Exits
//! with yes when one is running, with no otherwise.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use store::accounts::AccountState;
use store::effective::Effective;
use store::ledger::{Entry, Filter};
use store::logins::LoginFacts;
use store::registry::{Grant, GrantState, PinState};
use store::settings::Settings;

use crate::audit_log;
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::gate::durability_word;
use crate::moment;
use crate::output::{Out, count, visible};
use crate::running::{self, GateFacts};
use crate::server_login::text;
use crate::services;
use crate::vault_key::KeySource;

#[derive(Args)]
pub(crate) struct StatusArgs {
    /// How many of the last entries to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    number: usize,
}

pub(crate) fn run(args: &StatusArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let home = context.home_path()?;
    if !home.exists() {
        if out.wants_json() {
            out.json(&json!({ "running": false, "gates": [], "home": home, "exists": false }))?;
        } else {
            out.line("gate       not running")?;
            if let Some(why) = why_not_creatable(&home) {
                out.line(format_args!("home       {} (cannot be created: {why})", home.display()))?;
                out.say("name a writable folder with `--home DIR` or `TOLLGATE_HOME`");
            } else {
                out.line(format_args!("home       {} (not created yet)", home.display()))?;
                out.say("start a gate with `tollgate up`, or try `tollgate up --demo`");
            }
        }
        return Ok(Ending::No);
    }
    let gates: Vec<RunningGate> = running::all(&home)
        .into_iter()
        .map(|facts| RunningGate { live: running::query_status(&home, &facts), facts })
        .collect();
    // A running gate keeps its last good settings; the status shows both.
    let (settings, broken) = match context.settings() {
        Ok(settings) => (settings, None),
        Err(error) => (Settings::default(), Some(one_line(&error))),
    };
    let stores = context.open_with(settings)?;
    stores.warn_of_conflicts(out)?;
    let status = HomeStatus { broken, ..HomeStatus::read(args.number, &stores)? };
    if out.wants_json() {
        out.json(&status.json(&gates, &stores))?;
    } else {
        show(&gates, &status, &stores, out)?;
    }
    Ok(Ending::of(!gates.is_empty()))
}

/// Why a missing home cannot be created, as far as can be told without trying.
fn why_not_creatable(home: &Path) -> Option<String> {
    let above = home.ancestors().skip(1).find(|above| above.exists())?;
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    let shown = above.display();
    if !above.is_dir() {
        return Some(format!("`{shown}` is not a folder"));
    }
    let may_write = platform::disk::check(above, platform::disk::Use::Write).is_ok();
    (!may_write).then(|| format!("`{shown}` cannot be written to"))
}

/// A running gate, and the status of its servers, if it answered.
struct RunningGate {
    facts: GateFacts,
    live: Option<Value>,
}

/// What failed, and the first line of the cause.
fn one_line(error: &anyhow::Error) -> String {
    let why = error.root_cause().to_string();
    format!("{error}: {}", why.lines().next().unwrap_or_default())
}

/// The status of the home, whether or not a gate runs.
struct HomeStatus {
    /// Why the settings file cannot be used; its content is not shown then.
    broken: Option<String>,
    key: KeySource,
    servers: Vec<(String, usize, usize)>,
    grants: Vec<(GrantState, usize)>,
    accounts: Vec<services::AccountStatus>,
    logins: Vec<LoginFacts>,
    waiting: usize,
    rows: u64,
    last: Vec<Entry>,
}

impl HomeStatus {
    fn read(number: usize, stores: &Stores) -> Result<HomeStatus> {
        let effective = stores.effective()?;
        let mut servers = Vec::new();
        for name in effective.servers.keys() {
            let pins = stores.registry.pins(name)?;
            let open = pins.iter().filter(|pin| pin.state != PinState::Accepted).count();
            servers.push((name.clone(), pins.len() - open, open));
        }
        let ledger = stores.ledger()?.status()?;
        let reader = stores.read_log()?;
        let last = reader
            .newest_first(&Filter::default())?
            .filter(|entry| entry.as_ref().map_or(true, |entry| !audit_log::is_housekeeping(entry)))
            .take(number)
            .collect::<Result<_, _>>()?;
        Ok(HomeStatus {
            broken: None,
            key: KeySource::of(&stores.home)?,
            servers,
            grants: by_state(effective.grants(), stores.now_us()),
            accounts: services::account_statuses(stores),
            logins: server_logins(&effective, stores)?,
            waiting: ledger.pending_approvals,
            rows: ledger.seq,
            last,
        })
    }

    fn json(&self, gates: &[RunningGate], stores: &Stores) -> Value {
        let gates: Vec<Value> = gates
            .iter()
            .map(|RunningGate { facts: gate, live }| {
                json!({
                    "pid": gate.pid,
                    "command": gate.command,
                    "started_at": moment::utc(gate.started_us),
                    "url": gate.url,
                    "durability": gate.durability,
                    "version": gate.version,
                    "live": live,
                })
            })
            .collect();
        let servers: Vec<Value> = self
            .servers
            .iter()
            .map(|(name, accepted, open)| json!({ "name": name, "tools": accepted, "not_accepted": open }))
            .collect();
        let grants: serde_json::Map<String, Value> =
            self.grants.iter().map(|(state, n)| (state.as_str().to_owned(), json!(n))).collect();
        json!({
            "running": !gates.is_empty(),
            "gates": gates,
            "home": stores.home.path(),
            "exists": true,
            "settings_error": self.broken,
            "vault_key": self.key.json(),
            "durability": durability_word(stores.settings.durability),
            "servers": servers,
            "grants": grants,
            "accounts": self.accounts.iter().map(account_json).collect::<Vec<_>>(),
            "logins": self.logins.iter().map(|facts| text::json(facts, stores.now_us())).collect::<Vec<_>>(),
            "approvals_waiting": self.waiting,
            "audit_rows": self.rows,
            "last": self.last,
        })
    }
}

/// The logins of all servers, with the labels of grants for their ids.
fn server_logins(effective: &Effective, stores: &Stores) -> Result<Vec<LoginFacts>> {
    let logins = stores.logins();
    let mut all = Vec::new();
    for server in effective.servers.values() {
        for mut facts in logins.store.at_server(server)? {
            let label = |id: &String| {
                let grant = effective.grants().iter().find(|grant| grant.id == *id);
                grant.map_or_else(|| id.clone(), |grant| grant.label.clone())
            };
            facts.grant = facts.grant.as_ref().map(label);
            all.push(facts);
        }
    }
    Ok(all)
}

fn by_state(grants: &[Grant], now_us: i64) -> Vec<(GrantState, usize)> {
    [GrantState::Active, GrantState::Expired, GrantState::Revoked]
        .into_iter()
        .map(|state| (state, grants.iter().filter(|grant| grant.state(now_us) == state).count()))
        .collect()
}

fn show(gates: &[RunningGate], status: &HomeStatus, stores: &Stores, out: &mut Out) -> Result<()> {
    if gates.is_empty() {
        out.line("gate       not running")?;
    }
    for RunningGate { facts: gate, .. } in gates {
        let address = gate.url.as_deref().unwrap_or(&gate.command);
        let since = moment::local(gate.started_us);
        let ago = moment::ago(gate.started_us, stores.now_us());
        out.line(format_args!(
            "gate       {address}, since {since} ({ago}), process {}",
            gate.pid
        ))?;
    }
    out.line(format_args!("home       {}", stores.home.path().display()))?;
    if let Some(broken) = &status.broken {
        let line = format!("settings   {}; `tollgate doctor` has details", visible(broken));
        out.line(out.with_home(&line))?;
    }
    out.line(format_args!("key        from {}", visible(&status.key.to_string())))?;
    let durability = durability_word(stores.settings.durability);
    out.line(format_args!("audit      {}, durability {durability}", count_rows(status.rows)))?;
    let servers: Vec<String> = status.servers.iter().map(server_text).collect();
    let servers = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
    out.line(format_args!("servers    {servers}"))?;
    for gate in gates {
        show_live(gate, gates.len() > 1, stores.now_us(), out)?;
    }
    let grants: Vec<String> = status
        .grants
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(s, n)| format!("{n} {}", s.as_str()))
        .collect();
    let grants = if grants.is_empty() { "none".to_owned() } else { grants.join(", ") };
    out.line(format_args!("grants     {grants}"))?;
    for login in &status.logins {
        let mut text = text::line(login, stores.now_us());
        if let Some(next) = text::next_step(login, login.grant.as_deref()) {
            text = format!("{text}; {next}");
        }
        let whose = login.grant.as_ref().map(|grant| format!(" ({grant})")).unwrap_or_default();
        let text = out.with_home(&text);
        out.line(format_args!("login      {}{whose}: {}", login.server, visible(&text)))?;
    }
    for account in &status.accounts {
        let text = out.with_home(&account_text(account, stores.now_us()));
        out.line(format_args!("account    {}: {}", account.service.name, visible(&text)))?;
    }
    out.line(format_args!("approvals  {} waiting", status.waiting))?;
    for entry in status.last.iter().rev() {
        let line = audit_log::line(entry, out.paint());
        out.line(line)?;
    }
    Ok(())
}

/// One line for each server of a running gate.
fn show_live(gate: &RunningGate, several: bool, now_us: i64, out: &mut Out) -> Result<()> {
    let suffix = if several { format!(" (process {})", gate.facts.pid) } else { String::new() };
    let Some(live) = &gate.live else {
        let pid = gate.facts.pid;
        out.line(format_args!(
            "live       process {pid} does not report the status of its servers"
        ))?;
        return Ok(());
    };
    for server in live["servers"].as_array().into_iter().flatten() {
        let name = server["name"].as_str().unwrap_or_default();
        let text = live_text(server, now_us);
        out.line(format_args!("live       {name}{suffix}: {}", visible(&text)))?;
    }
    Ok(())
}

fn live_text(server: &Value, now_us: i64) -> String {
    let mut parts = vec![server["state"].as_str().unwrap_or("unknown").to_owned()];
    for process in server["processes"].as_array().into_iter().flatten() {
        parts.push(match process["pid"].as_u64() {
            Some(pid) => match process["restarts"].as_u64() {
                Some(restarts @ 1..) => {
                    let restarts = usize::try_from(restarts).unwrap_or(usize::MAX);
                    format!("process {pid} after {}", count(restarts, "restart"))
                }
                _ => format!("process {pid}"),
            },
            None => format!("restarting: {}", process["reason"].as_str().unwrap_or_default()),
        });
    }
    if let Some(in_flight @ 1..) = server["in_flight"].as_u64() {
        parts.push(format!("{in_flight} in flight"));
    }
    if let Some(message) = server.pointer("/last_error/words").and_then(Value::as_str) {
        let ago = server
            .pointer("/last_error/at_us")
            .and_then(Value::as_i64)
            .map(|at| moment::ago(at, now_us));
        parts.push(format!("last error {}: {message}", ago.unwrap_or_default()));
    }
    let is_failing = matches!(server["state"].as_str(), Some("restarting" | "failing"));
    let stderr = server["stderr"].as_str().and_then(|text| text.lines().last());
    if let Some(line) = stderr.filter(|_| is_failing) {
        parts.push(format!("last line on stderr: {line}"));
    }
    parts.join(", ")
}

fn account_json(account: &services::AccountStatus) -> Value {
    let state = match &account.account {
        Ok(Some(facts)) => match &facts.state {
            AccountState::Live => "connected",
            AccountState::Dead { .. } => "dead",
        },
        Ok(None) => "none",
        Err(_) => "unreadable",
    };
    let (synced_us, failed) = match &account.sync {
        Ok(last) => (last.good_us, last.failed.clone()),
        Err(message) => (None, vec![message.clone()]),
    };
    json!({
        "service": account.service.name,
        "state": state,
        "synced_at": synced_us.map(moment::utc),
        "sync_failures": failed,
    })
}

fn account_text(account: &services::AccountStatus, now_us: i64) -> String {
    let name = account.service.name;
    let login = match &account.account {
        Ok(Some(facts)) => match &facts.state {
            AccountState::Live => "connected".to_owned(),
            AccountState::Dead { message, .. } => {
                format!("login ended ({message}); `tollgate connect {name}`")
            }
        },
        Ok(None) => "not connected".to_owned(),
        Err(message) => message.lines().next().unwrap_or_default().to_owned(),
    };
    let synced = match &account.sync {
        Ok(last) if !last.failed.is_empty() => {
            format!("last sync failed: {}", last.failed.join("; "))
        }
        Ok(last) => last.good_us.map_or_else(
            || "never synced".to_owned(),
            |at| format!("synced {}", moment::ago(at, now_us)),
        ),
        Err(message) => message.lines().next().unwrap_or_default().to_owned(),
    };
    format!("{login}, {synced}")
}

fn server_text((name, accepted, open): &(String, usize, usize)) -> String {
    if accepted + open == 0 {
        return format!("{name} (not seen yet)");
    }
    let tools = count(*accepted, "tool");
    if *open > 0 {
        format!("{name} ({tools}, {open} not accepted)")
    } else {
        format!("{name} ({tools})")
    }
}

fn count_rows(rows: u64) -> String {
    count(usize::try_from(rows).unwrap_or(usize::MAX), "row")
}

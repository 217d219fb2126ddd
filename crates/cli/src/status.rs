//! `tollgate status`: is a gate running on this home, since when, where, and what does it hold?
//! Yes when one is, no when none is.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use store::accounts::State;
use store::ledger::{Entry, Filter, Reader};
use store::registry::{Grant, GrantState, PinState};
use store::settings::Settings;

use crate::audit;
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::moment;
use crate::output::{Out, count, visible};
use crate::run::durability_word;
use crate::running::{self, Facts};
use crate::services;
use crate::vault::KeyPlace;

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
            if let Some(why) = cannot_be_made(&home) {
                out.line(format_args!("home       {} (cannot be made: {why})", home.display()))?;
                out.say("name a place that can be written to with `--home DIR` or `TOLLGATE_HOME`");
            } else {
                out.line(format_args!("home       {} (not made yet)", home.display()))?;
                out.say("start a gate with `tollgate up`, or try `tollgate up --demo`");
            }
        }
        return Ok(Ending::No);
    }
    let gates: Vec<Running> = running::all(&home)
        .into_iter()
        .map(|facts| Running { live: running::standing(&home, &facts), facts })
        .collect();
    // A gate that runs goes on under the settings it has taken; whoever asks for it is told of both.
    let (settings, broken) = match context.settings() {
        Ok(settings) => (settings, None),
        Err(error) => (Settings::default(), Some(in_a_line(&error))),
    };
    let stores = context.open_with(settings)?;
    let standing = Standing { broken, ..Standing::look(args.number, &stores)? };
    if out.wants_json() {
        out.json(&standing.json(&gates, &stores))?;
    } else {
        show(&gates, &standing, &stores, out)?;
    }
    Ok(Ending::of(!gates.is_empty()))
}

/// Why a home that is not there cannot be made, as far as one can tell without trying.
fn cannot_be_made(home: &Path) -> Option<String> {
    let above = home.ancestors().skip(1).find(|above| above.exists())?;
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    let shown = above.display();
    if !above.is_dir() {
        return Some(format!("`{shown}` is not a folder"));
    }
    let may_write = rustix::fs::access(above, rustix::fs::Access::WRITE_OK).is_ok();
    (!may_write).then(|| format!("`{shown}` cannot be written to"))
}

/// A gate that runs, and what it says of its servers, if it answered.
struct Running {
    facts: Facts,
    live: Option<Value>,
}

/// What failed, and the first word of why.
fn in_a_line(error: &anyhow::Error) -> String {
    let why = error.root_cause().to_string();
    format!("{error}: {}", why.lines().next().unwrap_or_default())
}

/// What the stores say, whether or not a gate runs.
struct Standing {
    /// Why the settings file cannot be used; what it holds is not told then.
    broken: Option<String>,
    key: KeyPlace,
    servers: Vec<(String, usize, usize)>,
    grants: Vec<(GrantState, usize)>,
    accounts: Vec<services::Standing>,
    waiting: usize,
    rows: u64,
    last: Vec<Entry>,
}

impl Standing {
    fn look(number: usize, stores: &Stores) -> Result<Standing> {
        let effective = stores.effective()?;
        let mut servers = Vec::new();
        for name in effective.servers.keys() {
            let pins = stores.registry.pins(name)?;
            let open = pins.iter().filter(|pin| pin.state != PinState::Accepted).count();
            servers.push((name.clone(), pins.len() - open, open));
        }
        let ledger = stores.ledger()?.standing()?;
        let reader = Reader::open(&stores.home.audit())?;
        let last = reader
            .newest_first(&Filter::default())?
            .filter(|entry| entry.as_ref().map_or(true, |entry| !audit::is_housekeeping(entry)))
            .take(number)
            .collect::<Result<_, _>>()?;
        Ok(Standing {
            broken: None,
            key: KeyPlace::of(&stores.home)?,
            servers,
            grants: by_state(effective.grants(), stores.now_us()),
            accounts: services::standings(stores),
            waiting: ledger.pending_approvals,
            rows: ledger.seq,
            last,
        })
    }

    fn json(&self, gates: &[Running], stores: &Stores) -> Value {
        let gates: Vec<Value> = gates
            .iter()
            .map(|Running { facts: gate, live }| {
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
            "approvals_waiting": self.waiting,
            "audit_rows": self.rows,
            "last": self.last,
        })
    }
}

fn by_state(grants: &[Grant], now_us: i64) -> Vec<(GrantState, usize)> {
    [GrantState::Active, GrantState::Expired, GrantState::Revoked]
        .into_iter()
        .map(|state| (state, grants.iter().filter(|grant| grant.state(now_us) == state).count()))
        .collect()
}

fn show(gates: &[Running], standing: &Standing, stores: &Stores, out: &mut Out) -> Result<()> {
    if gates.is_empty() {
        out.line("gate       not running")?;
    }
    for Running { facts: gate, .. } in gates {
        let place = gate.url.as_deref().unwrap_or(&gate.command);
        let since = moment::local(gate.started_us);
        let ago = moment::ago(gate.started_us, stores.now_us());
        out.line(format_args!("gate       {place}, since {since} ({ago}), process {}", gate.pid))?;
    }
    out.line(format_args!("home       {}", stores.home.path().display()))?;
    if let Some(broken) = &standing.broken {
        out.line(format_args!("settings   {}; `tollgate doctor` says more", visible(broken)))?;
    }
    out.line(format_args!("key        from {}", visible(&standing.key.to_string())))?;
    let durability = durability_word(stores.settings.durability);
    out.line(format_args!("audit      {}, durability {durability}", count_rows(standing.rows)))?;
    let servers: Vec<String> = standing.servers.iter().map(server_text).collect();
    let servers = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
    out.line(format_args!("servers    {servers}"))?;
    for gate in gates {
        show_live(gate, gates.len() > 1, stores.now_us(), out)?;
    }
    let grants: Vec<String> = standing
        .grants
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(s, n)| format!("{n} {}", s.as_str()))
        .collect();
    let grants = if grants.is_empty() { "none".to_owned() } else { grants.join(", ") };
    out.line(format_args!("grants     {grants}"))?;
    for account in &standing.accounts {
        let text = account_text(account, stores.now_us());
        out.line(format_args!("account    {}: {}", account.service.name, visible(&text)))?;
    }
    out.line(format_args!("approvals  {} waiting", standing.waiting))?;
    for entry in standing.last.iter().rev() {
        let line = audit::line(entry, out.paint());
        out.line(line)?;
    }
    Ok(())
}

/// One line for each server of a running gate.
fn show_live(gate: &Running, several: bool, now_us: i64, out: &mut Out) -> Result<()> {
    let place = if several { format!(" (process {})", gate.facts.pid) } else { String::new() };
    let Some(live) = &gate.live else {
        let pid = gate.facts.pid;
        out.line(format_args!("live       process {pid} does not say how its servers stand"))?;
        return Ok(());
    };
    for server in live["servers"].as_array().into_iter().flatten() {
        let name = server["name"].as_str().unwrap_or_default();
        let text = live_text(server, now_us);
        out.line(format_args!("live       {name}{place}: {}", visible(&text)))?;
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
            None => format!("starts again: {}", process["reason"].as_str().unwrap_or_default()),
        });
    }
    if let Some(in_flight @ 1..) = server["in_flight"].as_u64() {
        parts.push(format!("{in_flight} in flight"));
    }
    if let Some(words) = server.pointer("/last_error/words").and_then(Value::as_str) {
        let ago = server
            .pointer("/last_error/at_us")
            .and_then(Value::as_i64)
            .map(|at| moment::ago(at, now_us));
        parts.push(format!("last error {}: {words}", ago.unwrap_or_default()));
    }
    let troubled = matches!(server["state"].as_str(), Some("restarting" | "failing"));
    let said = server["stderr"].as_str().and_then(|said| said.lines().last());
    if let Some(said) = said.filter(|_| troubled) {
        parts.push(format!("last on its stderr: {said}"));
    }
    parts.join(", ")
}

fn account_json(account: &services::Standing) -> Value {
    let state = match &account.account {
        Ok(Some(facts)) => match &facts.state {
            State::Live => "connected",
            State::Dead { .. } => "dead",
        },
        Ok(None) => "none",
        Err(_) => "unreadable",
    };
    let (synced_us, failed) = match &account.sync {
        Ok(last) => (last.good_us, last.failed.clone()),
        Err(words) => (None, vec![words.clone()]),
    };
    json!({
        "service": account.service.name,
        "state": state,
        "synced_at": synced_us.map(moment::utc),
        "sync_failures": failed,
    })
}

fn account_text(account: &services::Standing, now_us: i64) -> String {
    let name = account.service.name;
    let login = match &account.account {
        Ok(Some(facts)) => match &facts.state {
            State::Live => "connected".to_owned(),
            State::Dead { words, .. } => format!("login dead ({words}); `tollgate connect {name}`"),
        },
        Ok(None) => "not connected".to_owned(),
        Err(words) => words.lines().next().unwrap_or_default().to_owned(),
    };
    let synced = match &account.sync {
        Ok(last) if !last.failed.is_empty() => {
            format!("last sync failed: {}", last.failed.join("; "))
        }
        Ok(last) => last.good_us.map_or_else(
            || "never synced".to_owned(),
            |at| format!("synced {}", moment::ago(at, now_us)),
        ),
        Err(words) => words.lines().next().unwrap_or_default().to_owned(),
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

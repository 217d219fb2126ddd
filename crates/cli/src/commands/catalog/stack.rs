//! `catalog stack`: every tool that an agent on this machine can call, through the gate or directly.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use catalog::assess::Assessment;
use catalog::classify::{Category, Risk};
use policy::{Call, Caller, LocalTime, Policy, PredictedOutcome, Prediction, Subject, ToolFacts};
use serde::Serialize;
use serde_json::json;
use store::registry::{GrantState, NewServer, ServerOptions, Target};

use super::StackArgs;
use super::pages::StoredServer;
use crate::client_files;
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, Progress, Table, count, visible};

#[derive(Serialize)]
struct Row {
    risk: Risk,
    category: Category,
    tool: String,
    server: String,
    /// Grants and clients that can call it.
    callers: Vec<String>,
    /// Those of them whose calls wait for an approval.
    asks: Vec<String>,
    behind_gate: bool,
    /// Its definition gives the model instructions.
    reported: bool,
}

pub(super) fn run(args: &StackArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let zone = crate::context::owners_zone(context, out);
    let time = dashboard::policy_time(stores.now_us(), &zone)
        .ok_or_else(|| anyhow!("the time is out of range"))?;
    let mut rows = behind_gate(&stores, time)?;
    let mut unseen: Vec<String> = Vec::new();
    for server in client_files::direct_servers(&stores)? {
        let scanned = match (&server.target, args.probe) {
            (Some(target), true) => scan(&server.name, target, context)
                .inspect_err(|e| {
                    out.warn(format_args!("`{}` did not answer: {e:#}", visible(&server.name)));
                })
                .ok(),
            _ => None,
        };
        match scanned {
            Some(kept) => {
                rows.extend(rows_of(
                    &kept,
                    &server.name,
                    std::slice::from_ref(&server.client),
                    false,
                )?);
            }
            None => unseen.push(format!("{} ({})", server.name, server.client)),
        }
    }
    rows.retain(|row| args.risk.is_none_or(|least| row.risk >= least));
    rows.sort_by(|a, b| {
        b.risk.cmp(&a.risk).then_with(|| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)))
    });
    if out.wants_json() {
        out.json(&json!({ "tools": rows, "not_seen": unseen }))?;
        return Ok(Ending::Yes);
    }
    show(&rows, &unseen, args.probe, out)
}

fn show(rows: &[Row], unseen: &[String], probed: bool, out: &mut Out) -> Result<Ending> {
    let mut table = Table::new(&["risk", "category", "tool", "server", "who", "gate"]);
    for row in rows {
        let mark = if row.reported { " (gives the model instructions)" } else { "" };
        table.row([
            row.risk.to_string(),
            row.category.to_string(),
            format!("{}{mark}", row.tool),
            row.server.clone(),
            who(row),
            if row.behind_gate { "behind" } else { "direct" }.to_owned(),
        ]);
    }
    if rows.is_empty() {
        out.say("no agent here can call a known tool");
    } else {
        out.table(&table)?;
        let mut counts: BTreeMap<Risk, usize> = BTreeMap::new();
        for row in rows {
            *counts.entry(row.risk).or_default() += 1;
        }
        let parts: Vec<String> =
            counts.iter().rev().map(|(risk, n)| format!("{n} {risk}")).collect();
        out.say(format_args!("{}: {}", count(rows.len(), "tool"), parts.join(", ")));
    }
    if !unseen.is_empty() {
        let hint = if probed { "they did not answer" } else { "`--probe` starts and scans them" };
        out.say(format_args!("not scanned: {}; {hint}", visible(&unseen.join(", "))));
    }
    Ok(Ending::Yes)
}

/// What each grant can call on each server, by its policy and at this time.
fn behind_gate(stores: &Stores, time: LocalTime) -> Result<Vec<Row>> {
    let effective = stores.effective()?;
    let now_us = stores.now_us();
    let mut rows = Vec::new();
    for name in effective.servers.keys() {
        let Some(kept) = StoredServer::from_gate(stores, name)? else { continue };
        let mut grantees: Vec<(String, Policy)> = Vec::new();
        for grant in effective.grants() {
            let active = grant.state(now_us) == GrantState::Active;
            let Some(access) = grant.access(name).filter(|_| active) else { continue };
            let text = match &access.policy {
                Some(policy) => effective.policies.get(policy).cloned(),
                None => stores.own_policy(grant, name)?,
            };
            if let Some(policy) = text.and_then(|t| Policy::compile(&t.source, t.format).ok()) {
                grantees.push((grant.label.clone(), policy));
            }
        }
        for mut row in rows_of(&kept, name, &[], true)? {
            for (label, policy) in &grantees {
                let Prediction { outcome, asks, .. } = predict(policy, label, &row, time);
                if matches!(
                    outcome,
                    PredictedOutcome::Hidden { .. } | PredictedOutcome::Denied { .. }
                ) {
                    continue;
                }
                if asks {
                    row.asks.push(label.clone());
                }
                row.callers.push(label.clone());
            }
            if !row.callers.is_empty() {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// What the policy decides about this tool for any arguments.
fn predict(policy: &Policy, grant: &str, row: &Row, time: LocalTime) -> Prediction {
    let call = Call {
        subject: Subject::Tool(&row.tool),
        args: None,
        params: None,
        caller: Caller { grant, ..Caller::default() },
        tool: ToolFacts {
            server: Some(&row.server),
            category: Some(row.category.as_str()),
            risk: Some(row.risk.as_str()),
            aggregates: connectors::aggregates(&row.server, &row.tool),
            ..ToolFacts::default()
        },
        time,
    };
    policy.predict(&call)
}

/// The callers, with a mark on those who need an approval.
fn who(row: &Row) -> String {
    let mark = |caller: &String| {
        if row.asks.contains(caller) { format!("{caller} (asks)") } else { caller.clone() }
    };
    row.callers.iter().map(mark).collect::<Vec<_>>().join(", ")
}

fn rows_of(
    kept: &StoredServer,
    server: &str,
    callers: &[String],
    behind_gate: bool,
) -> Result<Vec<Row>> {
    kept.pages(|pages| Ok(rows_in(pages.assessment(), server, callers, behind_gate)))
}

fn rows_in(found: &Assessment, server: &str, callers: &[String], behind_gate: bool) -> Vec<Row> {
    let row = |tool: &catalog::assess::AssessedTool| Row {
        risk: tool.classification.risk,
        category: tool.classification.category,
        tool: tool.name.clone(),
        server: server.to_owned(),
        callers: callers.to_vec(),
        asks: Vec::new(),
        behind_gate,
        reported: tool.poison.is_reported(),
    };
    found.tools.iter().map(row).collect()
}

/// Scans a server that is not in the gate, in a temporary home.
fn scan(name: &str, target: &Target, context: &Context) -> Result<StoredServer> {
    let folder = std::env::temp_dir().join(format!("tollgate-scan-{}", std::process::id()));
    let temporary = context.with_home(folder.clone());
    let scanned = Progress::during("listing tools", || {
        let stores = temporary.open()?;
        let new = NewServer {
            name: "scanned".to_owned(),
            target: target.clone(),
            options: ServerOptions::default(),
        };
        stores.registry.add_server(&new, &stores.file_names, stores.now_us())?;
        crate::probe::update_pins("scanned", &stores, &temporary)?;
        let kept = StoredServer::from_gate(&stores, "scanned")?;
        Ok(kept.map(|kept| kept.named(name)))
    });
    let _ = std::fs::remove_dir_all(&folder);
    scanned.and_then(|kept| kept.ok_or_else(|| anyhow::anyhow!("no such server")))
}

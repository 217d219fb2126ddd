//! `catalog stack`: every tool that an agent on this machine can call, through the gate or past it.

use std::collections::BTreeMap;

use anyhow::Result;
use catalog::assess::Assessment;
use catalog::classify::{Category, Risk};
use policy::{Policy, Subject};
use serde::Serialize;
use serde_json::json;
use store::registry::{GrantState, NewServer, ServerOptions, Target};

use super::StackArgs;
use super::pages::Kept;
use crate::clients;
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
    behind_gate: bool,
    /// Its definition speaks to the model.
    reported: bool,
}

pub(super) fn run(args: &StackArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let mut rows = behind_gate(&stores)?;
    let mut unseen: Vec<String> = Vec::new();
    for open in clients::open_servers(&stores)? {
        let looked = match (&open.target, args.probe) {
            (Some(target), true) => look(&open.name, target, context)
                .inspect_err(|e| {
                    out.warn(format_args!("`{}` did not answer: {e:#}", visible(&open.name)));
                })
                .ok(),
            _ => None,
        };
        match looked {
            Some(kept) => {
                rows.extend(rows_of(&kept, &open.name, std::slice::from_ref(&open.client), false)?);
            }
            None => unseen.push(format!("{} ({})", open.name, open.client)),
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
        let mark = if row.reported { " (speaks to the model)" } else { "" };
        table.row([
            row.risk.to_string(),
            row.category.to_string(),
            format!("{}{mark}", row.tool),
            row.server.clone(),
            row.callers.join(", "),
            if row.behind_gate { "behind" } else { "direct" }.to_owned(),
        ]);
    }
    if rows.is_empty() {
        out.say("no tools are known that an agent here can call");
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
        let hint = if probed { "they did not answer" } else { "`--probe` starts and asks them" };
        out.say(format_args!("not looked at: {}; {hint}", visible(&unseen.join(", "))));
    }
    Ok(Ending::Yes)
}

/// What each grant can see of each server, by the policy that is on it.
fn behind_gate(stores: &Stores) -> Result<Vec<Row>> {
    let effective = stores.effective()?;
    let now_us = stores.now_us();
    let mut rows = Vec::new();
    for name in effective.servers.keys() {
        let Some(kept) = Kept::from_gate(stores, name)? else { continue };
        let mut holders: Vec<(String, Policy)> = Vec::new();
        for grant in effective.grants() {
            let active = grant.state(now_us) == GrantState::Active;
            let Some(holding) = grant.holding(name).filter(|_| active) else { continue };
            let text = match &holding.policy {
                Some(policy) => effective.policies.get(policy).cloned(),
                None => stores.own_policy(grant, name)?,
            };
            if let Some(policy) = text.and_then(|t| Policy::compile(&t.source, t.format).ok()) {
                holders.push((grant.label.clone(), policy));
            }
        }
        for mut row in rows_of(&kept, name, &[], true)? {
            let sees = |(_, policy): &&(String, Policy)| policy.shows(Subject::Tool(&row.tool));
            row.callers = holders.iter().filter(sees).map(|(label, _)| label.clone()).collect();
            if !row.callers.is_empty() {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn rows_of(kept: &Kept, server: &str, callers: &[String], behind_gate: bool) -> Result<Vec<Row>> {
    kept.pages(|pages| Ok(rows_in(pages.assessment(), server, callers, behind_gate)))
}

fn rows_in(found: &Assessment, server: &str, callers: &[String], behind_gate: bool) -> Vec<Row> {
    let row = |tool: &catalog::assess::AssessedTool| Row {
        risk: tool.classification.risk,
        category: tool.classification.category,
        tool: tool.name.clone(),
        server: server.to_owned(),
        callers: callers.to_vec(),
        behind_gate,
        reported: tool.poison.is_reported(),
    };
    found.tools.iter().map(row).collect()
}

/// Asks a server that is not in the gate, in a home that is thrown away.
fn look(name: &str, target: &Target, context: &Context) -> Result<Kept> {
    let folder = std::env::temp_dir().join(format!("tollgate-look-{}", std::process::id()));
    let aside = context.with_home(folder.clone());
    let looked = Progress::during("asking servers for their tools", || {
        let stores = aside.open()?;
        let new = NewServer {
            name: "looked-at".to_owned(),
            target: target.clone(),
            options: ServerOptions::default(),
        };
        stores.registry.add_server(&new, &stores.file_names, stores.now_us())?;
        crate::probe::look("looked-at", &stores, &aside)?;
        let kept = Kept::from_gate(&stores, "looked-at")?;
        Ok(kept.map(|kept| kept.named(name)))
    });
    let _ = std::fs::remove_dir_all(&folder);
    looked.and_then(|kept| kept.ok_or_else(|| anyhow::anyhow!("no such server")))
}

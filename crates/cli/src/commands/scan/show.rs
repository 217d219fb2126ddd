//! A scan as text: one table by risk, then what needs attention.

use std::fmt::Write as _;

use anyhow::Result;
use catalog::assess::AssessedTool;
use catalog::classify::{Category, Risk};
use catalog::drift::{Drift, DriftKind};
use catalog::pins::OddityKind;
use catalog::poison::LookAlike;

use super::report::misdescribed_files;
use super::{Report, detail};
use crate::output::{Out, Paint, Table, count, cut_end, visible};

pub(super) fn reports(
    reports: &[Report],
    look_alikes: &[LookAlike],
    only: Option<&str>,
    out: &mut Out,
) -> Result<()> {
    for (at, report) in reports.iter().enumerate() {
        if at > 0 {
            out.line("")?;
        }
        match only {
            None => server(report, out)?,
            Some(name) => one_tool(report, name, out)?,
        }
    }
    for group in look_alikes {
        let names: Vec<String> = group
            .tools
            .iter()
            .map(|o| format!("`{}` of {}", visible(&o.tool), visible(&o.server)))
            .collect();
        let what = if group.is_same_name { "have the same name" } else { "look alike" };
        out.line(format_args!("{} {what}", names.join(" and ")))?;
    }
    Ok(())
}

fn one_tool(report: &Report, name: &str, out: &mut Out) -> Result<()> {
    for tool in report.assessment.tools.iter().filter(|tool| tool.name == name) {
        out.raw(detail::tool(tool, out.paint()).as_bytes())?;
    }
    Ok(())
}

fn server(report: &Report, out: &mut Out) -> Result<()> {
    let paint = out.paint();
    let mut tools: Vec<&AssessedTool> = report.assessment.tools.iter().collect();
    tools.sort_by(|a, b| {
        let rank = |t: &AssessedTool| {
            (t.poison.suspicion, t.classification.risk, t.classification.category)
        };
        rank(b).cmp(&rank(a)).then_with(|| a.name.cmp(&b.name))
    });
    let mut table = Table::new(&["tool", "risk", "category", "because", "recommended"]);
    for tool in &tools {
        table.row([
            tool.name.clone(),
            tool.classification.risk.as_str().to_owned(),
            tool.classification.category.as_str().to_owned(),
            because(tool, report.drift.as_deref()),
            tool.recommended.effect.clone(),
        ]);
    }
    if tools.is_empty() {
        out.line(format_args!("{}: no tools", visible(&report.assessment.server)))?;
    } else {
        out.table(&table)?;
    }
    out.raw(attention_text(report, &tools, paint).as_bytes())?;
    out.line(summary(report))
}

const BECAUSE_COLUMNS: usize = 48;

/// The strongest reason, quoted from the tool.
fn because(tool: &AssessedTool, drift: Option<&[Drift]>) -> String {
    if tool.poison.is_reported() {
        return "its definition gives the model instructions".to_owned();
    }
    let mut drift = drift.unwrap_or_default().iter();
    match drift.find(|d| d.tool == tool.name).map(|d| d.kind) {
        Some(DriftKind::Changed) => return "changed since it was accepted".to_owned(),
        Some(DriftKind::New) => return "not accepted yet".to_owned(),
        Some(DriftKind::Gone) | None => {}
    }
    let class = &tool.classification;
    let first = class.evidence.first().map(|e| format!("{}: \"{}\"", e.location, e.text));
    cut_end(&first.unwrap_or_default(), BECAUSE_COLUMNS)
}

fn attention_text(report: &Report, tools: &[&AssessedTool], paint: Paint) -> String {
    let mut text = String::new();
    for tool in tools.iter().filter(|tool| tool.poison.is_reported()) {
        text.push_str(&detail::poison(&format!("`{}`", visible(&tool.name)), &tool.poison, paint));
    }
    for (what, poison) in &report.other_poison {
        text.push_str(&detail::poison(&visible(what), poison, paint));
    }
    for (uri, why) in misdescribed_files(report) {
        let _ = writeln!(text, "{} {}: {why}", paint.bad("skill:"), visible(uri));
    }
    for tool in tools {
        for claim in &tool.classification.contradictions {
            let name = visible(&tool.name);
            let line = format!("{name} claims `{}`, but {}", claim.claim, claim.finding);
            let _ = writeln!(text, "{} {line}", paint.careful("contradiction:"));
        }
    }
    for tool in tools {
        for odd in tool.oddities.iter().filter(|odd| odd.kind == OddityKind::RepeatedKey) {
            let (name, location) = (visible(&tool.name), visible(&odd.location));
            let line = format!(
                "{name}: {location}: {}, so two parsers may see different tools",
                odd.message
            );
            let _ = writeln!(text, "{} {line}", paint.careful("repeated key:"));
        }
    }
    for tool in tools {
        let outside = |odd: &&catalog::pins::Oddity| odd.kind == OddityKind::NameOutsideAllowed;
        if let Some(odd) = tool.oddities.iter().find(outside) {
            let _ = writeln!(text, "{} {}", paint.careful("names:"), odd.message);
        }
    }
    for finding in &report.assessment.findings {
        let _ = writeln!(text, "{} {}", paint.careful("names:"), finding.describe());
    }
    for drift in report.drift.iter().flatten() {
        text.push_str(&changed(drift, paint));
    }
    text
}

fn changed(drift: &Drift, paint: Paint) -> String {
    let kind = match drift.kind {
        DriftKind::Changed => "changed since it was accepted",
        DriftKind::New => "not accepted yet",
        DriftKind::Gone => "gone",
    };
    let mark = if drift.is_worse { paint.bad("drift:") } else { paint.careful("drift:") };
    let effect: Vec<String> = drift.effect.iter().map(|message| visible(message)).collect();
    let mut text = format!("{mark} {} is {kind}: {}\n", visible(&drift.tool), effect.join("; "));
    for line in catalog::pins::render(&drift.changes).lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// `github: 12 tools (2 critical, 3 high), 1 resource, …`
fn summary(report: &Report) -> String {
    let tools = &report.assessment.tools;
    let of = |risk: Risk| tools.iter().filter(|t| t.classification.risk == risk).count();
    let risks: Vec<String> = Risk::ALL
        .into_iter()
        .rev()
        .filter(|risk| of(*risk) > 0)
        .map(|risk| format!("{} {risk}", of(risk)))
        .collect();
    let kinds: Vec<String> = Category::ALL
        .into_iter()
        .filter_map(|c| report.assessment.by_category().get(&c).map(|n| format!("{n} {c}")))
        .collect();
    let mut text =
        format!("{}: {}", visible(&report.assessment.server), count(tools.len(), "tool"));
    if !tools.is_empty() {
        let _ = write!(text, " ({}; {})", risks.join(", "), kinds.join(", "));
    }
    if !report.scanned.offer.is_partial {
        let resources = count(report.scanned.offer.resources.len(), "resource");
        let prompts = count(report.scanned.offer.prompts.len(), "prompt");
        let _ = write!(text, ", {resources}, {prompts}");
        if !report.scanned.offer.skills.is_empty() {
            let _ = write!(text, ", {}", count(report.scanned.offer.skills.len(), "skill"));
        }
    }
    for why in &report.scanned.offer.unread {
        let _ = write!(text, "; not read: {}", visible(why));
    }
    let reported =
        tools.iter().filter(|t| t.poison.is_reported()).count() + report.other_poison.len();
    if reported > 0 {
        let _ = write!(text, ", {reported} poisoned or suspicious");
    }
    text
}

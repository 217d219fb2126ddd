//! Assesses scanned servers: tools, look-alike names across servers, drift, and the JSON of all of it.

use catalog::assess::{Assessment, AssessmentContext, ServerFinding, assess_with};
use catalog::drift::{Drift, drift};
use catalog::poison::{LookAlike, OfferedTool, Poison, inspect, inspect_text, look_alikes};
use gateway::SkillText;
use mcp::listed_names::fits_clients;
use policy::json::{Bounds, Doc, Value};
use serde_json::json;
use store::registry::Pin;

use super::Report;
use crate::listing::Scanned;

pub(super) fn report(scanned: Scanned, across: &[LookAlike], offered: &[OfferedTool]) -> Report {
    let docs = documents(&scanned.offer.tools);
    let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
    let drift = scanned.pins.as_deref().map(|pins| drift_of(&scanned.name, pins, &tools));
    let was_accepted = scanned.pins.iter().flatten().any(|pin| pin.accepted.is_some());
    // A server that was never accepted cannot have drifted.
    let changes = drift.as_deref().filter(|_| was_accepted).unwrap_or_default();
    let of_others = offered.iter().filter(|o| o.server != scanned.name);
    let others: Vec<&str> = of_others.map(|o| o.tool.as_str()).collect();
    let context = AssessmentContext { look_alikes: across, drift: changes, other_tools: &others };
    let mut assessment = assess_with(&scanned.name, &tools, context);
    for (at, text) in scanned.offer.tools.iter().enumerate() {
        if Doc::read(text.as_bytes(), &Bounds::ANSWER).is_err() {
            assessment.findings.push(ServerFinding::NotATool { at });
        }
    }
    let rejected = assessment.tools.iter().map(|tool| tool.name.clone());
    let rejected: Vec<String> = rejected.filter(|name| !fits_clients(name)).collect();
    if !rejected.is_empty() {
        assessment.findings.push(ServerFinding::RejectedByClients { tools: rejected });
    }
    let other_poison = other_poison(&scanned, &assessment);
    Report { scanned, assessment, other_poison, drift }
}

fn documents(texts: &[String]) -> Vec<Doc<'_>> {
    texts.iter().filter_map(|text| Doc::read(text.as_bytes(), &Bounds::ANSWER).ok()).collect()
}

fn drift_of(server: &str, pins: &[Pin], tools: &[Value<'_>]) -> Vec<Drift> {
    let accepted: Vec<(&str, &str)> = pins
        .iter()
        .filter_map(|pin| Some((pin.tool.as_str(), pin.accepted.as_ref()?.definition.as_str())))
        .collect();
    drift(server, &accepted, tools)
}

/// Poison in resources, prompts, skills and instructions, which the model reads like tools.
fn other_poison(scanned: &Scanned, assessment: &Assessment) -> Vec<(String, Poison)> {
    let names: Vec<&str> = assessment.tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut out = Vec::new();
    for (kind, texts) in [
        ("resource", &scanned.offer.resources),
        ("prompt", &scanned.offer.prompts),
        ("skill", &scanned.offer.skills),
    ] {
        for doc in documents(texts) {
            let poison = inspect(doc.root(), &names);
            if poison.is_reported() {
                out.push((format!("{kind} `{}`", item_name(doc.root())), poison));
            }
        }
    }
    for file in &scanned.offer.skill_texts {
        let poison = inspect_text("/text", &file.text);
        if poison.is_reported() {
            out.push((format!("skill file `{}`", file.uri), poison));
        }
    }
    if let Some(text) = &scanned.offer.instructions {
        let poison = inspect_text("/instructions", text);
        if poison.is_reported() {
            out.push(("the server's instructions".to_owned(), poison));
        }
    }
    out
}

/// Files of skills that are not what their entry says, and why.
pub(super) fn misdescribed_files(report: &Report) -> Vec<(&str, &'static str)> {
    let why = |file: &SkillText| {
        let other = file.is_other.then_some("it differs from the digest in the skill's entry");
        other.or(file.frontmatter_mismatch)
    };
    let texts = report.scanned.offer.skill_texts.iter();
    texts.filter_map(|file| Some((file.uri.as_str(), why(file)?))).collect()
}

pub(super) fn item_name(item: Value<'_>) -> String {
    let found = ["name", "uri", "uriTemplate"].iter().find_map(|key| item.get(key)?.as_str());
    found.map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// Every tool of every server of one scan.
pub(super) fn offered(scanned: &[Scanned]) -> Vec<OfferedTool> {
    let names = |server: &Scanned| -> Vec<OfferedTool> {
        let docs = documents(&server.offer.tools);
        let named = docs.iter().map(|doc| item_name(doc.root()));
        named.map(|tool| OfferedTool { server: server.name.clone(), tool }).collect()
    };
    scanned.iter().flat_map(names).collect()
}

/// Names that look alike across the servers of one scan.
pub(super) fn across_servers(offered: &[OfferedTool]) -> Vec<LookAlike> {
    let mut found = look_alikes(offered.iter().map(|o| (o.server.as_str(), o.tool.as_str())));
    // Look-alikes within one server are reported with that server.
    found.retain(|group| {
        group.tools.iter().any(|o| group.tools.first().is_some_and(|f| f.server != o.server))
    });
    found
}

pub(super) fn json(
    reports: &[Report],
    across: &[LookAlike],
    only: Option<&str>,
) -> serde_json::Value {
    let servers: Vec<serde_json::Value> =
        reports.iter().map(|report| server(report, only)).collect();
    json!({ "servers": servers, "look_alikes": across })
}

fn server(report: &Report, only: Option<&str>) -> serde_json::Value {
    let tools: Vec<_> = report
        .assessment
        .tools
        .iter()
        .filter(|tool| only.is_none_or(|name| name == tool.name))
        .collect();
    let names = |texts: &[String]| -> Vec<String> {
        documents(texts).iter().map(|doc| item_name(doc.root())).collect()
    };
    let misdescribed: Vec<serde_json::Value> = misdescribed_files(report)
        .into_iter()
        .map(|(uri, why)| json!({ "uri": uri, "why": why }))
        .collect();
    let other_poison: Vec<serde_json::Value> = report
        .other_poison
        .iter()
        .map(|(what, poison)| json!({ "what": what, "poison": poison }))
        .collect();
    json!({
        "server": report.assessment.server,
        "from": report.scanned.origin,
        "classifier_version": report.assessment.classifier_version,
        "patterns_version": report.assessment.patterns_version,
        "risk": report.assessment.worst(),
        "tools": tools,
        "findings": report.assessment.findings,
        "resources": names(&report.scanned.offer.resources),
        "unread": report.scanned.offer.unread,
        "prompts": names(&report.scanned.offer.prompts),
        "skills": report.scanned.offer.skill_names(),
        "misdescribed_skill_files": misdescribed,
        "poisoned_elsewhere": other_poison,
        "drift": report.drift,
    })
}

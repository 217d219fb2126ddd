//! From what was read to what is known: assessments, doubles across servers, drift, and their JSON.

use catalog::assess::{Around, Assessment, ServerFinding, assess_among};
use catalog::drift::{Drift, drift};
use catalog::poison::{LookAlike, Offered, Poison, inspect, inspect_text, look_alikes};
use policy::json::{Bounds, Doc, Value};
use serde_json::json;
use store::registry::Pin;

use super::Report;
use super::read::Scanned;

pub(super) fn report(scanned: Scanned, doubles: &[LookAlike], offered: &[Offered]) -> Report {
    let docs = documents(&scanned.offer.tools);
    let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
    let drift = scanned.pins.as_deref().map(|pins| drift_of(&scanned.name, pins, &tools));
    let was_accepted = scanned.pins.iter().flatten().any(|pin| pin.accepted.is_some());
    // Of a server that nobody has accepted yet, nothing can have changed.
    let changes = drift.as_deref().filter(|_| was_accepted).unwrap_or_default();
    let foreign = offered.iter().filter(|o| o.server != scanned.name);
    let others: Vec<&str> = foreign.map(|o| o.tool.as_str()).collect();
    let around = Around { doubles, drift: changes, others: &others };
    let mut assessment = assess_among(&scanned.name, &tools, around);
    for (at, text) in scanned.offer.tools.iter().enumerate() {
        if Doc::read(text.as_bytes(), &Bounds::ANSWER).is_err() {
            assessment.findings.push(ServerFinding::NotATool { at });
        }
    }
    let elsewhere = elsewhere(&scanned, &assessment);
    Report { scanned, assessment, elsewhere, drift }
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

/// Resources, prompts and instructions speak to the model as tools do.
fn elsewhere(scanned: &Scanned, assessment: &Assessment) -> Vec<(String, Poison)> {
    let names: Vec<&str> = assessment.tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut out = Vec::new();
    for (kind, texts) in
        [("resource", &scanned.offer.resources), ("prompt", &scanned.offer.prompts)]
    {
        for doc in documents(texts) {
            let poison = inspect(doc.root(), &names);
            if poison.is_reported() {
                out.push((format!("{kind} `{}`", item_name(doc.root())), poison));
            }
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

pub(super) fn item_name(item: Value<'_>) -> String {
    let found = ["name", "uri", "uriTemplate"].iter().find_map(|key| item.get(key)?.as_str());
    found.map(std::borrow::Cow::into_owned).unwrap_or_default()
}

/// Every tool of every server of one scan.
pub(super) fn offered(scanned: &[Scanned]) -> Vec<Offered> {
    let names = |server: &Scanned| -> Vec<Offered> {
        let docs = documents(&server.offer.tools);
        let named = docs.iter().map(|doc| item_name(doc.root()));
        named.map(|tool| Offered { server: server.name.clone(), tool }).collect()
    };
    scanned.iter().flat_map(names).collect()
}

/// Names that look alike across the servers of one scan.
pub(super) fn doubles(offered: &[Offered]) -> Vec<LookAlike> {
    let mut found = look_alikes(offered.iter().map(|o| (o.server.as_str(), o.tool.as_str())));
    // Doubles within one server are told with that server.
    found.retain(|double| {
        double.tools.iter().any(|o| double.tools.first().is_some_and(|f| f.server != o.server))
    });
    found
}

pub(super) fn json(
    reports: &[Report],
    doubles: &[LookAlike],
    only: Option<&str>,
) -> serde_json::Value {
    let servers: Vec<serde_json::Value> =
        reports.iter().map(|report| server(report, only)).collect();
    json!({ "servers": servers, "look_alikes": doubles })
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
    let elsewhere: Vec<serde_json::Value> = report
        .elsewhere
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
        "prompts": names(&report.scanned.offer.prompts),
        "poisoned_elsewhere": elsewhere,
        "drift": report.drift,
    })
}

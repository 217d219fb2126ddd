//! Renders assessments as SARIF 2.1.0 for code hosts and editors: one rule per attack pattern, one for
//! the risk of a tool, one for contradicted hints.

use serde_json::{Value, json};

use crate::assess::{AssessedTool, Assessment};
use crate::classify::Risk;
use crate::patterns::{Pattern, pattern};
use crate::poison::Suspicion;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The log of one run. `artifact` is the scanned file, if any.
pub fn sarif(assessments: &[Assessment], artifact: Option<&str>, version: &str) -> Value {
    let results: Vec<Value> = assessments
        .iter()
        .flat_map(|server| server.tools.iter().map(move |tool| (server, tool)))
        .flat_map(|(server, tool)| results(&server.server, tool, artifact))
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "tollgate",
                "version": version,
                "informationUri": "https://modelcontextprotocol.io",
                "rules": rules(&results),
            }},
            "results": results,
        }],
    })
}

fn results(server: &str, tool: &AssessedTool, artifact: Option<&str>) -> Vec<Value> {
    let mut out = vec![risk(tool)];
    for claim in &tool.classification.contradictions {
        out.push(result(
            "annotation-lie",
            "warning",
            &format!("`{}` claims `{}`, but {}", tool.name, claim.claim, claim.finding),
        ));
    }
    for finding in &tool.poison.findings {
        let level = if tool.poison.suspicion == Suspicion::Poisoned { "error" } else { "warning" };
        let text = format!(
            "the definition of `{}` {} at {}: \"{}\"",
            tool.name, finding.message, finding.location, finding.quote
        );
        out.push(result("tool-poisoning", level, &text));
    }
    for exposure in
        tool.patterns.iter().filter(|p| !matches!(p.id, "tool-poisoning" | "annotation-lie"))
    {
        let text = format!("`{}`: {} ({})", tool.name, exposure.title, exposure.because.join("; "));
        out.push(result(exposure.id, "note", &text));
    }
    for result in &mut out {
        add_location(result, server, tool, artifact);
    }
    out
}

fn risk(tool: &AssessedTool) -> Value {
    let class = &tool.classification;
    let level = match class.risk {
        Risk::Low => "note",
        Risk::Medium => "warning",
        Risk::High | Risk::Critical => "error",
    };
    let why: Vec<String> = class
        .evidence
        .iter()
        .map(|e| format!("{} (\"{}\" in the {})", e.meaning, e.text, e.location))
        .collect();
    let text =
        format!("`{}` is {}, {} risk: {}", tool.name, class.category, class.risk, why.join("; "));
    result("tool-risk", level, &text)
}

fn result(rule: &str, level: &str, text: &str) -> Value {
    json!({ "ruleId": rule, "level": level, "message": { "text": text } })
}

fn add_location(result: &mut Value, server: &str, tool: &AssessedTool, artifact: Option<&str>) {
    let mut location = json!({ "logicalLocations": [{
        "name": tool.name,
        "fullyQualifiedName": format!("{server}/{}", tool.name),
        "kind": "function",
    }]});
    if let (Some(file), Some(members)) = (artifact, location.as_object_mut()) {
        let physical = json!({ "artifactLocation": { "uri": file }, "region": { "startLine": 1 } });
        members.insert("physicalLocation".to_owned(), physical);
    }
    if let Some(members) = result.as_object_mut() {
        members.insert("locations".to_owned(), json!([location]));
        let rule = members.get("ruleId").and_then(Value::as_str).unwrap_or_default();
        let key = format!("{rule}/{server}/{}/{}", tool.name, tool.fingerprint.short());
        members.insert("partialFingerprints".to_owned(), json!({ "tool/v1": key }));
    }
}

/// The rules that the results name, each once.
fn rules(results: &[Value]) -> Vec<Value> {
    let mut ids: Vec<&str> =
        results.iter().filter_map(|r| r.get("ruleId").and_then(Value::as_str)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(rule).collect()
}

fn rule(id: &str) -> Value {
    match pattern(id) {
        Some(pattern) => pattern_rule(pattern),
        None => json!({
            "id": id,
            "shortDescription": { "text": "What a tool can do" },
            "fullDescription": { "text": "The category and risk of a tool by its definition." },
        }),
    }
}

fn pattern_rule(pattern: &Pattern) -> Value {
    json!({
        "id": pattern.id,
        "shortDescription": { "text": pattern.title },
        "fullDescription": { "text": pattern.how },
        "help": { "text": format!("The rule that stops it: {}.", pattern.effect) },
    })
}

//! Runs the whole catalogue on labelled servers: false positives of the poison detector, whether every
//! recommended policy loads and passes its tests, and how often each attack pattern matches.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use catalog::assess::{Assessment, assess};
use catalog::patterns::PATTERNS;
use catalog::recommend::{Offer, Preset, for_server};
use policy::json::{Bounds, Doc};
use policy::{Format, Policy};
use serde_json::Value;

pub(crate) fn report(rows: &[Value]) -> String {
    let servers = assessments(rows);
    let mut out = String::new();
    poison(&servers, &mut out);
    policies(&servers, &mut out);
    patterns(&servers, &mut out);
    out
}

fn assessments(rows: &[Value]) -> Vec<Assessment> {
    let mut servers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows {
        servers.entry(row["server"].as_str().unwrap()).or_default().push(super::definition(row));
    }
    let assessed = servers.iter().map(|(server, tools)| {
        let docs: Vec<Doc<'_>> =
            tools.iter().map(|t| Doc::read(t.as_bytes(), &Bounds::ANSWER).unwrap()).collect();
        assess(server, &docs.iter().map(Doc::root).collect::<Vec<_>>())
    });
    assessed.collect()
}

fn poison(servers: &[Assessment], out: &mut String) {
    let tools: usize = servers.iter().map(|s| s.tools.len()).sum();
    let mut reported = 0;
    let mut lines = String::new();
    for server in servers {
        for tool in server.tools.iter().filter(|t| t.poison.is_reported()) {
            reported += 1;
            let kinds: Vec<String> = tool
                .poison
                .findings
                .iter()
                .map(|f| format!("{:?} {} \"{}\"", f.kind, f.points, f.quote))
                .collect();
            let _ = writeln!(lines, "    {}/{}: {}", server.server, tool.name, kinds.join("; "));
        }
    }
    let _ = writeln!(out, "poisoned definitions: {reported} of {tools} honest tools reported");
    out.push_str(&lines);
}

fn policies(servers: &[Assessment], out: &mut String) {
    let (mut loaded, mut failed, mut tests) = (0, Vec::new(), 0);
    for server in servers {
        for preset in Preset::ALL {
            let offer = Offer { resources: true, prompts: true, skills: &[] };
            let made = for_server(&server.server, &server.tools, offer, preset);
            match Policy::load(&made.text(), Format::Json) {
                Ok(policy) => {
                    loaded += 1;
                    tests += policy.run_tests().len();
                }
                Err(error) => {
                    failed.push(format!("{} {}: {error}", server.server, preset.as_str()));
                }
            }
        }
        for tool in &server.tools {
            let rules = tool.patterns.iter().map(|p| &p.rule).chain([&tool.recommended.policy]);
            for rule in rules {
                match Policy::load(&rule.to_string(), Format::Json) {
                    Ok(_) => loaded += 1,
                    Err(error) => failed.push(format!("{}: {error} {rule}", tool.name)),
                }
            }
        }
    }
    let _ = writeln!(
        out,
        "recommended policies: {loaded} loaded with {tests} tests of servers passed, {} failed",
        failed.len()
    );
    for line in failed.iter().take(20) {
        let _ = writeln!(out, "    {line}");
    }
}

fn patterns(servers: &[Assessment], out: &mut String) {
    let tools: usize = servers.iter().map(|s| s.tools.len()).sum();
    let shown: usize = servers.iter().flat_map(|s| &s.tools).map(|t| t.patterns.len()).sum();
    let _ = writeln!(
        out,
        "attack patterns: {} in the table, {shown} shown by {tools} tools",
        PATTERNS.len()
    );
    for pattern in PATTERNS {
        let count = servers
            .iter()
            .flat_map(|s| &s.tools)
            .filter(|t| t.patterns.iter().any(|e| e.id == pattern.id))
            .count();
        let _ = writeln!(out, "    {:<26} {count:>5}", pattern.id);
    }
}

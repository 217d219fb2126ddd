//! Runs the classifier on labelled tools. `features` prints the features of each row for the trainer,
//! `eval` prints the results of the shipped table, its recorded scores on unseen servers, and the results
//! of the other detectors; `show` prints one classification per row.
//!
//! `cargo run -p catalog --example classifier -- eval TOOLS.jsonl`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a development tool that may stop at the first surprise"
)]

mod eval;
mod survey;

use policy::json::{Bounds, Doc};
use serde_json::{Value, json};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["features", path] => rows(path).iter().for_each(|row| println!("{}", features(row))),
        ["eval", path] => {
            let rows = rows(path);
            print!("{}{}", eval::report(&rows), survey::report(&rows));
        }
        ["show", path] => rows(path).iter().for_each(|row| println!("{}", shown(row))),
        _ => println!("say `features TOOLS.jsonl`, `eval TOOLS.jsonl` or `show TOOLS.jsonl`"),
    }
}

fn rows(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The tool object a server would have sent for a labelled row.
fn definition(row: &Value) -> String {
    json!({
        "name": row["tool"], "title": row["title"], "description": row["description"],
        "inputSchema": row["input_schema"],
        "annotations": {
            "readOnlyHint": row["read_only_hint"], "destructiveHint": row["destructive_hint"],
            "openWorldHint": row["open_world_hint"], "idempotentHint": row["idempotent_hint"],
        }
    })
    .to_string()
}

/// One line: the classification of a row and the contradicted hints.
fn shown(row: &Value) -> String {
    let tool = definition(row);
    let doc = Doc::read(tool.as_bytes(), &Bounds::ANSWER).unwrap();
    let class = catalog::classify::classify(row["server"].as_str().unwrap(), doc.root());
    let claims: Vec<&str> = class.contradictions.iter().map(|c| c.claim.as_str()).collect();
    let name = row["tool"].as_str().unwrap_or_default();
    format!("{name}\t{}\t{}\t{}", class.category, class.risk, claims.join(", "))
}

fn features(row: &Value) -> Value {
    let tool = definition(row);
    let doc = Doc::read(tool.as_bytes(), &Bounds::ANSWER).unwrap();
    let ids = catalog::classify::feature_ids(row["server"].as_str().unwrap(), doc.root());
    json!({
        "server": row["server"], "tool": row["tool"], "family": row["family"],
        "label": row["label"], "alt": row["label_alt"], "tier": row["label_tier"],
        "hints": [row["read_only_hint"], row["destructive_hint"]], "features": ids,
    })
}

//! Built-in servers with real clients: the demo's WHOOP stand-in, over HTTP with a grant and over stdio
//! without one.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{CLIENTS, Case, case, run_cases};
use crate::test::Tally;
use crate::tools::Tools;
use crate::tools::process::{Fixture, Scratch};

pub(super) fn run(tools: &Tools, tollgate: &Path) -> Result<Tally> {
    let scratch = Scratch::new("whoop")?;
    let home = scratch.path.join("home");
    let mut command = Command::new(tollgate);
    command.arg("--home").arg(&home);
    command.args(["up", "--demo", "--json", "--listen", "127.0.0.1:0"]);
    let demo = Fixture::start(&mut command)?;
    let token =
        demo.said.get("token").and_then(Value::as_str).context("no token was handed over")?;
    let over_http = json!({
        "url": format!("{}/whoop", demo.url),
        "headers": { "Authorization": format!("Bearer {token}") },
    });
    let home = format!("{}-demo", home.display());
    let over_stdio = json!({ "command": [tollgate, "--home", home, "stdio", "whoop"] });
    let mut cases = Vec::new();
    for client in CLIENTS.iter().filter(|client| !client.slow) {
        cases.push(asking(&over_http, "WHOOP over HTTP", *client));
        cases.push(asking(&over_stdio, "WHOOP on standard streams", *client));
    }
    Ok(run_cases(tools, &cases))
}

fn asking(target: &Value, name: &str, client: super::Client) -> Case {
    let mut plan = target.clone();
    if let Some(fields) = plan.as_object_mut() {
        let calls = json!([
            { "tool": "get_whoop_auth_status", "contains": "valid" },
            { "tool": "get_whoop_profile", "contains": "@example.com" },
            { "tool": "list_whoop_sleeps", "args": { "start": "last 7 days", "limit": 2 }, "contains": "in_bed_seconds" },
            { "tool": "get_whoop_daily_summary", "args": { "date": "yesterday", "day": "local" }, "contains": "score_states" },
            { "tool": "no_such_tool", "denied": "denied_by_default" },
        ]);
        fields.insert("calls".to_owned(), calls);
        fields.insert("only_calls".to_owned(), true.into());
    }
    case(name.to_owned(), client, plan)
}

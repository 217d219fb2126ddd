//! One call of a personal tool by the owner, through the gate: judged, run and recorded like an agent's.

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, visible_lines};
use crate::stdio;

/// The result of a tool.
pub(super) struct Answered {
    pub(super) is_error: bool,
    pub(super) text: String,
    pub(super) facts: Value,
}

/// Calls a tool and prints its result.
pub(super) fn show(
    tool: &str,
    arguments: &Value,
    context: &Context,
    out: &mut Out,
) -> Result<Ending> {
    let answered = call(tool, arguments, context, &context.open()?)?;
    if answered.is_error {
        return Err(refused(&answered));
    }
    if out.wants_json() {
        out.json(&answered.facts)?;
    } else if let Some(text) = answered.facts.get("result").and_then(Value::as_str) {
        for line in visible_lines(text) {
            out.line(line)?;
        }
    } else {
        for line in visible_lines(&serde_json::to_string_pretty(&answered.facts)?) {
            out.line(line)?;
        }
    }
    Ok(Ending::Yes)
}

/// Checks the credentials at the service.
pub(super) fn credentials(platform: &str, context: &Context, out: &mut Out) -> Result<Ending> {
    let tool = format!("test_{platform}_credentials");
    let answered = call(&tool, &json!({}), context, &context.open()?)?;
    let (message, next_step) = message(&answered);
    let ok = !answered.is_error;
    if out.wants_json() {
        out.json_line(&json!({
            "ok": ok,
            "platform": platform,
            "action": "credentials",
            "message": message,
            "next_step": next_step,
        }))?;
    } else {
        out.line(format_args!("{platform}: {message}"))?;
        if let Some(next_step) = next_step {
            out.say(format_args!("hint: {next_step}"));
        }
    }
    Ok(Ending::of(ok))
}

/// The message, and the hint of an error.
pub(super) fn message(answered: &Answered) -> (String, Option<String>) {
    let at = |pointer: &str| answered.facts.pointer(pointer).and_then(Value::as_str);
    let message = at("/error/message").unwrap_or(&answered.text).to_owned();
    (message, at("/error/hint").map(str::to_owned))
}

fn refused(answered: &Answered) -> anyhow::Error {
    let code = answered.facts.pointer("/error/code").and_then(Value::as_str);
    let (message, hint) = message(answered);
    let code = code.map(|code| format!("{code}: ")).unwrap_or_default();
    match hint {
        Some(hint) => anyhow!("{code}{message}\nhint: {hint}"),
        None => anyhow!("{code}{message}"),
    }
}

/// Runs a session like an agent: handshake, then the call.
pub(super) fn call(
    tool: &str,
    arguments: &Value,
    context: &Context,
    stores: &Stores,
) -> Result<Answered> {
    const QUESTION: u64 = 2;
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "tollgate personal", "version": env!("CARGO_PKG_VERSION") },
        },
    });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let question = json!({
        "jsonrpc": "2.0", "id": QUESTION, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    });
    let said = format!("{hello}\n{ready}\n{question}\n");
    let server = connectors::personal_server::NAME;
    let answer = stdio::request_as_owner(server, said.as_bytes(), QUESTION, context, stores)?;
    if let Some(message) = answer.pointer("/error/message").and_then(Value::as_str) {
        return Err(anyhow!("the call was refused: {message}"));
    }
    let text = answer.pointer("/result/content/0/text").and_then(Value::as_str);
    Ok(Answered {
        is_error: answer.pointer("/result/isError") == Some(&Value::Bool(true)),
        text: text.unwrap_or_default().to_owned(),
        facts: answer.pointer("/result/structuredContent").cloned().unwrap_or_default(),
    })
}

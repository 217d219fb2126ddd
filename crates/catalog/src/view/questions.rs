//! Common questions about a tool, answered for that tool. Every policy in an answer carries tests for
//! its claim, so a wrong answer fails to load.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Parameter, ToolLine};
use crate::assess::AssessedTool;
use crate::classify::{Category, Risk, SignalKind};
use crate::pins::visible;

/// A question, its answer, and a policy that implements it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    pub question: String,
    pub answer: String,
    pub policy: Option<Value>,
}

pub(super) fn of_tool(tool: &AssessedTool, parameters: &[Parameter]) -> Vec<Question> {
    let name = tool.name.as_str();
    let mut all = vec![what_happens(tool)];
    if !crate::recommend::can_be_named(name) {
        return all;
    }
    all.push(stop(name));
    all.push(limit(name, tool.classification.category));
    if tool.classification.category != Category::Read {
        all.push(ask(name));
    }
    let parameter = |kind: SignalKind| {
        let signal = tool.classification.signals.iter().find(|s| s.kind == kind)?;
        parameters.iter().find(|p| is_plain(&p.name) && signal.text == p.name && takes_text(p))
    };
    all.extend(parameter(SignalKind::Path).map(|p| folder(name, &p.name)));
    all.extend(parameter(SignalKind::Url).map(|p| hosts(name, &p.name)));
    let amount = tool.classification.signals.iter().find(|s| s.kind == SignalKind::Amount);
    let amount = amount.and_then(|s| parameters.iter().find(|p| p.name == s.text));
    let amount = amount.filter(|p| is_plain(&p.name) && ["number", "integer"].contains(&&*p.kind));
    all.extend(amount.map(|p| spend(name, &p.name)));
    all.push(change());
    all
}

pub(super) fn of_server(tools: &[ToolLine]) -> Vec<Question> {
    let worst: Vec<String> = tools
        .iter()
        .filter(|tool| tool.risk >= Risk::High)
        .take(5)
        .map(|tool| format!("`{}`", visible(&tool.name)))
        .collect();
    let which = if worst.is_empty() {
        "None of its tools is of high risk by its definition.".to_owned()
    } else {
        format!("Begin with {}: they come first in the list above.", worst.join(", "))
    };
    vec![
        asked("Which tools should I look at first?", which),
        asked(
            "What if the server adds a tool later?",
            "The recommended policy ends with `\"default\": \"deny\"`: a tool it does not name is neither \
             shown nor callable. A tool that was seen before and has another definition now is refused \
             with the code `tool_changed` until you accept it.",
        ),
        asked(
            "Does a policy stop an agent that calls very fast?",
            "Yes. A limit holds in every interval of its length, not only in calendar minutes, for any \
             number of calls at once, and across restarts.",
        ),
    ]
}

fn asked(question: &str, answer: impl Into<String>) -> Question {
    Question { question: question.to_owned(), answer: answer.into(), policy: None }
}

fn what_happens(tool: &AssessedTool) -> Question {
    let name = visible(&tool.name);
    Question {
        question: format!("What does the recommended policy do with `{name}`?"),
        answer: format!(
            "{}, because {}. Every other tool is denied by this policy alone.",
            capital(&tool.recommended.effect),
            tool.recommended.reason
        ),
        policy: Some(tool.recommended.policy.clone()),
    }
}

fn stop(name: &str) -> Question {
    Question {
        question: format!("How do I keep agents away from `{name}` and leave the rest?"),
        answer: "Hide it: it is left out of the list, and a call is answered as if it did not \
                 exist. With `\"action\": \"deny\"` and a reason it stays visible and the denial says why."
            .to_owned(),
        policy: Some(json!({
            "version": "1",
            "default": "allow",
            "hide": [name],
            "tests": [
                { "name": "it is gone", "tool": name, "args": {}, "expect": "hide" },
                { "name": "the rest stays", "tool": other(name), "args": {}, "expect": "allow" },
            ],
        })),
    }
}

fn limit(name: &str, category: Category) -> Question {
    let max = if category == Category::Execute { 10 } else { 30 };
    Question {
        question: format!("How do I limit how often `{name}` is called?"),
        answer: format!(
            "With a limit: in no interval of a minute are more than {max} calls of one grant admitted. \
             The next one is refused and told how long to wait."
        ),
        policy: Some(json!({
            "version": "1",
            "default": "deny",
            "tools": { name: { "limits": [{ "window": "minute", "max": max, "scope": "grant" }] } },
            "tests": [{ "name": "it can be called", "tool": name, "args": {}, "expect": "allow" }],
        })),
    }
}

fn ask(name: &str) -> Question {
    Question {
        question: format!("Can I approve every call of `{name}` myself?"),
        answer: "Yes. The call waits until you approve or deny it; the approval holds for exactly these \
                 arguments, once. An agent can never approve its own call."
            .to_owned(),
        policy: Some(json!({
            "version": "1",
            "default": "deny",
            "tools": { name: { "action": "require_approval" } },
            "tests": [{ "name": "it waits", "tool": name, "args": {}, "expect": "ask" }],
        })),
    }
}

fn folder(name: &str, parameter: &str) -> Question {
    Question {
        question: format!("How do I keep `{name}` inside one folder?"),
        answer: format!(
            "Require `{parameter}` to be below it. The path is normalized first, so `..`, doubled \
             slashes and percent-encoding do not lead out."
        ),
        policy: Some(json!({
            "version": "1",
            "default": "deny",
            "tools": { name: { "require": [{ "conditions": [
                { "path": path(parameter), "op": "path_under", "value": "/srv/data" },
            ] }] } },
            "tests": [
                { "name": "inside", "tool": name, "args": { parameter: "/srv/data/a.txt" }, "expect": "allow" },
                { "name": "outside", "tool": name, "args": { parameter: "/srv/data/../../etc/passwd" }, "expect": "deny" },
            ],
        })),
    }
}

fn hosts(name: &str, parameter: &str) -> Question {
    Question {
        question: format!("How do I let `{name}` reach only hosts I know?"),
        answer: format!(
            "Require the host of `{parameter}` to be on a list. The address is read as a browser reads \
             it, so a name in front of an `@` does not pass for the host."
        ),
        policy: Some(json!({
            "version": "1",
            "default": "deny",
            "tools": { name: { "require": [{ "conditions": [
                { "path": path(parameter), "op": "url_host_in", "value": ["example.com"] },
            ] }] } },
            "tests": [
                { "name": "known", "tool": name, "args": { parameter: "https://example.com/a" }, "expect": "allow" },
                { "name": "another", "tool": name, "args": { parameter: "https://example.com@other.example/" }, "expect": "deny" },
            ],
        })),
    }
}

fn spend(name: &str, parameter: &str) -> Question {
    Question {
        question: format!("How do I cap what `{name}` spends in a day?"),
        answer: format!(
            "With a limit that counts `{parameter}` instead of calls. Decimals count exactly; an amount \
             that is negative, missing or no number is denied."
        ),
        policy: Some(json!({
            "version": "1",
            "default": "deny",
            "tools": { name: { "limits": [
                { "window": "day", "max": 100, "scope": "grant", "increment": path(parameter) },
            ] } },
            "tests": [
                { "name": "an amount passes", "tool": name, "args": { parameter: 20 }, "expect": "allow" },
                { "name": "a negative one does not", "tool": name, "args": { parameter: -20 }, "expect": "deny" },
            ],
        })),
    }
}

fn change() -> Question {
    asked(
        "What if the server changes this tool?",
        "Its definition is pinned when it is first seen. A call to a tool with another definition is \
         refused with the code `tool_changed`; `tollgate server pins SERVER` shows what changed and \
         accepts it.",
    )
}

/// A parameter that a path can name without quoting, and that holds one text.
fn is_plain(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn takes_text(parameter: &Parameter) -> bool {
    parameter.kind == "string" && parameter.choices.is_empty()
}

fn path(parameter: &str) -> String {
    format!("args.{parameter}")
}

fn other(name: &str) -> &'static str {
    if name == "another_tool" { "yet_another_tool" } else { "another_tool" }
}

/// Capitalizes the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

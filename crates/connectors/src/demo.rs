//! The demonstration server: a household's notes and a purse of pretend money, kept in memory.
//! It exists so that a newcomer can watch the gate allow, limit, ask and refuse without an account.

use std::sync::Mutex;

use serde_json::{Map, Value, json};

use crate::{Answer, Ask, Effect, MAIN_SET, Reach, Service, Tool, Working};

pub(crate) const SERVICE: Service = Service {
    name: "demo",
    title: "Demonstration",
    instructions: "A pretend household: notes you may read and add, and a purse. Nothing here is real.",
    tools: TOOLS,
    resources: &[],
    templates: &[],
    account: None,
    policy: POLICY,
};

/// Reads and notes freely; a human decides about what cannot be taken back.
const POLICY: &str = r#"{
  "version": "1",
  "default": "deny",
  "tools": {
    "list_notes": {},
    "add_note": {},
    "delete_note": { "action": "require_approval" },
    "send_money": { "action": "require_approval" }
  }
}"#;

const TOOLS: &[Tool] = &[
    Tool {
        name: "list_notes",
        title: "List notes",
        description: "Lists the notes on the fridge, newest first.",
        input_schema: r#"{"type":"object","properties":{"limit":{"type":"integer","minimum":1,"maximum":100}},"additionalProperties":false}"#,
        output_schema: r#"{"type":"object","properties":{"notes":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"text":{"type":"string"}},"required":["id","text"]}}},"required":["notes"]}"#,
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        run: |ask| at_once(&ask, list_notes),
    },
    Tool {
        name: "add_note",
        title: "Add a note",
        description: "Pins a note to the fridge.",
        input_schema: r#"{"type":"object","properties":{"text":{"type":"string","maxLength":500}},"required":["text"],"additionalProperties":false}"#,
        output_schema: r#"{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}"#,
        effect: Effect::Adds,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        run: |ask| at_once(&ask, add_note),
    },
    Tool {
        name: "delete_note",
        title: "Delete a note",
        description: "Removes a note for good.",
        input_schema: r#"{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}"#,
        output_schema: r#"{"type":"object","properties":{"deleted":{"type":"boolean"}},"required":["deleted"]}"#,
        effect: Effect::Destroys,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        run: |ask| at_once(&ask, delete_note),
    },
    Tool {
        name: "send_money",
        title: "Send money",
        description: "Sends pretend money from the purse to a person.",
        input_schema: r#"{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"number","exclusiveMinimum":0}},"required":["to","amount"],"additionalProperties":false}"#,
        output_schema: r#"{"type":"object","properties":{"sent":{"type":"number"},"to":{"type":"string"}},"required":["sent","to"]}"#,
        effect: Effect::Destroys,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        run: |ask| at_once(&ask, send_money),
    },
];

/// Notes kept at most; the oldest goes first, so that a demonstration left running stays small.
const NOTES_MAX: usize = 1000;

struct Notes {
    next_id: u64,
    notes: Vec<(u64, String)>,
}

static NOTES: Mutex<Notes> = Mutex::new(Notes { next_id: 1, notes: Vec::new() });

fn with_notes<T>(act: impl FnOnce(&mut Notes) -> T) -> T {
    let mut notes = NOTES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if notes.next_id == 1 {
        notes.notes.push((1, "Buy oat milk".to_owned()));
        notes.notes.push((2, "Call grandmother on Sunday".to_owned()));
        notes.next_id = 3;
    }
    act(&mut notes)
}

/// Nothing here waits for anybody.
fn at_once<'a>(ask: &Ask<'a>, act: fn(&Map<String, Value>) -> Answer) -> Working<'a> {
    Box::pin(std::future::ready(act(ask.arguments)))
}

fn list_notes(arguments: &Map<String, Value>) -> Answer {
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(20).clamp(1, 100);
    let limit = usize::try_from(limit).unwrap_or(100);
    let notes: Vec<Value> = with_notes(|notes| {
        notes
            .notes
            .iter()
            .rev()
            .take(limit)
            .map(|(id, text)| json!({"id": id, "text": text}))
            .collect()
    });
    Answer::Found(json!({ "notes": notes }))
}

fn add_note(arguments: &Map<String, Value>) -> Answer {
    let Some(text) =
        arguments.get("text").and_then(Value::as_str).filter(|text| text.len() <= 2000)
    else {
        return invalid("`text` must be a string of at most 500 characters");
    };
    let id = with_notes(|notes| {
        let id = notes.next_id;
        notes.next_id += 1;
        notes.notes.push((id, text.to_owned()));
        if notes.notes.len() > NOTES_MAX {
            notes.notes.remove(0);
        }
        id
    });
    Answer::Found(json!({ "id": id }))
}

fn delete_note(arguments: &Map<String, Value>) -> Answer {
    let Some(id) = arguments.get("id").and_then(Value::as_u64) else {
        return invalid("`id` must be a whole number");
    };
    let deleted = with_notes(|notes| {
        let before = notes.notes.len();
        notes.notes.retain(|(note, _)| *note != id);
        notes.notes.len() < before
    });
    Answer::Found(json!({ "deleted": deleted }))
}

fn send_money(arguments: &Map<String, Value>) -> Answer {
    let to = arguments.get("to").and_then(Value::as_str);
    let amount = arguments.get("amount").filter(|amount| amount.as_f64().is_some_and(|n| n > 0.0));
    match (to, amount) {
        (Some(to), Some(amount)) => Answer::Found(json!({ "sent": amount, "to": to })),
        _ => invalid("`to` must be a name and `amount` a number above zero"),
    }
}

fn invalid(words: &str) -> Answer {
    Answer::Failed { code: "invalid_arguments", words: words.to_owned() }
}

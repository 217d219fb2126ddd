//! The demo server: a household's notes and a purse of pretend money, kept in memory. A new user
//! sees the gate allow, limit, ask and refuse without an account.

use std::future::ready;
use std::sync::Mutex;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::arguments::{self, Blank};
use crate::connector::Connector;
use crate::tool::Handler;
use crate::{Answer, AnswerFuture, Effect, MAIN_SET, Reach, Service, Tool, schema};

static SERVICE: Service = Service { name: "demo", title: "Demonstration", account: None };

pub(crate) const CONNECTOR: Connector = Connector {
    instructions: "A pretend household: notes you may read and add, and a purse. Nothing here is real.",
    tools: TOOLS,
    policy: POLICY,
    ..Connector::of(&SERVICE)
};

/// Reads and notes are allowed; irreversible calls need approval.
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

macro_rules! handler {
    ($function:expr) => {
        Handler {
            input: || input_schema($function),
            output: || output_schema($function),
            run: |_, arguments| run(arguments, $function),
        }
    };
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "list_notes",
        title: "List notes",
        description: "Lists the notes on the fridge, newest first.",
        effect: Effect::Reads,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: false,
        handler: handler!(list_notes),
    },
    Tool {
        name: "add_note",
        title: "Add a note",
        description: "Pins a note to the fridge.",
        effect: Effect::Adds,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: false,
        handler: handler!(add_note),
    },
    Tool {
        name: "delete_note",
        title: "Delete a note",
        description: "Removes a note for good.",
        effect: Effect::Destroys,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: false,
        handler: handler!(delete_note),
    },
    Tool {
        name: "send_money",
        title: "Send money",
        description: "Sends pretend money from the purse to a person.",
        effect: Effect::Destroys,
        set: MAIN_SET,
        reach: Reach::Here,
        scopes: &[],
        aggregates: false,
        handler: handler!(send_money),
    },
];

/// The maximum number of notes; the oldest is evicted, so that a long-running demo stays small.
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

#[derive(Clone, Copy, Deserialize, JsonSchema)]
struct ListNotesArgs {
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: i64,
}

fn usual_limit() -> i64 {
    20
}

#[derive(Serialize, JsonSchema)]
struct NoteList {
    notes: Vec<Note>,
}

#[derive(Serialize, JsonSchema)]
struct Note {
    id: u64,
    text: String,
}

#[expect(clippy::unnecessary_wraps, reason = "all functions of this table have one form")]
fn list_notes(args: ListNotesArgs) -> Result<NoteList, &'static str> {
    let limit = usize::try_from(args.limit.clamp(1, 100)).unwrap_or(100);
    let note = |(id, text): &(u64, String)| Note { id: *id, text: text.clone() };
    Ok(with_notes(|notes| NoteList {
        notes: notes.notes.iter().rev().take(limit).map(note).collect(),
    }))
}

#[derive(Deserialize, JsonSchema)]
struct AddArgs {
    #[schemars(length(max = 500))]
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Added {
    id: u64,
}

fn add_note(args: AddArgs) -> Result<Added, &'static str> {
    if args.text.len() > 2000 {
        return Err("`text` must be a string of at most 500 characters");
    }
    let id = with_notes(|notes| {
        let id = notes.next_id;
        notes.next_id += 1;
        notes.notes.push((id, args.text));
        if notes.notes.len() > NOTES_MAX {
            notes.notes.remove(0);
        }
        id
    });
    Ok(Added { id })
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
struct DeleteArgs {
    id: i64,
}

#[derive(Serialize, JsonSchema)]
struct Deleted {
    deleted: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "all functions of this table have one form")]
fn delete_note(args: DeleteArgs) -> Result<Deleted, &'static str> {
    let deleted = with_notes(|notes| {
        let before = notes.notes.len();
        notes.notes.retain(|(note, _)| i64::try_from(*note) != Ok(args.id));
        notes.notes.len() < before
    });
    Ok(Deleted { deleted })
}

#[derive(Deserialize, JsonSchema)]
struct SendArgs {
    to: String,
    #[schemars(extend("exclusiveMinimum" = 0))]
    amount: Number,
}

#[derive(Serialize, JsonSchema)]
struct SentMoney {
    sent: Number,
    to: String,
}

fn send_money(args: SendArgs) -> Result<SentMoney, &'static str> {
    if args.amount.as_f64().is_some_and(|amount| amount > 0.0) {
        Ok(SentMoney { sent: args.amount, to: args.to })
    } else {
        Err("`amount` must be a number above zero")
    }
}

fn input_schema<A: JsonSchema, O>(_: fn(A) -> Result<O, &'static str>) -> Value {
    let mut schema = schema::of_arguments::<A>();
    schema.insert("additionalProperties".to_owned(), false.into());
    Value::Object(schema)
}

fn output_schema<A, O: JsonSchema>(_: fn(A) -> Result<O, &'static str>) -> Value {
    Value::Object(schema::of_output::<O>())
}

fn run<'a, A: DeserializeOwned, O: Serialize>(
    held: &Map<String, Value>,
    function: fn(A) -> Result<O, &'static str>,
) -> AnswerFuture<'a> {
    let args = arguments::parse(held, Blank::IsValue).map_err(|bad| bad.to_string());
    let done = args.and_then(|args| function(args).map_err(str::to_owned));
    Box::pin(ready(match done {
        Ok(output) => Answer::Found(serde_json::to_value(output).unwrap_or_default()),
        Err(message) => Answer::Failed { code: "invalid_arguments", message },
    }))
}

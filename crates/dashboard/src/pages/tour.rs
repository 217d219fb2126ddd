//! The guided tour of a demo: a call that is allowed, one that is refused, one that waits for approval, and a
//! tool that changes after it was trusted. Each step makes a real call with the grant of the demo, and the audit
//! log says how far the tour is.

use askama::Template;
use serde::Serialize;
use serde_json::{Value, json};
use store::ledger::{Entry, EntryKind, Filter};
use store::registry::PinState;

use crate::app::App;
use crate::page::{Chrome, page};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

/// Newest entries that are searched for the steps.
const ENTRIES_MAX: usize = 500;
const GRANT: &str = "demo";
const SERVER: &str = "demo";
/// The server whose tool changes, and the tool.
const CHANGING_SERVER: &str = "weather";
const CHANGING_TOOL: &str = "forecast";

/// One step of the tour.
struct Step {
    id: &'static str,
    title: &'static str,
    text: &'static str,
    tool: &'static str,
    arguments: fn() -> Value,
    is_done: fn(&Entry) -> bool,
    /// The call waits, so the page does not wait for it.
    waits: bool,
}

const STEPS: [Step; 3] = [
    Step {
        id: "allowed",
        title: "An allowed call",
        text: "The policy allows `list_notes`. The call runs, and the log has a row for it.",
        tool: "list_notes",
        arguments: || json!({}),
        is_done: |entry| entry.decision == "admitted",
        waits: false,
    },
    Step {
        id: "refused",
        title: "A refused call",
        text: "The policy denies `delete_note`. The agent reads the reason; nothing reaches the server.",
        tool: "delete_note",
        arguments: || json!({ "id": 1 }),
        is_done: |entry| entry.decision == "denied",
        waits: false,
    },
    Step {
        id: "approval",
        title: "A call that waits for you",
        text: "Sending more than 20 needs a human. The agent waits while you read the whole call and decide.",
        tool: "send_money",
        arguments: || json!({ "to": "Ada", "amount": 50 }),
        is_done: |entry| entry.decision == "admitted" && !entry.approval.is_empty(),
        waits: true,
    },
];

#[derive(Serialize)]
struct TourStepView {
    id: &'static str,
    title: &'static str,
    text: &'static str,
    call: String,
    /// The entry of the log that shows it.
    entry: Option<u64>,
}

/// The tool that changes, as it is now.
#[derive(Serialize)]
struct ChangeView {
    state: &'static str,
    /// What differs from the definition that the owner accepted.
    changes: Vec<String>,
    #[serde(skip)]
    fingerprint: String,
    call: String,
    /// The entry of the call that was refused because of the change.
    entry: Option<u64>,
}

impl ChangeView {
    fn is_held_back(&self) -> bool {
        self.state == PinState::Changed.as_str()
    }
}

#[derive(Template, Serialize)]
#[template(path = "tour.html")]
struct TourPage {
    #[serde(skip)]
    chrome: Chrome,
    steps: Vec<TourStepView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeView>,
    waiting: usize,
    #[serde(skip)]
    is_demo: bool,
}

impl TourPage {
    /// Whether this is the first step that was not taken; `change` follows the others.
    fn is_next(&self, id: &str) -> bool {
        let open = self.steps.iter().find(|step| step.entry.is_none());
        open.map_or("change", |step| step.id) == id
    }

    fn is_done(&self) -> bool {
        let has_seen_change = self.change.as_ref().is_none_or(|change| change.entry.is_some());
        has_seen_change && self.steps.iter().all(|step| step.entry.is_some())
    }
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let newest = app.newest_rows()?;
    let filter = Filter { grant: Some(GRANT.to_owned()), only: Some(EntryKind::Call), ..newest };
    let mut found: [Option<u64>; STEPS.len()] = [None; STEPS.len()];
    let mut refused_change = None;
    for entry in app.audit()?.newest_first(&filter)?.take(ENTRIES_MAX) {
        let entry = entry?;
        if refused_change.is_none() && entry.tool == CHANGING_TOOL && entry.code == "tool_changed" {
            refused_change = Some(entry.seq);
        }
        for (step, seq) in STEPS.iter().zip(&mut found) {
            if seq.is_none() && entry.tool == step.tool && (step.is_done)(&entry) {
                *seq = Some(entry.seq);
            }
        }
    }
    let steps = STEPS.iter().zip(found).map(|(step, entry)| TourStepView {
        id: step.id,
        title: step.title,
        text: step.text,
        call: format!("{} {}", step.tool, (step.arguments)()),
        entry,
    });
    let view = TourPage {
        chrome: Chrome::new(app, visit, "Tour"),
        steps: steps.collect(),
        change: change(app, refused_change)?,
        waiting: app.watched().pending_count(),
        is_demo: app.live.is_demo(),
    };
    page(visit, &view)
}

fn changing_arguments() -> Value {
    json!({ "place": "Delft" })
}

fn change(app: &App, entry: Option<u64>) -> Result<Option<ChangeView>, Problem> {
    let pins = app.registry.pins(CHANGING_SERVER)?;
    Ok(pins.iter().find(|pin| pin.tool == CHANGING_TOOL).map(|pin| ChangeView {
        state: pin.state.as_str(),
        changes: pin.difference().iter().map(ToString::to_string).collect(),
        fingerprint: pin.seen.as_ref().map(|seen| seen.fingerprint.to_string()).unwrap_or_default(),
        call: format!("{CHANGING_TOOL} {}", changing_arguments()),
        entry,
    }))
}

/// Makes the call of a step as the agent of the demo.
pub(crate) fn call(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let id = visit.name("step");
    if !app.live.is_demo() {
        return Err(Problem::invalid("the tour needs the demo: `tollgate up --demo`"));
    }
    if id == "change" || id == "call-changed" {
        return call_changed(app, id == "change");
    }
    let step = STEPS.iter().find(|step| step.id == id);
    let step = step.ok_or_else(|| Problem::not_found(format!("the tour has no step `{id}`")))?;
    app.live.demo_call(SERVER, step.tool, &(step.arguments)(), step.waits);
    Ok(Response::see_other(&format!("/tour#{id}")))
}

/// The server changes the tool, the gate lists it again as it does by itself from time to time, and the agent
/// calls it.
fn call_changed(app: &App, changes: bool) -> Result<Response, Problem> {
    if changes {
        app.live.change_demo_tool();
        app.live.list_tools(CHANGING_SERVER).map_err(Problem::invalid)?;
    }
    app.live.demo_call(CHANGING_SERVER, CHANGING_TOOL, &changing_arguments(), false);
    Ok(Response::see_other("/tour#change"))
}

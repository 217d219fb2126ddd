//! The guided tour of a demo: a call that is allowed, one that is refused, and one that waits for approval.
//! Each step makes a real call with the grant of the demo, and the audit log says how far the tour is.

use askama::Template;
use serde::Serialize;
use serde_json::{Value, json};
use store::ledger::{Entry, EntryKind, Filter};

use crate::app::App;
use crate::page::{Chrome, page};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

/// Newest entries that are searched for the steps.
const ENTRIES_MAX: usize = 500;
const GRANT: &str = "demo";

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
        text: "The policy allows list_notes. The call runs, and the log has a row for it.",
        tool: "list_notes",
        arguments: || json!({}),
        is_done: |entry| entry.decision == "admitted",
        waits: false,
    },
    Step {
        id: "refused",
        title: "A refused call",
        text: "The policy denies delete_note. The agent reads the reason; nothing reaches the server.",
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
struct StepView {
    id: &'static str,
    title: &'static str,
    text: &'static str,
    call: String,
    /// The entry of the log that shows it.
    entry: Option<u64>,
}

#[derive(Template, Serialize)]
#[template(path = "tour.html")]
struct TourPage {
    #[serde(skip)]
    chrome: Chrome,
    steps: Vec<StepView>,
    waiting: usize,
    #[serde(skip)]
    is_demo: bool,
}

impl TourPage {
    fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.entry.is_some())
    }
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let filter =
        Filter { grant: Some(GRANT.to_owned()), only: Some(EntryKind::Call), ..Filter::default() };
    let mut found: [Option<u64>; STEPS.len()] = [None; STEPS.len()];
    for entry in app.audit()?.newest_first(&filter)?.take(ENTRIES_MAX) {
        let entry = entry?;
        for (step, seq) in STEPS.iter().zip(&mut found) {
            if seq.is_none() && entry.tool == step.tool && (step.is_done)(&entry) {
                *seq = Some(entry.seq);
            }
        }
    }
    let steps = STEPS.iter().zip(found).map(|(step, entry)| StepView {
        id: step.id,
        title: step.title,
        text: step.text,
        call: format!("{} {}", step.tool, (step.arguments)()),
        entry,
    });
    let view = TourPage {
        chrome: Chrome::new(app, visit, "Tour"),
        steps: steps.collect(),
        waiting: app.watched().pending_count(),
        is_demo: app.live.is_demo(),
    };
    page(visit, &view)
}

/// Makes the call of a step as the agent of the demo.
pub(crate) fn call(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let id = visit.name("step");
    let step = STEPS.iter().find(|step| step.id == id);
    let step = step.ok_or_else(|| Problem::not_found(format!("the tour has no step `{id}`")))?;
    if !app.live.is_demo() {
        return Err(Problem::invalid("the tour needs the demo: `tollgate up --demo`"));
    }
    app.live.demo_call(step.tool, &(step.arguments)(), step.waits);
    Ok(Response::see_other("/tour"))
}

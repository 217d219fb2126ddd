//! One entry of the audit log: what happened in a sentence, the rules that were walked, its neighbours in the
//! session, and every field.

use askama::Template;
use serde::Serialize;
use store::captures::Captured;
use store::ledger::{Entry, EntryKind, Filter, Note};
use store::registry::PolicyText;

use crate::access::sees_arguments;
use crate::app::{App, actor};
use crate::page::{Chrome, page, segment};
use crate::pages::audit::EntryView;
use crate::pretty;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::walk::{WalkStep, walk};

/// Entries of the same session before and after.
const NEIGHBOURS_MAX: usize = 5;
/// Rows that are searched for them on each side.
const NEIGHBOUR_ROWS_MAX: u64 = 2_000;

/// What was captured of the call, for roles that may read it.
#[derive(Serialize)]
struct CapturedView {
    bytes: u64,
    is_too_large: bool,
    /// Only in the answer to the request for it, which is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
}

#[derive(Template, Serialize)]
#[template(path = "audit_entry.html")]
struct EntryPage {
    #[serde(skip)]
    chrome: Chrome,
    entry: EntryView,
    /// Nothing for an entry that no policy judged, or whose policy version is not stored any more.
    walk: Option<Vec<WalkStep>>,
    neighbours: Vec<EntryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    captured: Option<CapturedView>,
    #[serde(skip)]
    facts: Vec<(String, String)>,
    #[serde(skip)]
    policy_path: Option<String>,
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let entry = entry(app, visit)?;
    let captured = captured(app, visit, &entry)?.map(|captured| CapturedView {
        bytes: captured.bytes,
        is_too_large: captured.params.is_none(),
        arguments: None,
    });
    page(visit, &entry_page(app, visit, entry, captured)?)
}

/// The page with the captured arguments. That they were read is recorded before they are shown.
pub(crate) fn show_arguments(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let entry = entry(app, visit)?;
    let captured = captured(app, visit, &entry)?.ok_or_else(|| {
        Problem::not_found(format!("the arguments of entry {} were not captured", entry.seq))
    })?;
    let (about, by) = (format!("entry {}", entry.seq), actor(&visit.person.name));
    let note = Note { act: "arguments_read", by: &by, about: &about, words: &entry.server };
    app.ledger.note(&note).map_err(|error| {
        Problem::internal(format!(
            "nothing is shown, because the audit log could not record it: {error}"
        ))
    })?;
    let text = captured.params.as_ref().map(|params| shown(params.expose()));
    let view = CapturedView {
        bytes: captured.bytes,
        is_too_large: captured.params.is_none(),
        arguments: text,
    };
    page(visit, &entry_page(app, visit, entry, Some(view))?)
}

/// The text that the digest covers: the arguments, or `params` and all of them.
fn shown(params: &[u8]) -> String {
    let text = params.strip_prefix(b"params\0").unwrap_or(params);
    pretty(&String::from_utf8_lossy(text))
}

fn captured(app: &App, visit: &Visit, entry: &Entry) -> Result<Option<Captured>, Problem> {
    if !sees_arguments(visit.person.role) {
        return Ok(None);
    }
    let found = app.registry.captures().get(&entry.server, &entry.digest);
    found.map_err(|error| Problem::internal(error.to_string()))
}

fn entry(app: &App, visit: &Visit) -> Result<Entry, Problem> {
    let seq: u64 = visit
        .name("seq")
        .parse()
        .map_err(|_| Problem::not_found("an entry is named by its number"))?;
    let entry = app.audit()?.entry(seq)?;
    entry.ok_or_else(|| Problem::not_found(format!("there is no entry {seq}")))
}

fn entry_page(
    app: &App,
    visit: &Visit,
    entry: Entry,
    captured: Option<CapturedView>,
) -> Result<EntryPage, Problem> {
    let seq = entry.seq;
    let policy = policy_of(app, &entry)?;
    Ok(EntryPage {
        walk: policy.as_ref().and_then(|policy| walk(&entry, policy, &app.zone)),
        policy_path: policy.map(|policy| {
            format!("/policies/{}?version={}", segment(&policy.name), policy.version)
        }),
        neighbours: neighbours(app, &entry)?,
        captured,
        facts: facts(&entry),
        entry: EntryView::of(entry, app),
        chrome: Chrome::new(app, visit, format!("Entry {seq}")),
    })
}

/// The policy text that judged the entry.
fn policy_of(app: &App, entry: &Entry) -> Result<Option<PolicyText>, Problem> {
    let Some(number) = entry.policy_version.filter(|_| !entry.policy.is_empty()) else {
        return Ok(None);
    };
    let effective = app.effective()?;
    let current = effective.policies.get(&entry.policy);
    if let Some(current) = current.filter(|policy| policy.number() == number) {
        return Ok(Some(current.clone()));
    }
    Ok(app.registry.policy_version(&entry.policy, number).ok())
}

/// Other entries of the session, oldest first.
fn neighbours(app: &App, entry: &Entry) -> Result<Vec<EntryView>, Problem> {
    if entry.session.is_empty() {
        return Ok(Vec::new());
    }
    let reader = app.audit()?;
    let of_session = |seq_min, seq_max| Filter {
        text: Some(entry.session.clone()),
        only: Some(EntryKind::Call),
        seq_min: Some(seq_min),
        seq_max: Some(seq_max),
        ..Filter::default()
    };
    let is_of_session = |other: &Entry| other.session == entry.session;
    let earliest = entry.seq.saturating_sub(NEIGHBOUR_ROWS_MAX);
    let before = of_session(earliest, entry.seq.saturating_sub(1));
    let after = of_session(entry.seq + 1, entry.seq.saturating_add(NEIGHBOUR_ROWS_MAX));
    let mut all = Vec::new();
    for found in reader.newest_first(&before)?.take(NEIGHBOURS_MAX * 4) {
        all.push(found?);
    }
    all.retain(is_of_session);
    all.truncate(NEIGHBOURS_MAX);
    all.reverse();
    all.push(entry.clone());
    let mut later = Vec::new();
    for found in reader.oldest_first(&after)?.take(NEIGHBOURS_MAX * 4) {
        later.push(found?);
    }
    later.retain(is_of_session);
    later.truncate(NEIGHBOURS_MAX);
    all.extend(later);
    Ok(all.into_iter().map(|entry| EntryView::of(entry, app)).collect())
}

/// Every field of the entry that has a value, by its name in the format.
fn facts(entry: &Entry) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(entry) else {
        return Vec::new();
    };
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    let named = fields.into_iter().map(|(name, value)| (name, text(value)));
    named.filter(|(_, value)| !value.is_empty()).collect()
}

//! Policies: the list, and one policy with its builder, its text, its versions and their differences. A text
//! that does not load, or whose own tests fail, is not saved; what was typed stays on the page.

use askama::Template;
use http::StatusCode;
use policy::Policy;
use serde::Serialize;
use store::registry::{Origin, PolicyText};

use crate::app::{App, actor};
use crate::builder::{Draft, Fields, apply_fields, format_of};
use crate::page::{Chrome, page, render, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

mod names;
mod start;
mod view;

pub(crate) use names::{CATEGORIES, RISKS};
use start::{Start, start_choices};
use view::{PolicyPage, PolicyView};

#[derive(Serialize)]
struct PolicyRow {
    name: String,
    version: u64,
    origin: &'static str,
    grants: Vec<String>,
    #[serde(skip)]
    path: String,
}

#[derive(Template, Serialize)]
#[template(path = "policies.html")]
struct PoliciesPage {
    #[serde(skip)]
    chrome: Chrome,
    policies: Vec<PolicyRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    typed_name: String,
    #[serde(skip)]
    typed_text: String,
    #[serde(skip)]
    servers: Vec<String>,
    #[serde(skip)]
    starts: Vec<(String, String)>,
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    render(visit.format, StatusCode::OK, &list_page(app, visit, None)?)
}

fn list_page(app: &App, visit: &Visit, error: Option<String>) -> Result<PoliciesPage, Problem> {
    let effective = app.effective()?;
    let policies = effective
        .policies
        .values()
        .map(|policy| PolicyRow {
            name: policy.name.clone(),
            version: policy.version,
            origin: policy.origin.as_str(),
            grants: view::users(&effective, &policy.name)
                .into_iter()
                .map(|(grant, _)| grant)
                .collect(),
            path: format!("/policies/{}", segment(&policy.name)),
        })
        .collect();
    Ok(PoliciesPage {
        chrome: Chrome::new(app, visit, "Policies"),
        policies,
        error,
        typed_name: visit.field("name").unwrap_or_default().to_owned(),
        typed_text: visit.field("text").unwrap_or_default().to_owned(),
        servers: effective.servers.keys().cloned().collect(),
        starts: start_choices(&effective),
    })
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let effective = app.effective()?;
    let name = visit.name("name");
    let current = effective
        .policies
        .get(name)
        .ok_or_else(|| Problem::not_found(format!("there is no policy `{name}`")))?;
    let text = match visit.param("version") {
        None => current.clone(),
        Some(number) => {
            let number = number.parse().map_err(|_| Problem::not_found("a version is a number"))?;
            app.registry.policy_version(name, number)?
        }
    };
    let shown = PolicyView {
        name,
        draft: Draft::new(&*text.source),
        version: Some(text.version),
        ..PolicyView::default()
    };
    page(visit, &PolicyPage::make(app, visit, &effective, shown)?)
}

/// Saves a whole text under a name, or opens the builder with a new draft.
pub(crate) fn save(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let refused = |problem: Problem| match problem.status {
        StatusCode::UNPROCESSABLE_ENTITY => {
            let view = list_page(app, visit, Some(problem.message))?;
            render(visit.format, StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        _ => Err(problem),
    };
    let name = match visit.needed_field("name", "the name") {
        Ok(name) => name.to_owned(),
        Err(problem) => return refused(problem),
    };
    if let Some(start) = visit.field("start") {
        let effective = app.effective()?;
        let made = check_new(&name, &effective).and_then(|()| {
            Start::parse(start)?.text(app, &effective, visit.field("server").unwrap_or_default())
        });
        let text = match made {
            Ok(text) => text,
            Err(problem) => return refused(problem),
        };
        let shown = PolicyView { name: &name, draft: Draft::new(text), ..PolicyView::default() };
        return page(visit, &PolicyPage::make(app, visit, &effective, shown)?);
    }
    let draft = match visit.text_field("text").filter(|text| !text.trim().is_empty()) {
        Some(text) => Draft::new(text),
        None => return refused(Problem::invalid("the policy is missing")),
    };
    store_text(app, visit, &name, &draft, refused)
}

fn check_new(name: &str, effective: &store::effective::Effective) -> Result<(), Problem> {
    if effective.policies.contains_key(name) {
        return Err(Problem::invalid(format!("policy `{name}` exists; open it to change it")));
    }
    Ok(())
}

/// One step of the builder: the changed fields and the pressed button, applied to the text of the form.
pub(crate) fn edit(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let effective = app.effective()?;
    let name = visit.name("name");
    let text = visit.text_field("text").unwrap_or_default();
    let base = Draft::new(base_text(app, visit, name)?.unwrap_or_else(|| text.clone()));
    let mut draft = Draft::new(text);
    let server = view::server_of(&effective, name, visit.field("server"));
    let offered = view::offered(app, &effective, server.as_deref())?;
    let (open, bulk) = (names::open_entry(visit), names::bulk_names(visit, &offered));
    let paths = names::paths_of(open.as_deref(), &offered);
    let fields = Fields { form: &visit.form, paths: &paths, bulk: &bulk };
    let applied = apply_fields(&mut draft, &base, &fields);
    let pressed = visit.field("do").unwrap_or("apply");
    let (touched, mut error) = match applied {
        Ok(touched) => (touched, None),
        Err(message) => (None, Some(message)),
    };
    if pressed == "start" && error.is_none() {
        let start = Start::parse(visit.field("start").unwrap_or_default());
        match start
            .and_then(|start| start.text(app, &effective, server.as_deref().unwrap_or_default()))
        {
            Ok(text) => draft = Draft::new(text),
            Err(problem) => error = Some(problem.message),
        }
    }
    if pressed == "save" && error.is_none() {
        error = saved_meanwhile(app, visit, &effective, name)?;
    }
    if pressed == "save" && error.is_none() {
        let again = |problem: Problem| show_draft(app, visit, &effective, draft.clone(), problem);
        return store_text(app, visit, name, &draft, again);
    }
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let shown = PolicyView { name, draft, error, open, touched, ..PolicyView::default() };
    render(visit.format, status, &PolicyPage::make(app, visit, &effective, shown)?)
}

/// Says who saved a version since the form was shown, so that nobody replaces a version without having seen it. The page
/// that says it names the new version, and saving again replaces that one.
fn saved_meanwhile(
    app: &App,
    visit: &Visit,
    effective: &store::effective::Effective,
    name: &str,
) -> Result<Option<String>, Problem> {
    let Some(seen) = visit.field("seen_version") else { return Ok(None) };
    let version = effective.policies.get(name).map_or(0, |current| current.version);
    if version == 0 || seen == version.to_string() {
        return Ok(None);
    }
    let versions = app.registry.policy_versions(name)?;
    let by = versions.iter().find(|one| one.version == version).map(|one| one.created_by.as_str());
    Ok(Some(format!(
        "Not saved: {} saved version {version} while you edited. What would change is now compared with that version; save again to replace it.",
        by.unwrap_or_default()
    )))
}

/// The text that the form was made from: a stored version by its number, a draft as it was.
fn base_text(app: &App, visit: &Visit, name: &str) -> Result<Option<String>, Problem> {
    match visit.field("base_version") {
        Some(number) => {
            let number = number.parse().map_err(|_| Problem::invalid("a version is a number"))?;
            Ok(Some(app.registry.policy_version(name, number)?.source))
        }
        None => Ok(visit.text_field("base")),
    }
}

/// The builder again with what was typed, and why it was not saved.
fn show_draft(
    app: &App,
    visit: &Visit,
    effective: &store::effective::Effective,
    draft: Draft,
    problem: Problem,
) -> Result<Response, Problem> {
    if problem.status != StatusCode::UNPROCESSABLE_ENTITY {
        return Err(problem);
    }
    // Problems of the text itself are listed at their lines.
    let loads = Policy::load(&draft.text, draft.format()).is_ok();
    let kept = "Not saved. The text below is as you left it.".to_owned();
    let error = Some(if loads { problem.message.clone() } else { kept });
    let shown = PolicyView { name: visit.name("name"), draft, error, ..PolicyView::default() };
    render(visit.format, problem.status, &PolicyPage::make(app, visit, effective, shown)?)
}

fn store_text(
    app: &App,
    visit: &Visit,
    name: &str,
    draft: &Draft,
    refused: impl FnOnce(Problem) -> Result<Response, Problem>,
) -> Result<Response, Problem> {
    let (names, by) = (app.live.settings().names(), actor(&visit.person.name));
    let saved: Result<PolicyText, Problem> = app.act(&visit.person.name, |registry, now_us| {
        registry.put_policy(name, &draft.text, format_of(&draft.text), &by, &names, now_us)
    });
    match saved {
        Ok(saved) => Ok(Response::see_other(&format!("/policies/{}", segment(&saved.name)))),
        Err(problem) => refused(problem),
    }
}

pub(crate) fn restore(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    let version = visit.needed_field("version", "the version")?;
    let version = version.parse().map_err(|_| Problem::invalid("a version is a number"))?;
    let by = actor(&visit.person.name);
    app.act(&visit.person.name, |registry, now_us| {
        registry.roll_back_policy(name, version, &by, now_us)
    })?;
    Ok(Response::see_other(&format!("/policies/{}", segment(name))))
}

/// Whether the policy is changed here and not in the settings file.
fn is_editable(current: Option<&PolicyText>) -> bool {
    current.is_none_or(|current| current.origin == Origin::Registry)
}

//! Servers and their tools, with category, risk, evidence and what changed since the owner accepted them;
//! adding, removing, and their credentials, which can be written and never read.

use askama::Template;
use http::StatusCode;
use serde::Serialize;
use store::ledger::Note;
use store::registry::{
    Accept, Credential, EnvValue, NewServer, Origin, Pin, PinState, ServerOptions, Target,
};
use store::secret::Secret;
use store::secret_words::{shown_argv, shown_url};

use crate::app::{App, actor};
use crate::offer::pins;
use crate::page::{Chrome, page, render, segment};
use crate::paging::Paging;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::server_logins::{self, LoginView};

mod add;

pub(crate) use add::add;
use add::{SECRETS_MAX, TriedView};

const TOOLS_PER_PAGE: usize = 100;

#[derive(Serialize)]
struct ServerRow {
    name: String,
    kind: &'static str,
    state: String,
    tools: usize,
    changed_tools: usize,
    grants: Vec<String>,
    #[serde(skip)]
    path: String,
}

/// A server that a client on this machine uses without the gate.
#[derive(Serialize)]
struct ClientServerRow {
    client: String,
    name: String,
    shown: String,
}

#[derive(Template, Serialize)]
#[template(path = "servers.html")]
struct ServersPage {
    #[serde(skip)]
    chrome: Chrome,
    servers: Vec<ServerRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<TriedView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    client_servers: Vec<ClientServerRow>,
    /// What was typed, without secrets.
    #[serde(skip)]
    typed: Vec<(String, String)>,
    #[serde(skip)]
    secrets: std::ops::Range<usize>,
}

impl ServersPage {
    fn typed(&self, key: &str) -> &str {
        self.typed.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// A name of the form of this kind for a secret, such as one that the catalogue knows.
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "templates pass references to their variables"
    )]
    fn secret_name(&self, kind: &str, number: &usize) -> &str {
        if self.is_open(kind) { self.typed(&format!("secret_name_{number}")) } else { "" }
    }

    /// Whether the form of this kind is open.
    fn is_open(&self, kind: &str) -> bool {
        self.typed("kind") == kind || (kind == "url" && !self.typed("url").is_empty())
    }
}

#[derive(Serialize)]
struct ToolRow {
    name: String,
    description: String,
    category: Option<&'static str>,
    risk: Option<&'static str>,
    evidence: Vec<String>,
    state: &'static str,
    /// What changed since the owner accepted the tool.
    changes: Vec<String>,
    /// Of the definition that is shown; names what an acceptance is for.
    fingerprint: Option<String>,
    #[serde(skip)]
    path: String,
}

#[derive(Serialize)]
struct CredentialRow {
    #[serde(rename = "place")]
    location: &'static str,
    name: String,
}

#[derive(Template, Serialize)]
#[template(path = "server.html")]
struct ServerPage {
    #[serde(skip)]
    chrome: Chrome,
    name: String,
    kind: &'static str,
    target: String,
    state: String,
    last_error: Option<String>,
    tools: Vec<ToolRow>,
    #[serde(skip)]
    paging: Paging,
    grants: Vec<String>,
    logins: Vec<LoginView>,
    credentials: Vec<CredentialRow>,
    /// Whether the arguments of its calls are kept.
    captures: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    path: String,
    /// Servers of the settings file are changed there.
    #[serde(skip)]
    is_editable: bool,
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    page(visit, &servers_page(app, visit, None, None)?)
}

fn servers_page(
    app: &App,
    visit: &Visit,
    tried: Option<TriedView>,
    error: Option<String>,
) -> Result<ServersPage, Problem> {
    let effective = app.effective()?;
    let live = app.live.servers();
    let mut servers = Vec::new();
    for server in effective.servers.values() {
        let pins = pins(app, &effective, &server.name)?;
        let grants = effective.grants().iter().filter(|grant| grant.access(&server.name).is_some());
        servers.push(ServerRow {
            name: server.name.clone(),
            kind: server.target.kind(),
            state: live_text(&live, &server.name, "/state").unwrap_or_else(|| "unknown".to_owned()),
            tools: pins.len(),
            changed_tools: app
                .registry
                .all_pins(&server.name)?
                .iter()
                .filter(|pin| pin.state != PinState::Accepted)
                .count(),
            grants: grants.map(|grant| grant.label.clone()).collect(),
            path: format!("/servers/{}", segment(&server.name)),
        });
    }
    let chrome = Chrome::new(app, visit, "Servers");
    let is_new = |name: &str| !effective.servers.contains_key(name);
    let clients = if chrome.may_administer() { app.live.client_servers() } else { Vec::new() };
    let client_servers = clients
        .into_iter()
        .filter(|one| is_new(&one.name))
        .map(|one| ClientServerRow { client: one.client, name: one.name, shown: one.shown })
        .collect();
    // A link from the catalogue fills in the form.
    let given = visit.form.iter().chain(&visit.query);
    let typed = given.filter(|(name, _)| !name.starts_with("secret_value")).cloned().collect();
    Ok(ServersPage {
        chrome,
        servers,
        tried,
        error,
        client_servers,
        typed,
        secrets: 0..SECRETS_MAX,
    })
}

fn live_text(live: &serde_json::Value, name: &str, pointer: &str) -> Option<String> {
    let all = live.get("servers").and_then(serde_json::Value::as_array);
    let one = all.into_iter().flatten().find(|one| one.get("name").is_some_and(|n| n == name))?;
    one.pointer(pointer)?.as_str().map(str::to_owned)
}

/// A target in one line, without what may be secret.
fn shown_target(target: &Target) -> String {
    match target {
        Target::Builtin { service } => format!("{service}, built in"),
        Target::Command { argv, .. } => shown_argv(argv).join(" "),
        Target::Url { url, .. } => shown_url(url),
    }
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    page(visit, &server_page(app, visit, None)?)
}

fn server_page(app: &App, visit: &Visit, error: Option<String>) -> Result<ServerPage, Problem> {
    let effective = app.effective()?;
    let name = visit.name("name");
    let server = effective
        .servers
        .get(name)
        .ok_or_else(|| Problem::not_found(format!("there is no server `{name}`")))?;
    pins(app, &effective, name)?;
    // With the pages that tools show in clients, which are pinned, too.
    let pins = app.registry.all_pins(name)?;
    let path = format!("/servers/{}", segment(name));
    // What the owner should look at comes first.
    let (mut ordered, accepted): (Vec<&Pin>, Vec<&Pin>) =
        pins.iter().partition(|pin| pin.state != PinState::Accepted);
    ordered.extend(accepted);
    let paging = Paging::new(visit, &path, ordered.len(), TOOLS_PER_PAGE);
    let live = app.live.servers();
    let grants = effective.grants().iter().filter(|grant| grant.access(name).is_some());
    let credentials = server.target.credentials().into_iter();
    Ok(ServerPage {
        chrome: Chrome::new(app, visit, format!("Server {name}")),
        name: name.to_owned(),
        kind: server.target.kind(),
        target: shown_target(&server.target),
        state: live_text(&live, name, "/state").unwrap_or_else(|| "unknown".to_owned()),
        last_error: live_text(&live, name, "/last_error/words"),
        tools: paging
            .of(&ordered)
            .iter()
            .map(|pin| tool_row(app, name, &path, pin, &pins))
            .collect(),
        paging,
        grants: grants.map(|grant| grant.label.clone()).collect(),
        logins: server_logins::of(app, &effective, server),
        credentials: credentials
            .map(|(location, name, _)| CredentialRow {
                location: location.as_str(),
                name: name.into_owned(),
            })
            .collect(),
        captures: server.options.capture,
        error,
        is_editable: server.origin == Origin::Registry,
        path,
    })
}

fn tool_row(app: &App, server: &str, path: &str, pin: &Pin, all: &[Pin]) -> ToolRow {
    let class = app.classes.class(server, pin, all);
    let pinned = pin.seen.as_ref().or(pin.accepted.as_ref());
    ToolRow {
        name: pin.tool.clone(),
        description: pinned.map(|pinned| description(&pinned.definition)).unwrap_or_default(),
        category: class.as_ref().map(|class| class.category),
        risk: class.as_ref().map(|class| class.risk),
        evidence: class.map(|class| class.evidence).unwrap_or_default(),
        state: pin.state.as_str(),
        fingerprint: pin.seen.as_ref().map(|seen| seen.fingerprint.to_string()),
        changes: pin.difference().iter().map(ToString::to_string).collect(),
        path: format!("{path}/tools/{}", segment(&pin.tool)),
    }
}

fn description(definition: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(definition).unwrap_or_default();
    let text = value.get("description").and_then(serde_json::Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Accepts the definition of one tool as it was shown: not one that the server changed since.
pub(crate) fn accept(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    let tool = visit.needed_field("tool", "the tool")?;
    let shown = visit.needed_field("fingerprint", "the fingerprint")?;
    let pins = app.registry.all_pins(name)?;
    let seen = pins.iter().find(|pin| pin.tool == tool).and_then(|pin| pin.seen.as_ref());
    let seen = seen.filter(|seen| seen.fingerprint.to_string() == shown).ok_or_else(|| {
        Problem::invalid(format!("tool `{tool}` has changed again since this page was shown; look at the difference again"))
    })?;
    let by = actor(&visit.person.name);
    app.act(&visit.person.name, |registry, now_us| {
        registry.accept(name, Accept::Exactly(tool, &seen.fingerprint), &by, now_us)
    })?;
    if visit.field("from") == Some("tour") {
        return Ok(Response::see_other("/tour#change"));
    }
    Ok(Response::see_other(&format!("/servers/{}", segment(name))))
}

/// Lists the tools of a server now.
pub(crate) fn list_tools(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    if !app.effective()?.servers.contains_key(name) {
        return Err(Problem::not_found(format!("there is no server `{name}`")));
    }
    match app.live.list_tools(name) {
        Ok(()) => Ok(Response::see_other(&format!("/servers/{}", segment(name)))),
        Err(error) => {
            let view = server_page(app, visit, Some(error))?;
            render(visit.format, StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
    }
}

/// Removes a server with its credentials, its logins, its pins, and its place in every grant.
pub(crate) fn remove(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let name = visit.name("name");
    app.act(&visit.person.name, |registry, now_us| registry.remove_server(name, now_us))?;
    let ended = app.live.sign_out_of_server(name).map_err(Problem::internal)?;
    let by = actor(&visit.person.name);
    for words in ended {
        app.ledger.note(&Note { act: "server_signed_out", by: &by, about: name, words })?;
    }
    Ok(Response::see_other("/servers"))
}

/// Keeps the arguments of its calls, or stops keeping them.
pub(crate) fn set_capture(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let server = app.registry.server(visit.name("name"))?;
    let capture = visit.needed_field("capture", "whether to keep them")? == "on";
    let options = ServerOptions { capture, ..server.options };
    let new = NewServer { name: server.name, target: server.target, options };
    app.act(&visit.person.name, |registry, now_us| registry.replace_server(&new, now_us))?;
    Ok(Response::see_other(&format!("/servers/{}", segment(&new.name))))
}

/// Writes a header or a secret variable of a server; an empty value removes it.
pub(crate) fn set_credential(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let server = app.registry.server(visit.name("name"))?;
    let key = visit.needed_field("credential", "the name")?;
    let value = visit.field("value").map(|value| Credential::Held(Secret::new(value)));
    let mut target = server.target;
    match &mut target {
        Target::Url { headers, .. } => {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case(key));
            headers.extend(value.map(|value| (key.to_owned(), value)));
        }
        Target::Command { env, .. } => {
            env.retain(|(name, _)| name != key);
            env.extend(value.map(|value| (key.to_owned(), EnvValue::Hidden(value))));
        }
        Target::Builtin { .. } => {
            return Err(Problem::invalid("a built-in server has its credentials in its account"));
        }
    }
    let new = NewServer { name: server.name, target, options: server.options };
    let done =
        app.act(&visit.person.name, |registry, now_us| registry.replace_server(&new, now_us));
    match done {
        Ok(()) => Ok(Response::see_other(&format!("/servers/{}", segment(&new.name)))),
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let view = server_page(app, visit, Some(problem.message))?;
            render(visit.format, StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        Err(problem) => Err(problem),
    }
}

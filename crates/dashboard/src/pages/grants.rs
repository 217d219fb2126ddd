//! Access of clients: grants, their policies, and tokens that are shown once.

use askama::Template;
use http::StatusCode;
use serde::Serialize;
use store::registry::{
    Grant, GrantState, NewGrant, OVERLAP_SECONDS_DEFAULT, Origin, ServerAccess, Token,
};

use crate::app::App;
use crate::page::{Chrome, page, render, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::time::Moment;

mod usage;

use usage::{GrantUsage, usage};

pub(crate) const DAY_US: i64 = 86_400 * 1_000_000;
/// The times after which a grant can end: days and label.
pub(crate) const EXPIRIES: [(i64, &str); 3] = [(7, "7 days"), (30, "30 days"), (365, "1 year")];

#[derive(Serialize)]
struct GrantView {
    label: String,
    id: String,
    kind: &'static str,
    /// The client that signed in, as it calls itself, and its id.
    client: Option<ClientView>,
    state: &'static str,
    servers: Vec<HoldingView>,
    created_at: Moment,
    expires_at: Option<Moment>,
    origin: &'static str,
    /// Requests in `counted_in` of the page.
    calls: u64,
    last_used: Option<Moment>,
    operator: bool,
    #[serde(skip)]
    path: String,
    /// Grants of the settings file are changed there.
    #[serde(skip)]
    is_editable: bool,
}

#[derive(Serialize)]
struct HoldingView {
    server: String,
    policy: Option<String>,
}

#[derive(Serialize)]
struct ClientView {
    name: String,
    id: String,
    audience: String,
}

impl GrantView {
    fn of(grant: &Grant, used: Option<&GrantUsage>, app: &App) -> GrantView {
        let state = grant.state(app.now_us());
        let access = |access: &ServerAccess| HoldingView {
            server: access.server.clone(),
            policy: access.policy.clone(),
        };
        GrantView {
            label: grant.label.clone(),
            id: grant.id.clone(),
            kind: grant.kind(),
            client: grant.client.as_ref().map(|client| ClientView {
                name: client.name.clone(),
                id: client.id.clone(),
                audience: client.audience.clone(),
            }),
            state: state.as_str(),
            servers: grant.server_access.iter().map(access).collect(),
            created_at: Moment::of(grant.created_at_us, &app.zone),
            expires_at: grant.expires_at_us.map(|us| Moment::of(us, &app.zone)),
            origin: grant.origin.as_str(),
            calls: used.map_or(0, |used| used.calls),
            last_used: used.map(|used| used.last.clone()),
            operator: grant.operator,
            path: format!("/grants/{}", segment(&grant.label)),
            is_editable: grant.origin == Origin::Registry && state == GrantState::Active,
        }
    }
}

#[derive(Template, Serialize)]
#[template(path = "grants.html")]
struct GrantsPage {
    #[serde(skip)]
    chrome: Chrome,
    grants: Vec<GrantView>,
    /// What calls and last use were counted in.
    counted_in: &'static str,
    #[serde(skip)]
    servers: Vec<String>,
    #[serde(skip)]
    policies: Vec<String>,
    #[serde(skip)]
    expiries: [(i64, &'static str); 3],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What was typed into the form that was refused.
    #[serde(skip)]
    typed: Vec<(String, String)>,
}

impl GrantsPage {
    fn typed(&self, key: &str) -> &str {
        self.typed.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    fn is_typed(&self, key: &str, value: &str) -> bool {
        self.typed.iter().any(|(name, typed)| name == key && typed == value)
    }
}

#[derive(Template, Serialize)]
#[template(path = "grant.html")]
struct GrantPage {
    #[serde(skip)]
    chrome: Chrome,
    #[serde(flatten)]
    grant: GrantView,
    /// What calls and last use were counted in.
    counted_in: &'static str,
    #[serde(skip)]
    policies: Vec<String>,
    /// Servers that the grant has no access to.
    #[serde(skip)]
    other_servers: Vec<String>,
    #[serde(skip)]
    expiries: [(i64, &'static str); 3],
}

/// The one page that shows a token.
#[derive(Template, Serialize)]
#[template(path = "token.html")]
struct TokenPage {
    #[serde(skip)]
    chrome: Chrome,
    label: String,
    token: String,
    url: String,
    /// What to paste into each client.
    clients: Vec<SnippetView>,
    #[serde(skip)]
    path: String,
}

#[derive(Serialize)]
struct SnippetView {
    client: &'static str,
    hint: String,
    text: String,
}

pub(crate) fn list(app: &App, visit: &Visit) -> Result<Response, Problem> {
    page(visit, &list_page(app, visit, None)?)
}

fn list_page(app: &App, visit: &Visit, error: Option<String>) -> Result<GrantsPage, Problem> {
    let effective = app.effective()?;
    let used = usage(app, None)?;
    let grants = effective.grants().iter();
    Ok(GrantsPage {
        chrome: Chrome::new(app, visit, "Grants"),
        grants: grants
            .map(|grant| GrantView::of(grant, used.grants.get(&grant.label), app))
            .collect(),
        counted_in: used.counted_in,
        // Operator grants are made on the machine of the gate.
        servers: effective
            .servers
            .values()
            .filter(|server| !server.target.is_operator())
            .map(|server| server.name.clone())
            .collect(),
        policies: effective.policies.keys().cloned().collect(),
        expiries: EXPIRIES,
        error,
        typed: visit.form.clone(),
    })
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let effective = app.effective()?;
    let label = visit.name("label");
    let ended = || effective.grants().iter().rev().find(|grant| grant.label == label);
    let grant = effective
        .grant(label)
        .or_else(ended)
        .ok_or_else(|| Problem::not_found(format!("there is no grant `{label}`")))?;
    let used = usage(app, Some(label))?;
    let view = GrantPage {
        chrome: Chrome::new(app, visit, format!("Grant {label}")),
        grant: GrantView::of(grant, used.grants.get(label), app),
        counted_in: used.counted_in,
        policies: effective.policies.keys().cloned().collect(),
        other_servers: effective
            .servers
            .values()
            .filter(|server| grant.access(&server.name).is_none())
            .filter(|server| grant.operator || !server.target.is_operator())
            .map(|server| server.name.clone())
            .collect(),
        expiries: EXPIRIES,
    };
    page(visit, &view)
}

/// Creates a grant, or shows the form again with what was typed.
pub(crate) fn create(app: &App, visit: &Visit) -> Result<Response, Problem> {
    match try_create(app, visit) {
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let view = list_page(app, visit, Some(problem.message))?;
            render(visit.format, StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        done => done,
    }
}

fn try_create(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let label = visit.needed_field("label", "the label")?.to_owned();
    let server_access: Vec<ServerAccess> = visit
        .fields("server")
        .filter(|server| !server.is_empty())
        .map(|server| {
            let policy = visit.field(&format!("policy:{server}")).map(str::to_owned);
            ServerAccess { server: server.to_owned(), policy }
        })
        .collect();
    if server_access.is_empty() {
        return Err(Problem::invalid("choose at least one server"));
    }
    let expires_at_us = expiry(app, visit)?;
    let new = NewGrant { label, server_access, expires_at_us };
    let names = app.live.settings().names();
    let (grant, token) = app
        .act(&visit.person.name, |registry, now_us| registry.create_grant(&new, &names, now_us))?;
    hand_over(app, visit, &grant, &token)
}

/// When the form lets a grant end; never without a choice.
fn expiry(app: &App, visit: &Visit) -> Result<Option<i64>, Problem> {
    let Some(days) = visit.field("expires_days") else { return Ok(None) };
    let known = EXPIRIES.iter().find(|(known, _)| known.to_string() == days);
    let (days, _) = known.ok_or_else(|| Problem::invalid("choose when it expires"))?;
    Ok(Some(app.now_us() + days * DAY_US))
}

pub(crate) fn set_expiry(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let label = visit.name("label");
    let expires_at_us = expiry(app, visit)?;
    app.act(&visit.person.name, |registry, now_us| {
        registry.set_expiry(label, expires_at_us, now_us)
    })?;
    Ok(Response::see_other(&format!("/grants/{}", segment(label))))
}

/// Gives access to a server, or takes it away.
pub(crate) fn set_server(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let label = visit.name("label");
    let server = visit.needed_field("server", "the server")?;
    let mut server_access = app.registry.grant(label)?.server_access;
    server_access.retain(|access| access.server != server);
    if visit.field("do") != Some("remove") {
        let policy = visit.field("policy").map(str::to_owned);
        server_access.push(ServerAccess { server: server.to_owned(), policy });
    }
    let names = app.live.settings().names();
    app.act(&visit.person.name, |registry, now_us| {
        registry.set_server_access(label, &server_access, &names, now_us)
    })?;
    Ok(Response::see_other(&format!("/grants/{}", segment(label))))
}

pub(crate) fn rotate(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let label = visit.name("label");
    let overlap = match visit.field("overlap") {
        Some("none") => 0,
        Some("day") | None => OVERLAP_SECONDS_DEFAULT,
        Some(_) => return Err(Problem::invalid("`overlap` is `day` or `none`")),
    };
    let token = app.act(&visit.person.name, |registry, now_us| {
        registry.rotate_grant(label, overlap, now_us)
    })?;
    hand_over(app, visit, &app.registry.grant(label)?, &token)
}

pub(crate) fn revoke(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let label = visit.name("label");
    app.act(&visit.person.name, |registry, now_us| registry.revoke_grant(label, now_us))?;
    Ok(Response::see_other("/grants"))
}

pub(crate) fn set_policy(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let label = visit.name("label");
    let server = visit.needed_field("server", "the server")?;
    let policy = visit.needed_field("policy", "the policy")?;
    let mut server_access = app.registry.grant(label)?.server_access;
    let access = server_access.iter_mut().find(|access| access.server == server);
    let access = access.ok_or_else(|| {
        Problem::invalid(format!("grant `{label}` has no access to server `{server}`"))
    })?;
    access.policy = Some(policy.to_owned());
    let names = app.live.settings().names();
    app.act(&visit.person.name, |registry, now_us| {
        registry.set_server_access(label, &server_access, &names, now_us)
    })?;
    Ok(Response::see_other(&format!("/grants/{}", segment(label))))
}

/// The one time a token is shown.
fn hand_over(app: &App, visit: &Visit, grant: &Grant, token: &Token) -> Result<Response, Problem> {
    let label = &grant.label;
    let snippets = app.live.snippets(grant, token).into_iter();
    let view = TokenPage {
        chrome: Chrome::new(app, visit, format!("Token of {label}")),
        label: label.clone(),
        token: token.expose().to_owned(),
        url: app.live.mcp_url(),
        clients: snippets
            .map(|one| SnippetView { client: one.client, hint: one.hint, text: one.text })
            .collect(),
        path: format!("/grants/{}", segment(label)),
    };
    page(visit, &view)
}

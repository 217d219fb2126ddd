//! The logins at servers that want OAuth, for pages: their state, and what only the owner can do about them.

use serde::Serialize;
use store::effective::Effective;
use store::logins::{LoginFacts, OwnerStep};
use store::registry::{Grant, GrantState, Server};

use crate::app::App;
use crate::page::segment;
use crate::time::Moment;

/// One login at a server.
#[derive(Serialize)]
pub(crate) struct LoginView {
    /// The label of the grant whose login it is; all grants share it otherwise.
    pub(crate) grant: Option<String>,
    /// `signed in`, `needs sign-in` or `needs more scope`.
    pub(crate) state: &'static str,
    pub(crate) why: String,
    pub(crate) issuer: String,
    pub(crate) scopes: Vec<String>,
    /// When the access token ends. It is replaced before that.
    pub(crate) expires_at: Option<Moment>,
    pub(crate) refreshed_at: Option<Moment>,
    /// What the owner can do, as the words of a link.
    pub(crate) step: Option<String>,
    /// Where the owner does it.
    #[serde(skip)]
    pub(crate) path: String,
}

impl LoginView {
    pub(crate) fn tone(&self) -> &'static str {
        match self.state {
            "signed in" => "allowed",
            "needs more scope" => "waiting",
            _ => "refused",
        }
    }
}

/// The logins at a server that are in use. One that cannot be read is shown with its error. Where each grant has its
/// own login, the shared one is for the owner's own requests and may never be made.
pub(crate) fn of(app: &App, effective: &Effective, server: &Server) -> Vec<LoginView> {
    let found = match app.logins.at_server(server) {
        Ok(found) => found,
        Err(error) => return vec![unreadable(server, &error.to_string())],
    };
    let mut views = Vec::new();
    for facts in &found {
        let is_shared = facts.grant.is_none();
        if is_shared && server.options.per_grant && facts.refreshed_us.is_none() {
            continue;
        }
        let grant = match &facts.grant {
            None => None,
            Some(id) => match active(app, effective, id) {
                Some(grant) => Some(grant),
                None => continue,
            },
        };
        views.push(view(app, facts, grant));
    }
    views
}

fn active<'e>(app: &App, effective: &'e Effective, id: &str) -> Option<&'e Grant> {
    let grant = effective.grants().iter().find(|grant| grant.id == id)?;
    (grant.state(app.now_us()) == GrantState::Active).then_some(grant)
}

fn view(app: &App, facts: &LoginFacts, grant: Option<&Grant>) -> LoginView {
    let name = &facts.server;
    let whose = grant.map(|grant| format!(" for {}", grant.label)).unwrap_or_default();
    let (state, why, step) = match facts.owner_step() {
        None => ("signed in", String::new(), None),
        Some(OwnerStep::SignIn { why }) => {
            ("needs sign-in", why.to_owned(), Some(format!("Sign in to {name}{whose}")))
        }
        Some(OwnerStep::AllowScopes(scopes)) => {
            let why = format!("the server asks for {}", scopes.join(" "));
            ("needs more scope", why, Some(format!("Allow {name} more{whose}")))
        }
        Some(OwnerStep::AskForRight(scopes)) => {
            let why = format!(
                "the server asks for {}, which signing in again did not give; the account may lack the right",
                scopes.join(" ")
            );
            ("needs more scope", why, None)
        }
    };
    let query = grant.map(|grant| {
        let id: String = form_urlencoded::byte_serialize(grant.id.as_bytes()).collect();
        format!("?grant={id}")
    });
    let query = query.unwrap_or_default();
    LoginView {
        grant: grant.map(|grant| grant.label.clone()),
        state,
        why,
        issuer: facts.issuer.clone(),
        scopes: facts.scopes_granted.clone(),
        expires_at: facts.expires_us.map(|at_us| Moment::of(at_us, &app.zone)),
        refreshed_at: facts.refreshed_us.map(|at_us| Moment::of(at_us, &app.zone)),
        step,
        path: format!("/servers/{}/sign-in{query}", segment(name)),
    }
}

fn unreadable(server: &Server, why: &str) -> LoginView {
    LoginView {
        grant: None,
        state: "needs sign-in",
        why: why.lines().next().unwrap_or_default().to_owned(),
        issuer: String::new(),
        scopes: Vec::new(),
        expires_at: None,
        refreshed_at: None,
        step: Some(format!("Sign in to {}", server.name)),
        path: format!("/servers/{}/sign-in", segment(&server.name)),
    }
}

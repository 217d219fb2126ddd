//! Adding a server: a command, an address, or one that a client uses already. It is tried before it is added;
//! secrets go to the vault and are never shown again.

use http::StatusCode;
use policy::json::{Bounds, Doc};
use serde::Serialize;
use store::registry::{Credential, EnvValue, NewServer, RegistryError, ServerOptions, Target};
use store::secret::Secret;

use super::servers_page;
use crate::app::App;
use crate::live::TriedServer;
use crate::page::{render, segment};
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use store::tool_class;

/// Pairs of name and value that the form has.
pub(super) const SECRETS_MAX: usize = 3;

/// What a try found.
#[derive(Serialize)]
pub(super) struct TriedView {
    /// Names the tried server until it is added.
    #[serde(skip)]
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) shown: String,
    pub(super) tools: Vec<TriedTool>,
    pub(super) resources: usize,
    pub(super) prompts: usize,
    pub(super) instructions: Option<String>,
}

#[derive(Serialize)]
pub(super) struct TriedTool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) category: &'static str,
    pub(super) risk: &'static str,
    pub(super) evidence: Vec<String>,
}

/// Tries or adds a server.
pub(crate) fn add(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let done = match visit.field("do") {
        Some("add") => add_tried(app, visit),
        _ => try_one(app, visit),
    };
    match done {
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let view = servers_page(app, visit, None, Some(problem.message))?;
            render(visit.format, StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        done => done,
    }
}

fn try_one(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let new = new_server(app, visit)?;
    let effective = app.effective()?;
    if effective.servers.contains_key(&new.name) {
        return Err(Problem::invalid(format!("server `{}` exists already", new.name)));
    }
    let tried = app.live.try_server(&new).map_err(Problem::invalid)?;
    let id = app.random_id()?;
    let view = view(&id, &new.name, &tried);
    let new = NewServer { target: tried.target, ..new };
    app.pending.put(id, &visit.person.name, new, app.now_us());
    render(visit.format, StatusCode::OK, &servers_page(app, visit, Some(view), None)?)
}

fn view(id: &str, name: &str, tried: &TriedServer) -> TriedView {
    let docs: Vec<Doc<'_>> = tried
        .tools
        .iter()
        .filter_map(|tool| Doc::read(tool.as_bytes(), &Bounds::ANSWER).ok())
        .collect();
    let tools: Vec<policy::json::Value<'_>> = docs.iter().map(Doc::root).collect();
    let assessed = catalog::assess::assess(name, &tools);
    let tool = |tool: &catalog::assess::AssessedTool| TriedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        category: tool.classification.category.as_str(),
        risk: tool.classification.risk.as_str(),
        evidence: tool_class::reasons(&tool.classification),
    };
    TriedView {
        id: id.to_owned(),
        name: name.to_owned(),
        kind: tried.target.kind(),
        shown: super::shown_target(&tried.target),
        tools: assessed.tools.iter().map(tool).collect(),
        resources: tried.resources.len(),
        prompts: tried.prompts.len(),
        instructions: tried.instructions.clone(),
    }
}

fn add_tried(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let id = visit.needed_field("tried", "the tried server")?;
    let new = app.pending.get(id, &visit.person.name, app.now_us());
    let new =
        new.ok_or_else(|| Problem::invalid("this trial has expired; try the server again"))?;
    let names = app.live.settings().names();
    app.act(&visit.person.name, |registry, now_us| registry.add_server(&new, &names, now_us))?;
    app.pending.remove(id);
    // Its page shows why, if it does not answer any more.
    if let Err(error) = app.live.list_tools(&new.name) {
        tracing::warn!(server = %new.name, %error, "the tools of a new server could not be listed");
    }
    Ok(Response::see_other(&format!("/servers/{}", segment(&new.name))))
}

/// The server that the form describes.
fn new_server(app: &App, visit: &Visit) -> Result<NewServer, Problem> {
    let target = match visit.field("kind") {
        Some("url") => from_url(visit)?,
        Some("client") => from_client(app, visit)?,
        _ => from_command(visit)?,
    };
    let name = visit.needed_field("name", "the name")?.to_owned();
    target.check().map_err(RegistryError::from)?;
    if target.leads_to(app.live.settings().listen) {
        return Err(Problem::invalid("this is the gate's own address, so calls would loop"));
    }
    Ok(NewServer { name, target, options: ServerOptions::default() })
}

fn from_url(visit: &Visit) -> Result<Target, Problem> {
    let url = visit.needed_field("url", "the address")?;
    let headers = secrets(visit).map(|(name, value)| (name, Credential::Held(value))).collect();
    let target = Target::from_url(url, headers, visit.field("allow_plain_http").is_some());
    target.map_err(|error| Problem::invalid(error.to_string()))
}

fn from_command(visit: &Visit) -> Result<Target, Problem> {
    let line = visit.needed_field("command", "the command")?;
    let argv = shlex::split(line);
    let argv = argv.ok_or_else(|| Problem::invalid("a quote in the command is not closed"))?;
    let mut env = Vec::new();
    for line in visit.text_field("env").unwrap_or_default().lines().filter(|l| !l.trim().is_empty())
    {
        let Some((name, value)) = line.split_once('=') else {
            return Err(Problem::invalid(format!("`{}` is not NAME=VALUE", line.trim())));
        };
        env.push((name.trim().to_owned(), EnvValue::Plain(value.to_owned())));
    }
    env.extend(
        secrets(visit).map(|(name, value)| (name, EnvValue::Hidden(Credential::Held(value)))),
    );
    let cwd = visit.field("cwd").map(Into::into);
    Ok(Target::Command { argv, env, cwd, secret_args: Vec::new() })
}

/// The filled pairs of the form.
fn secrets(visit: &Visit) -> impl Iterator<Item = (String, Secret)> + '_ {
    (0..SECRETS_MAX).filter_map(|number| {
        let name = visit.field(&format!("secret_name_{number}"))?;
        let value = visit.field(&format!("secret_value_{number}"))?;
        Some((name.to_owned(), Secret::new(value)))
    })
}

fn from_client(app: &App, visit: &Visit) -> Result<Target, Problem> {
    let chosen = visit.needed_field("client_server", "the server")?;
    let known = app.live.client_servers();
    let found = known.into_iter().find(|one| format!("{}/{}", one.client, one.name) == chosen);
    let found = found.ok_or_else(|| Problem::invalid("this client no longer has such a server"))?;
    Ok(found.target)
}

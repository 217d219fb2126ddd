//! `/authorize`: shows the owner who wants access, and turns a yes into a grant. Every authorization is
//! decided by a person, in the session and the browser that the page was shown in.

use askama::Template;
use bytes::Bytes;
use catalog::assess::assess;
use catalog::recommend::{Offer, Preset, for_server};
use http::{HeaderMap, Method, Request, StatusCode};
use oauth::server::issuer::MCP_PATH;
use oauth::server::{
    Authorize, AuthorizeFault, CheckedAuthorize, ErrorCode, RedirectKind, Refusal,
};
use policy::json::{Bounds, Doc, Value};
use serde::Serialize;
use store::effective::Effective;
use store::ledger::Note;
use store::registry::{NewSignIn, OAuthClient, Person, ServerAccess, Target};
use url::Url;

use super::documents::FoundClient;
use super::{Endpoint, documents};
use crate::access::Access;
use crate::app::{App, actor};
use crate::page::render;
use crate::pages::grants::{DAY_US, EXPIRIES};
use crate::problem::Problem;
use crate::request::{self, CONSENT_COOKIE_NAME, Format, filled_in};
use crate::response::Response;
use crate::{assets, csrf, routes};

pub(super) const PATH: &str = "/authorize/consent";
/// A policy that allows plain reads, made for this grant from the tools that were seen.
const READ_ONLY: &str = ":read-only";
/// The rules that a built-in server brings.
const BUILT_IN: &str = ":built-in";
/// How often the page without a session looks for one.
const WAIT_SECONDS: u32 = 3;
const LABEL_CHARS_MAX: usize = 40;
const POLICY_NAME_CHARS_MAX: usize = 64;

#[derive(Template, Serialize)]
#[template(path = "authorize_wait.html")]
struct WaitPage {
    refresh_seconds: u32,
    next: String,
    command: String,
    icon: &'static str,
    style: &'static str,
}

#[derive(Template, Serialize)]
#[template(path = "consent.html")]
struct ConsentPage {
    client_name: String,
    client_id: String,
    is_fetched: bool,
    /// Why the document is the copy that tollgate has.
    copied_because: Option<String>,
    redirect_host: String,
    redirect_uri: String,
    resource: String,
    warning: Option<&'static str>,
    servers: Vec<ServerChoice>,
    policies: Vec<String>,
    expiries: [(i64, &'static str); 3],
    csrf: String,
    consent: String,
    request: String,
    person: String,
    icon: &'static str,
    style: &'static str,
}

#[derive(Serialize)]
struct ServerChoice {
    name: String,
    tools: usize,
    has_own_policy: bool,
    /// The only server of the resource.
    is_chosen: bool,
}

/// A signed-in person and the session cookie.
struct Visitor {
    person: Person,
    cookie: String,
}

pub(super) fn respond(
    app: &App,
    endpoint: &Endpoint,
    request: &Request<Bytes>,
) -> Result<Response, Problem> {
    let query = request.uri().query().unwrap_or_default();
    match (*request.method() == Method::POST, endpoint) {
        (true, Endpoint::Consent) => decide(app, request),
        (true, _) => Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "an authorization request is sent with GET",
        )),
        (false, _) => match visitor(app, request.headers())? {
            Some(visitor) => show(app, &visitor, query),
            None => wait(app, endpoint, query),
        },
    }
}

fn visitor(app: &App, headers: &HeaderMap) -> Result<Option<Visitor>, Problem> {
    let session = routes::session(app, headers)?;
    Ok(session.map(|(session, cookie)| Visitor { person: session.person, cookie }))
}

/// Without a session nothing is said about the client. Browsers leave out the session cookie when another
/// site sent them here, so the first page only leads to the second, which is then reached from here.
fn wait(app: &App, endpoint: &Endpoint, query: &str) -> Result<Response, Problem> {
    let pairs = request::pairs(query.as_bytes());
    Authorize::parse(&pairs).map_err(|refusal| on_page(&refusal))?;
    let is_first = *endpoint == Endpoint::Authorize;
    let is_local = app.live.mcp_url().starts_with(app.live.issuer().as_str());
    let view = WaitPage {
        refresh_seconds: if is_first { 0 } else { WAIT_SECONDS },
        next: format!("{PATH}?{query}"),
        command: if is_local { app.open_command() } else { "tollgate open --public".to_owned() },
        icon: assets::ICON_PATH.as_str(),
        style: assets::STYLE_PATH.as_str(),
    };
    render(Format::Html, StatusCode::OK, &view)
}

fn show(app: &App, visitor: &Visitor, query: &str) -> Result<Response, Problem> {
    check_role(visitor)?;
    let (FoundClient { client, copied_because }, checked) = match checked(app, query)? {
        Ok(found) => found,
        Err(response) => return Ok(response),
    };
    let binding = app.registry.consent_secret()?;
    app.consents.add(binding.expose(), app.now_us());
    let effective = app.effective()?;
    let view = ConsentPage {
        client_name: client.metadata.name.clone(),
        client_id: client.id.clone(),
        is_fetched: client.is_fetched,
        copied_because,
        redirect_host: checked.redirect_uri.shown(),
        redirect_uri: checked.redirect_uri.as_str().to_owned(),
        resource: app.live.issuer().at(&checked.resource_path),
        warning: warning(checked.redirect_uri.kind()),
        servers: choices(app, &effective, &checked.resource_path)?,
        policies: effective.policies.keys().cloned().collect(),
        expiries: EXPIRIES,
        csrf: csrf::token(&visitor.cookie),
        consent: csrf::consent_token(&visitor.cookie, binding.expose(), query),
        request: query.to_owned(),
        person: visitor.person.name.clone(),
        icon: assets::ICON_PATH.as_str(),
        style: assets::STYLE_PATH.as_str(),
    };
    let response = render(Format::Html, StatusCode::OK, &view)?
        .with_form_target(&checked.redirect_uri.form_source())
        .with_consent_cookie(Some(binding.expose()), app.live.issuer().is_https());
    Ok(Response { is_signed_in: true, ..response })
}

fn warning(kind: RedirectKind) -> Option<&'static str> {
    match kind {
        RedirectKind::Https => None,
        RedirectKind::Loopback => Some(
            "The answer goes to a program on the computer of this browser. Any program there can call itself what it likes: allow only what you started a moment ago.",
        ),
        RedirectKind::PrivateUse => Some(
            "The answer goes to an application on the computer of this browser. Another application may have taken its address: allow only what you started a moment ago.",
        ),
    }
}

/// The client and its request, or the response that tells the client what is wrong.
type Found = Result<(FoundClient, CheckedAuthorize), Response>;

fn checked(app: &App, query: &str) -> Result<Found, Problem> {
    let pairs = request::pairs(query.as_bytes());
    let request = Authorize::parse(&pairs).map_err(|refusal| on_page(&refusal))?;
    let found = documents::client(app, request.client_id)?;
    let client = &found.client;
    match request.check(&client.metadata, &app.live.issuer()) {
        Ok(checked) => Ok(Ok((found, checked))),
        Err(AuthorizeFault::Page(refusal)) => Err(on_page(&refusal)),
        Err(AuthorizeFault::Redirect { to, refusal }) => {
            let why = format!("authorization of {}: {}", client.id, refusal.description);
            Ok(Err(Response::see_other(&to).refused(why)))
        }
    }
}

fn on_page(refusal: &Refusal) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        format!(
            "this authorization request cannot be used: {}\nhint: start again from the application; if this repeats, it is a fault of the application",
            refusal.description
        ),
    )
}

fn check_role(visitor: &Visitor) -> Result<(), Problem> {
    let role = visitor.person.role;
    if Access::Administer.allows(role) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        format!("the role `{}` may not allow access", role.as_str()),
    ))
}

/// The servers that the resource can reach.
fn choices(app: &App, effective: &Effective, path: &str) -> Result<Vec<ServerChoice>, Problem> {
    let only = server_of(path);
    let mut choices = Vec::new();
    for server in effective.servers.values() {
        // A grant by consent is never an operator grant.
        if only.is_some_and(|only| only != server.name) || server.target.is_operator() {
            continue;
        }
        choices.push(ServerChoice {
            name: server.name.clone(),
            tools: app.registry.pins(&server.name)?.len(),
            has_own_policy: matches!(server.target, Target::Builtin { .. }),
            is_chosen: only.is_some(),
        });
    }
    Ok(choices)
}

fn server_of(path: &str) -> Option<&str> {
    path.strip_prefix(MCP_PATH)?.strip_prefix('/')
}

fn decide(app: &App, request: &Request<Bytes>) -> Result<Response, Problem> {
    if !csrf::is_same_origin(request.headers()) {
        let message = "this form was not sent by a page of this gate";
        return Err(Problem::new(StatusCode::FORBIDDEN, message));
    }
    let form = request::form(request.headers(), request.body())?;
    let visitor =
        visitor(app, request.headers())?.ok_or_else(|| crate::pages::sign_in::needed(app))?;
    check_role(&visitor)?;
    let field = |name: &str| filled_in(&form, name).unwrap_or_default();
    let query = field("request");
    let binding = request::cookie_named(request.headers(), CONSENT_COOKIE_NAME).unwrap_or_default();
    let is_ours = csrf::is_token_of(&visitor.cookie, field("csrf"))
        && !binding.is_empty()
        && csrf::is_consent_token_of(&visitor.cookie, &binding, query, field("consent"));
    if !is_ours {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "this consent page belongs to another request, browser or session; start again from the application",
        ));
    }
    let (FoundClient { client, .. }, checked) = match checked(app, query)? {
        Ok(found) => found,
        Err(response) => return Ok(response),
    };
    if !app.consents.take(&binding, app.now_us()) {
        let message = "this consent page was answered before, or is too old; start again from the application";
        return Err(Problem::new(StatusCode::FORBIDDEN, message));
    }
    let decided = match field("decision") {
        "allow" => allow(app, &visitor, &client, &checked, &form),
        "deny" => deny(app, &visitor, &client, &checked),
        _ => Err(Problem::invalid("choose Allow or Deny")),
    };
    // A form that is not complete can be corrected.
    let to = decided.inspect_err(|_| app.consents.add(&binding, app.now_us()))?;
    let response = Response::see_other(&to).with_consent_cookie(None, app.live.issuer().is_https());
    Ok(Response { is_signed_in: true, ..response })
}

fn deny(
    app: &App,
    visitor: &Visitor,
    client: &OAuthClient,
    checked: &CheckedAuthorize,
) -> Result<String, Problem> {
    let by = actor(&visitor.person.name);
    let message = client.metadata.name.as_str();
    app.ledger.note(&Note { act: "oauth_denied", by: &by, about: &client.id, words: message })?;
    let refusal = Refusal::new(ErrorCode::AccessDenied, "the owner of the gate denied access");
    Ok(checked.error_redirect(&refusal, &app.live.issuer()))
}

fn allow(
    app: &App,
    visitor: &Visitor,
    client: &OAuthClient,
    checked: &CheckedAuthorize,
    form: &[(String, String)],
) -> Result<String, Problem> {
    let effective = app.effective()?;
    let label_base = label_base(client);
    let only = server_of(&checked.resource_path);
    let chosen = form.iter().filter(|(name, _)| name == "server").map(|(_, value)| value.as_str());
    let mut server_access = Vec::new();
    let mut made = Vec::new();
    for server in chosen {
        let known = effective.servers.get(server).filter(|server| !server.target.is_operator());
        if only.is_some_and(|only| only != server) || known.is_none() {
            return Err(Problem::invalid(format!("server `{server}` was not offered")));
        }
        let policy = match filled_in(form, &format!("policy:{server}")) {
            Some(BUILT_IN) => None,
            Some(READ_ONLY) | None => {
                let text = read_only_policy(app, server)?;
                let name = policy_name(&label_base, server, |name| {
                    effective.policies.contains_key(name)
                        || made.iter().any(|(made, _)| made == name)
                });
                made.push((name.clone(), text));
                Some(name)
            }
            Some(named) => Some(named.to_owned()),
        };
        server_access.push(ServerAccess { server: server.to_owned(), policy });
    }
    if server_access.is_empty() {
        return Err(Problem::invalid("choose at least one server"));
    }
    let expires_at_us = expiry(app, form)?;
    let new = NewSignIn {
        label_base,
        server_access,
        expires_at_us,
        client_id: client.id.clone(),
        client_name: client.metadata.name.clone(),
        audience: checked.resource_path.clone(),
        redirect_uri: checked.redirect_uri.as_str().to_owned(),
        code_challenge: checked.code_challenge.clone(),
    };
    let names = app.live.settings().names();
    let by = actor(&visitor.person.name);
    let (_, code) = app.act(&visitor.person.name, |registry, now_us| {
        for (name, text) in &made {
            registry.put_policy(name, text, policy::Format::Json, &by, &names, now_us)?;
        }
        registry.create_sign_in(&new, &names, now_us)
    })?;
    Ok(checked.code_redirect(code.expose(), &app.live.issuer()))
}

fn expiry(app: &App, form: &[(String, String)]) -> Result<Option<i64>, Problem> {
    let Some(days) = filled_in(form, "expires_days") else { return Ok(None) };
    let known = EXPIRIES.iter().find(|(known, _)| known.to_string() == days);
    let (days, _) = known.ok_or_else(|| Problem::invalid("choose when it expires"))?;
    Ok(Some(app.now_us() + days * DAY_US))
}

/// The strict policy of the catalogue for the tools that were seen; everything else is denied.
fn read_only_policy(app: &App, server: &str) -> Result<String, Problem> {
    let pins = app.registry.pins(server)?;
    let seen = pins.iter().filter_map(|pin| pin.seen.as_ref().or(pin.accepted.as_ref()));
    let docs: Vec<Doc<'_>> = seen
        .filter_map(|pinned| Doc::read(pinned.definition.as_bytes(), &Bounds::ANSWER).ok())
        .collect();
    let tools: Vec<Value<'_>> = docs.iter().map(Doc::root).collect();
    let offer = Offer::default();
    Ok(for_server(server, &assess(server, &tools).tools, offer, Preset::Strict).text())
}

/// A name that no policy has: the rules of another grant, or of another server of this one, must not change.
fn policy_name(label_base: &str, server: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let base: String =
        format!("{label_base}-{server}").chars().take(POLICY_NAME_CHARS_MAX - 6).collect();
    let mut number = 1_u32;
    loop {
        let name = format!("{base}-{number}");
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// `claude-ai` for the document of claude.ai, or the name that a client registered.
fn label_base(client: &OAuthClient) -> String {
    let host = Url::parse(&client.id).ok().and_then(|url| url.host_str().map(str::to_owned));
    let text = host.filter(|_| client.is_fetched).unwrap_or_else(|| client.metadata.name.clone());
    let mut label = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if label.len() >= LABEL_CHARS_MAX {
            break;
        }
        if c.is_ascii_alphanumeric() {
            label.push(c);
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
    }
    let label = label.trim_end_matches('-');
    if label.is_empty() { "client".to_owned() } else { label.to_owned() }
}

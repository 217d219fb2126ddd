//! Every address of the dashboard with the access it needs. The router checks session, role, origin and CSRF
//! token before a page runs; a page cannot forget to.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Method, Request, StatusCode};
use store::registry::BrowserSession;

use crate::access::Access;
use crate::app::App;
use crate::problem::Problem;
use crate::request::{self, Format, Visit};
use crate::response::Response;
use crate::{assets, authorization, csrf, pages};

/// Names of the path with their values.
type Names = Vec<(String, String)>;
type Run = fn(&App, &Visit) -> Result<Response, Problem>;

/// One address.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    run: Run,
    /// The answer is the same for people and programs.
    is_single: bool,
}

impl Route {
    /// Whether the address with `.json` answers with the page as JSON.
    pub(crate) fn has_twin(&self) -> bool {
        !self.is_single
    }
}

const fn get(path: &'static str, run: Run) -> Route {
    Route { method: Method::GET, path, access: Access::Read, run, is_single: false }
}

/// A page with the owner's own data.
const fn own(path: &'static str, run: Run) -> Route {
    Route { method: Method::GET, path, access: Access::ReadOwnData, run, is_single: false }
}

const fn get_as(path: &'static str, access: Access, run: Run) -> Route {
    Route { method: Method::GET, path, access, run, is_single: false }
}

/// An address without a page: a stream or a document.
const fn stream(path: &'static str, access: Access, run: Run) -> Route {
    Route { method: Method::GET, path, access, run, is_single: true }
}

const fn post(path: &'static str, access: Access, run: Run) -> Route {
    Route { method: Method::POST, path, access, run, is_single: false }
}

pub(crate) const ROUTES: &[Route] = &[
    get("/", pages::overview::show),
    stream("/events", Access::Read, pages::events::stream),
    stream("/openapi", Access::Read, crate::openapi::show),
    get("/approvals", pages::approvals::list),
    get("/approvals/{id}", pages::approvals::show),
    post("/approvals/{id}/approve", Access::Administer, pages::approvals::approve),
    post("/approvals/{id}/deny", Access::Administer, pages::approvals::deny),
    get("/audit", pages::audit::list),
    stream("/audit/export", Access::Read, pages::audit::export),
    get("/audit/verify", pages::audit::verification),
    post("/audit/verify", Access::Read, pages::audit::verify),
    get("/audit/{seq}", pages::audit_entry::show),
    post("/audit/{seq}", Access::ReadArguments, pages::audit_entry::show_arguments),
    get("/grants", pages::grants::list),
    get("/grants/{label}", pages::grants::show),
    post("/grants", Access::Administer, pages::grants::create),
    post("/grants/{label}/rotate", Access::Administer, pages::grants::rotate),
    post("/grants/{label}/revoke", Access::Administer, pages::grants::revoke),
    post("/grants/{label}/expiry", Access::Administer, pages::grants::set_expiry),
    post("/grants/{label}/server", Access::Administer, pages::grants::set_server),
    post("/grants/{label}/policy", Access::WritePolicies, pages::grants::set_policy),
    get("/servers", pages::servers::list),
    get("/servers/{name}", pages::servers::show),
    post("/servers", Access::Administer, pages::servers::add),
    post("/servers/{name}/accept", Access::Administer, pages::servers::accept),
    get("/servers/{name}/sign-in", pages::server_sign_in::show),
    post("/servers/{name}/sign-in", Access::Administer, pages::server_sign_in::begin),
    post("/servers/{name}/list", Access::Administer, pages::servers::list_tools),
    post("/servers/{name}/remove", Access::Administer, pages::servers::remove),
    post("/servers/{name}/capture", Access::Administer, pages::servers::set_capture),
    post("/servers/{name}/credential", Access::Administer, pages::servers::set_credential),
    get("/servers/{name}/tools/{tool}", pages::tool::show),
    post("/servers/{name}/tools/{tool}", Access::Administer, pages::tool::try_tool),
    get("/policies", pages::policies::list),
    get("/policies/{name}", pages::policies::show),
    post("/policies", Access::WritePolicies, pages::policies::save),
    post("/policies/{name}", Access::WritePolicies, pages::policies::edit),
    post("/policies/{name}/restore", Access::WritePolicies, pages::policies::restore),
    get("/accounts", pages::accounts::list),
    own("/accounts/{service}/data", pages::accounts::data),
    stream("/accounts/{service}/export", Access::Administer, pages::accounts::export),
    post("/accounts/{service}/connect", Access::Administer, pages::accounts::connect),
    post("/accounts/{service}/disconnect", Access::Administer, pages::accounts::disconnect),
    post("/accounts/{service}/sync", Access::Administer, pages::accounts::sync),
    own("/health", pages::health::today),
    own("/health/sleep", pages::health::sleep),
    own("/health/load", pages::health::load),
    own("/health/drivers", pages::health::drivers),
    own("/health/compare", pages::health_compare::show),
    own("/health/{metric}", pages::health::explore),
    own("/activity", pages::activity::list),
    own("/activity/{topic}", pages::activity::show),
    get("/catalogue", pages::catalogue::search),
    get("/catalogue/{server}", pages::catalogue::server),
    get("/catalogue/{server}/{tool}", pages::catalogue::tool),
    get("/tour", pages::tour::show),
    post("/tour/{step}", Access::Administer, pages::tour::call),
    get("/stack", pages::stack::show),
    post("/stack/protect", Access::WritePolicies, pages::stack::protect),
    get("/notifications", pages::notifications::list),
    post("/notifications", Access::Administer, pages::notifications::add),
    post("/notifications/{name}/test", Access::Administer, pages::notifications::test),
    post("/notifications/{name}/remove", Access::Administer, pages::notifications::remove),
    get("/people", pages::people::list),
    post("/people", Access::Administer, pages::people::add),
    post("/people/{name}/role", Access::Administer, pages::people::set_role),
    post("/people/{name}/remove", Access::Administer, pages::people::remove),
    post("/people/{name}/link", Access::Administer, pages::people::link),
    get_as("/people/{name}", Access::Administer, pages::person::show),
    post("/people/{name}/email", Access::Administer, pages::person::set_email),
    post("/people/{name}/sign-out", Access::Administer, pages::person::sign_out),
    post(
        "/people/{name}/passkeys/{number}/remove",
        Access::Administer,
        pages::person::remove_passkey,
    ),
    get("/your-sign-in", pages::your_sign_in::show),
    post("/your-sign-in/passkeys", Access::Read, pages::your_sign_in::add_passkey),
    post(
        "/your-sign-in/passkeys/{number}/remove",
        Access::Read,
        pages::your_sign_in::remove_passkey,
    ),
    post("/your-sign-in/sessions/{id}/end", Access::Read, pages::your_sign_in::end_session),
    post("/your-sign-in/localhost", Access::Read, pages::your_sign_in::continue_at_localhost),
    post("/sign-out", Access::Read, pages::sign_in::sign_out),
    post("/sign-out-everywhere", Access::Read, pages::sign_in::sign_out_everywhere),
];

/// The routes, indexed by path.
pub(crate) struct Router {
    index: matchit::Router<Vec<usize>>,
}

impl Router {
    pub(crate) fn new() -> Router {
        let mut index = matchit::Router::new();
        let mut paths: Vec<&'static str> = ROUTES.iter().map(|route| route.path).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let at = ROUTES.iter().enumerate().filter(|(_, route)| route.path == path);
            let numbers: Vec<usize> = at.map(|(number, _)| number).collect();
            if let Err(error) = index.insert(path, numbers) {
                // A test inserts every route; two that overlap do not get this far.
                tracing::error!(%error, path, "a route cannot be reached");
            }
        }
        Router { index }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        let (path, _) = request::split_format(path);
        pages::sign_in::is_path(path) || assets::find(path).is_some() || self.index.at(path).is_ok()
    }

    pub(crate) fn respond(&self, app: &App, request: &Request<Bytes>) -> Response {
        if let Some(endpoint) = authorization::find(request.uri().path()) {
            return authorization::respond(app, &endpoint, request);
        }
        let (path, format) = request::path_and_format(request);
        if let Some(response) = assets::find(&path) {
            return response;
        }
        let visitor = session(app, request.headers());
        let person = visitor.as_ref().ok().and_then(Option::as_ref).map(|(s, _)| s.person.clone());
        let answered = self.answer(app, request, visitor, (&path, format));
        let response = answered.unwrap_or_else(|problem| {
            let shown = pages::problem::show(&problem, format, person.as_ref());
            // A forged form, or one that the person may not send.
            let is_refused = problem.status == StatusCode::FORBIDDEN;
            if is_refused { shown.refused(format!("{path}: {}", problem.message)) } else { shown }
        });
        Response { is_signed_in: person.is_some(), ..response }
    }

    fn answer(
        &self,
        app: &App,
        request: &Request<Bytes>,
        visitor: Result<Option<(BrowserSession, String)>, Problem>,
        (path, format): (&str, Format),
    ) -> Result<Response, Problem> {
        let method = match *request.method() {
            Method::GET | Method::HEAD => Method::GET,
            Method::POST => Method::POST,
            _ => {
                return Err(Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "pages take GET and POST",
                ));
            }
        };
        if method == Method::POST && !csrf::is_same_origin(request.headers()) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "this form was not sent by a page of this dashboard",
            ));
        }
        let form = request::form(request.headers(), request.body())?;
        let query = request::pairs(request.uri().query().unwrap_or_default().as_bytes());
        if pages::sign_in::is_path(path) {
            let arrival = pages::sign_in::Arrival {
                method: &method,
                path,
                headers: request.headers(),
                query: request.uri().query().unwrap_or_default(),
                form: &form,
                remote: request.extensions().get::<Arc<str>>().map_or("", |remote| remote),
            };
            return pages::sign_in::respond(app, &arrival);
        }
        let Some((session, cookie)) = visitor? else {
            return match format {
                Format::Html => pages::sign_in::choices(app, request.headers()),
                Format::Json => Err(pages::sign_in::needed(app)),
            };
        };
        let (route, names) = self.find(&method, path)?;
        if !route.access.allows(session.person.role) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                format!("the role `{}` may not do this", session.person.role.as_str()),
            ));
        }
        let presented = form.iter().find(|(name, _)| name == csrf::FIELD).map(|(_, value)| value);
        if method == Method::POST
            && !presented.is_some_and(|presented| csrf::is_token_of(&cookie, presented))
        {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "this form belongs to another session; reload the page and send it again",
            ));
        }
        let (path, person) = (path.to_owned(), session.person);
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default().to_owned();
        let visit = Visit { person, cookie, format, path, host, names, query, form };
        let response = (route.run)(app, &visit)?;
        Ok(if format == Format::Json { response.into_twin() } else { response })
    }

    fn find(&self, method: &Method, path: &str) -> Result<(&'static Route, Names), Problem> {
        let found = self.index.at(path).map_err(|_| nothing_here())?;
        let mut routes = found.value.iter().filter_map(|number| ROUTES.get(*number));
        let route = routes.find(|route| route.method == *method).ok_or_else(|| {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take this method")
        })?;
        let decoded = |value: &str| {
            let bytes = percent_encoding::percent_decode_str(value);
            bytes.decode_utf8().map(Cow::into_owned).map_err(|_| nothing_here())
        };
        let names = found.params.iter().map(|(key, value)| Ok((key.to_owned(), decoded(value)?)));
        Ok((route, names.collect::<Result<_, Problem>>()?))
    }
}

/// Whether a page is needed to consent under the public host name: sign-in, and what pages are drawn with.
pub(crate) fn is_needed_in_public(path: &str) -> bool {
    pages::sign_in::is_path(path) || assets::find(path).is_some()
}

fn nothing_here() -> Problem {
    Problem::not_found("there is no page at this address")
}

pub(crate) fn session(
    app: &App,
    headers: &HeaderMap,
) -> Result<Option<(BrowserSession, String)>, Problem> {
    let Some(cookie) = request::cookie(headers) else { return Ok(None) };
    let session = app.registry.browser_session(&cookie, app.now_us())?;
    Ok(session.map(|session| (session, cookie)))
}

//! The endpoints for programs. They read no cookie, so pages of any origin may call them.

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, StatusCode};
use oauth::server::issuer::WellKnown;
use oauth::server::{
    ClientCredentials, DOCUMENT_BYTES_MAX, ErrorCode, Refusal, TokenRequest, is_document_url,
    read_registration, token,
};
use serde_json::{Value, json};
use store::ledger::Note;
use store::registry::{CodeExchange, Registry, RegistryError, SignInFault, SignInTokens};

use super::Endpoint;
use crate::app::App;
use crate::request;
use crate::response::Response;

const CORS: [(HeaderName, HeaderValue); 4] = [
    (HeaderName::from_static("access-control-allow-origin"), HeaderValue::from_static("*")),
    (
        HeaderName::from_static("access-control-allow-methods"),
        HeaderValue::from_static("GET, POST, OPTIONS"),
    ),
    (
        HeaderName::from_static("access-control-allow-headers"),
        HeaderValue::from_static("authorization, content-type, mcp-protocol-version"),
    ),
    (HeaderName::from_static("access-control-max-age"), HeaderValue::from_static("86400")),
];

pub(super) fn respond(app: &App, endpoint: &Endpoint, request: &Request<Bytes>) -> Response {
    let needed = match endpoint {
        Endpoint::WellKnown(_) | Endpoint::ClientDocument => Method::GET,
        _ => Method::POST,
    };
    match *request.method() {
        Method::OPTIONS => json_response(StatusCode::NO_CONTENT, None),
        Method::HEAD if needed == Method::GET => answer(app, endpoint, request),
        ref method if *method == needed => answer(app, endpoint, request),
        _ => {
            let message = format!("this address takes {needed}");
            let body = Refusal::new(ErrorCode::InvalidRequest, message).body();
            json_response(StatusCode::METHOD_NOT_ALLOWED, Some(&body))
        }
    }
}

fn answer(app: &App, endpoint: &Endpoint, request: &Request<Bytes>) -> Response {
    let issuer = app.live.issuer();
    let answered = match endpoint {
        Endpoint::WellKnown(WellKnown::ProtectedResource { path }) => {
            Ok((StatusCode::OK, issuer.protected_resource(path)))
        }
        Endpoint::WellKnown(WellKnown::AuthorizationServer) => {
            Ok((StatusCode::OK, issuer.server_metadata()))
        }
        Endpoint::ClientDocument => Ok(match app.live.client_document() {
            Some(document) => (StatusCode::OK, document),
            None => (StatusCode::NOT_FOUND, json!({ "error": "the gate has no public address" })),
        }),
        Endpoint::Register => register(app, request.body()),
        Endpoint::Token => tokens(app, request),
        Endpoint::Revoke => revoke(app, request),
        // Pages, which are answered elsewhere.
        Endpoint::Authorize | Endpoint::Consent => {
            Err(Refusal::new(ErrorCode::InvalidRequest, "this address is a page"))
        }
    };
    match answered {
        Ok((status, body)) => json_response(status, Some(&body)),
        Err(refusal) => refused(request, &refusal),
    }
}

fn json_response(status: StatusCode, body: Option<&Value>) -> Response {
    let mut response = match body {
        Some(body) => Response::json(status, body.to_string()),
        None => Response::json(status, ""),
    };
    response.headers.remove("cross-origin-resource-policy");
    response.headers.extend(CORS);
    response
}

fn refused(request: &Request<Bytes>, refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = json_response(status, Some(&refusal.body()));
    if refusal.code == ErrorCode::TemporarilyUnavailable {
        response.headers.insert(RETRY_AFTER, HeaderValue::from_static("600"));
    }
    if status == StatusCode::UNAUTHORIZED && request.headers().contains_key(AUTHORIZATION) {
        let basic = HeaderValue::from_static("Basic realm=\"tollgate\"");
        response.headers.insert(WWW_AUTHENTICATE, basic);
    }
    let (path, code) = (request.uri().path(), refusal.code.as_str());
    response.refused(format!("{path} refused with {code}: {}", refusal.description))
}

fn register(app: &App, body: &[u8]) -> Result<(StatusCode, Value), Refusal> {
    if body.len() > DOCUMENT_BYTES_MAX {
        return Err(Refusal::new(
            ErrorCode::InvalidClientMetadata,
            "the registration is too large",
        ));
    }
    let metadata = read_registration(body)?;
    let now_us = app.now_us();
    let client = app
        .registry
        .register_oauth_client(&metadata, now_us)
        .map_err(|error| unavailable(&error))?;
    let client = client.ok_or_else(|| {
        Refusal::new(
            ErrorCode::TemporarilyUnavailable,
            "too many applications registered and did not sign in; try again in ten minutes",
        )
    })?;
    let secret = client.secret.as_ref().map(store::registry::BrowserSecret::expose);
    Ok((StatusCode::CREATED, metadata.registered(&client.id, secret, now_us / 1_000_000)))
}

fn tokens(app: &App, request: &Request<Bytes>) -> Result<(StatusCode, Value), Refusal> {
    let form = form(request)?;
    let credentials = authenticated(app, request.headers(), &form)?;
    let issuer = app.live.issuer();
    let path_of = |resource: Option<&str>| match resource {
        None => Ok(None),
        Some(_) => issuer.resource_path(resource).map(Some).ok_or_else(|| {
            Refusal::new(ErrorCode::InvalidTarget, "`resource` is not a resource of this gate")
        }),
    };
    let (act, issued) = match TokenRequest::parse(&form)? {
        TokenRequest::Code { code, redirect_uri, verifier, resource } => {
            let audience = path_of(resource)?;
            let exchange = CodeExchange {
                code,
                client_id: &credentials.id,
                redirect_uri,
                verifier,
                audience: audience.as_deref(),
            };
            let issued = change(app, |registry, now_us| registry.exchange_code(&exchange, now_us))?;
            ("oauth_signed_in", issued)
        }
        TokenRequest::Refresh { token, resource } => {
            let audience = path_of(resource)?;
            let issued = change(app, |registry, now_us| {
                registry.refresh_sign_in(token, &credentials.id, audience.as_deref(), now_us)
            })?;
            ("oauth_refreshed", issued)
        }
    };
    hand_over(app, act, &credentials.id, issued)
}

fn hand_over(
    app: &App,
    act: &str,
    client_id: &str,
    issued: SignInTokens,
) -> Result<(StatusCode, Value), Refusal> {
    let issued = issued.map_err(|fault| match fault {
        SignInFault::OtherResource => Refusal::new(ErrorCode::InvalidTarget, fault.to_string()),
        _ => Refusal::new(ErrorCode::InvalidGrant, fault.to_string()),
    })?;
    let note = Note { act, by: client_id, about: &issued.label, words: "" };
    app.ledger.note(&note).map_err(|error| unavailable(&error))?;
    let refresh = issued.refresh.as_ref().map(store::registry::BrowserSecret::expose);
    let body = token::tokens(issued.access.expose(), refresh, issued.access_seconds);
    Ok((StatusCode::OK, body))
}

/// Ends the sign-in of a token. A token that is not known is as good as revoked (RFC 7009).
fn revoke(app: &App, request: &Request<Bytes>) -> Result<(StatusCode, Value), Refusal> {
    let form = form(request)?;
    let credentials = authenticated(app, request.headers(), &form)?;
    let token = token::revoked_token(&form)?;
    change(app, |registry, now_us| registry.revoke_sign_in(token, &credentials.id, now_us))?;
    Ok((StatusCode::OK, json!({})))
}

/// The client, proven as it registered. A client with a document is public.
fn authenticated(
    app: &App,
    headers: &HeaderMap,
    form: &[(String, String)],
) -> Result<ClientCredentials, Refusal> {
    let authorization = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    let credentials = ClientCredentials::of(authorization, form)?;
    let client = app
        .registry
        .oauth_client(&credentials.id, app.now_us())
        .map_err(|error| unavailable(&error))?;
    let is_proven = match client {
        Some(client) => client.is_proven_by(credentials.secret.as_deref()),
        None => is_document_url(&credentials.id),
    };
    if is_proven {
        return Ok(credentials);
    }
    let message = "this client is not registered here, or its secret is wrong; register again";
    Err(Refusal::new(ErrorCode::InvalidClient, message))
}

fn form(request: &Request<Bytes>) -> Result<Vec<(String, String)>, Refusal> {
    request::form(request.headers(), request.body())
        .map_err(|problem| Refusal::new(ErrorCode::InvalidRequest, problem.message))
}

/// A change that the gate applies before the client hears of it.
fn change<T>(
    app: &App,
    change: impl FnOnce(&Registry, i64) -> Result<T, RegistryError>,
) -> Result<T, Refusal> {
    app.change(&app.registry, change).map_err(|problem| unavailable(&problem))
}

fn unavailable(error: &impl std::fmt::Display) -> Refusal {
    tracing::error!(%error, "a request to the authorization server failed");
    Refusal::new(ErrorCode::ServerError, "the gate could not do this; its log says why")
}

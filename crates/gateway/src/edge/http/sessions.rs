//! Finds the session that a request names.

use std::sync::Arc;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};

use super::{PROTOCOL_VERSION, Rejection, SESSION_ID, not_allowed};
use crate::edge::dispatch;
use crate::exchange::context::RequestContext;
use crate::session::Session;

/// The header that names a session. A repeated one is ambiguous.
pub(super) fn session_header(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Rejection> {
    let mut values = headers.get_all(&SESSION_ID).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Rejection::new(
            StatusCode::BAD_REQUEST,
            "the Mcp-Session-Id header was sent more than once",
        ));
    }
    Ok(first)
}

/// The session that the header names. A modern request has none, whatever its headers say.
pub(super) fn session_named(
    context: &RequestContext,
    id: &HeaderValue,
    body: &[u8],
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, Rejection> {
    if dispatch::has_modern_version(headers) {
        return Ok(None);
    }
    let found = id.to_str().ok().and_then(|id| {
        context.state.sessions.find(id, &context.grantee.id, context.endpoint.server())
    });
    match found {
        Some(session) => Ok(Some(session)),
        None if dispatch::opens_session(body) => Ok(None),
        None => Err(no_session()),
    }
}

fn no_session() -> Rejection {
    Rejection::new(StatusCode::NOT_FOUND, "no such session; start again with initialize")
}

/// The session of a request without a body.
pub(super) fn session_of(
    context: &RequestContext,
    headers: &HeaderMap,
) -> Result<Arc<Session>, Rejection> {
    let modern = headers.get(&PROTOCOL_VERSION).is_some_and(|version| version == "2026-07-28");
    let id = match session_header(headers)? {
        Some(id) if !modern => id.to_str().unwrap_or_default(),
        _ if modern => return Err(not_allowed()),
        _ => {
            return Err(Rejection::new(
                StatusCode::BAD_REQUEST,
                "the Mcp-Session-Id header is missing",
            ));
        }
    };
    context
        .state
        .sessions
        .find(id, &context.grantee.id, context.endpoint.server())
        .ok_or_else(no_session)
}

//! The servers of the calling grant as an MCP registry (API v0.1, read only), for clients that take their list
//! of servers from one. It shows nothing that the grant could not use.

use std::sync::Arc;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_TYPE, HeaderValue,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde_json::{Value, json};
use store::ledger::{Ending, Facts, Outcome};

use super::rejection::{RejectedRequest, Rejection, reject};
use super::{authenticate, base_response, ledger_unavailable};
use crate::edge::Edge;
use crate::edge::serve::{Body, IncomingBody, Remote};
use crate::snapshot::{Grantee, ServerAccess};

pub(super) const SERVERS: &str = "/v0.1/servers";
/// The namespace of names, in the reverse-DNS form of the registry.
const NAMESPACE: &str = "local.tollgate";
/// An entry has one version: the server as the grant has it now.
const VERSION: &str = "1.0.0";
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
/// Servers on one page, if the client wants fewer than all.
const PAGE_MAX: usize = 100;
const TITLE_CHARS_MAX: usize = 100;

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Versions(String),
    Version(String, String),
}

/// Any page may read the response: no browser adds the token by itself.
pub(super) fn answer(
    edge: &Edge,
    remote: &Remote,
    request: &Request<IncomingBody>,
) -> Response<Body> {
    let mut response = match respond(edge, remote, request) {
        Ok(response) => response,
        Err(rejected) => reject(&edge.state, remote, &rejected),
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Authorization"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn respond(
    edge: &Edge,
    remote: &Remote,
    request: &Request<IncomingBody>,
) -> Result<Response<Body>, RejectedRequest> {
    match *request.method() {
        Method::GET => {}
        Method::OPTIONS => return Ok(base_response(StatusCode::NO_CONTENT, Body::empty())),
        _ => return Err(not_allowed().into()),
    }
    let (grantee, _) = authenticate(&edge.state, request.headers(), None)
        .map_err(|rejected| edge.challenge(rejected, None))?;
    let of_grant = |rejection| {
        let grantee = Some(Arc::clone(&grantee));
        RejectedRequest { rejection, grantee, audit_reason: None }
    };
    let facts = Facts {
        method: SERVERS,
        grant: &grantee.label,
        grant_id: &grantee.id,
        remote: Some(remote.as_str()),
        ..Facts::default()
    };
    let recorded = edge
        .state
        .services
        .ledger
        .admit_without_policy(&facts)
        .and_then(|permit| permit.settle(&Outcome::new(Ending::Ok)));
    recorded.map_err(|_| of_grant(ledger_unavailable()))?;
    let base = edge.hosts.base_url(request.headers());
    let found = wanted(request.uri().path())
        .and_then(|wanted| view(&grantee, &base.unwrap_or_default(), &wanted, request.uri()));
    Ok(match found {
        Some(found) => json_response(StatusCode::OK, &found),
        None => json_response(StatusCode::NOT_FOUND, &json!({ "error": "Server not found" })),
    })
}

fn not_allowed() -> Rejection {
    Rejection {
        status: StatusCode::METHOD_NOT_ALLOWED,
        message: "only GET is allowed here",
        header: Some((ALLOW, HeaderValue::from_static("GET, OPTIONS"))),
    }
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = base_response(status, Body::complete(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Names and versions are percent-encoded in paths; clients that leave the slash of a name as it is are
/// understood, too.
fn wanted(path: &str) -> Option<Wanted> {
    let rest = path.strip_prefix(SERVERS)?.trim_end_matches('/');
    if rest.is_empty() {
        return Some(Wanted::All);
    }
    let (name, version) = rest.strip_prefix('/')?.rsplit_once("/versions")?;
    let name = decoded(name)?;
    match version.strip_prefix('/') {
        None if version.is_empty() => Some(Wanted::Versions(name)),
        Some(version) => Some(Wanted::Version(name, decoded(version)?)),
        None => None,
    }
}

fn decoded(part: &str) -> Option<String> {
    // A plus is a plus in a path.
    let part = part.replace('+', "%2B");
    let pair = format!("p={part}");
    let (_, value) = url::form_urlencoded::parse(pair.as_bytes()).next()?;
    (!value.contains('\u{fffd}')).then(|| value.into_owned())
}

fn view(grantee: &Grantee, base: &str, wanted: &Wanted, uri: &Uri) -> Option<Value> {
    // Without a policy every call is denied, so there is nothing to offer.
    let mut usable = grantee.accesses.values().filter(|access| access.rules.is_some());
    match wanted {
        Wanted::All => Some(list(usable, base, uri)),
        Wanted::Versions(name) => {
            let found = usable.find(|access| name_of(access) == *name)?;
            Some(json!({ "servers": [entry(found, base)], "metadata": { "count": 1 } }))
        }
        Wanted::Version(name, version) => {
            let found = usable.find(|access| name_of(access) == *name)?;
            (version == "latest" || version == VERSION).then(|| entry(found, base))
        }
    }
}

fn list<'a>(accesses: impl Iterator<Item = &'a ServerAccess>, base: &str, uri: &Uri) -> Value {
    let query = uri.query().unwrap_or_default();
    let asked = |key: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
    };
    let limit = asked("limit").and_then(|limit| limit.parse().ok()).unwrap_or(PAGE_MAX);
    let limit = limit.clamp(1, PAGE_MAX);
    let (cursor, search) = (asked("cursor"), asked("search").unwrap_or_default());
    let is_this_version =
        asked("version").is_none_or(|version| version == "latest" || version == VERSION);
    let mut found = accesses
        .filter(|access| is_this_version && name_of(access).contains(&search))
        .filter(|access| cursor.as_ref().is_none_or(|cursor| name_of(access) > *cursor));
    let page: Vec<&ServerAccess> = found.by_ref().take(limit).collect();
    let servers: Vec<Value> = page.iter().map(|access| entry(access, base)).collect();
    let mut metadata = json!({ "count": servers.len() });
    if let (Some(last), Some(_), Some(metadata)) =
        (page.last(), found.next(), metadata.as_object_mut())
    {
        metadata.insert("nextCursor".to_owned(), name_of(last).into());
    }
    json!({ "servers": servers, "metadata": metadata })
}

fn name_of(access: &ServerAccess) -> String {
    format!("{NAMESPACE}/{}", access.server.name)
}

fn entry(access: &ServerAccess, base: &str) -> Value {
    let name = &access.server.name;
    let title: String = name.chars().take(TITLE_CHARS_MAX).collect();
    json!({
        "server": {
            "$schema": SCHEMA,
            "name": name_of(access),
            "title": title,
            "description": "An MCP server behind tollgate, under the policy of your grant",
            "version": VERSION,
            "remotes": [{
                "type": "streamable-http",
                "url": format!("{base}/mcp/{name}"),
                "headers": [{
                    "name": "Authorization",
                    "description": "The token of your grant",
                    "value": "Bearer {token}",
                    "isRequired": true,
                    "isSecret": true,
                    "variables": { "token": {
                        "description": "The token of your grant, which begins with tg_",
                        "isRequired": true,
                        "isSecret": true,
                    } },
                }],
            }],
        },
        "_meta": { OFFICIAL: { "status": "active", "isLatest": true } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_all_servers_one_or_a_version_of_it() {
        let name = || "local.tollgate/files".to_owned();
        for (path, expected) in [
            ("/v0.1/servers", Some(Wanted::All)),
            ("/v0.1/servers/", Some(Wanted::All)),
            ("/v0.1/servers/local.tollgate%2Ffiles/versions", Some(Wanted::Versions(name()))),
            ("/v0.1/servers/local.tollgate/files/versions", Some(Wanted::Versions(name()))),
            (
                "/v0.1/servers/local.tollgate%2Ffiles/versions/latest",
                Some(Wanted::Version(name(), "latest".to_owned())),
            ),
            (
                "/v0.1/servers/local.tollgate%2Ffiles/versions/1.0.0%2B1",
                Some(Wanted::Version(name(), "1.0.0+1".to_owned())),
            ),
            ("/v0.1/servers/local.tollgate%2Ffiles", None),
            ("/v0.1/servers/local.tollgate%2Ffiles/versionsx", None),
            ("/v0.1/servers/%ff/versions", None),
        ] {
            assert_eq!(wanted(path), expected, "{path}");
        }
    }
}

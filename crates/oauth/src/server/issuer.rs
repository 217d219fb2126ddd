//! The issuer: one configured origin, its endpoints, its resources and its metadata documents (RFC 8414,
//! RFC 9728). Nothing is derived from a request.

use serde_json::{Value, json};
use url::Url;

use super::{OFFLINE_ACCESS, SCOPE};
use crate::pkce;

/// The path of the resource with all servers of a grant.
pub const MCP_PATH: &str = "/mcp";
const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";

/// An origin without a slash at its end, such as `https://gate.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer(String);

/// Which document a well-known path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WellKnown {
    /// Of the resource at this path.
    ProtectedResource {
        path: String,
    },
    AuthorizationServer,
}

impl Issuer {
    /// A bare origin: https anywhere, plain http on loopback.
    pub fn parse(text: &str) -> Result<Issuer, &'static str> {
        let url = Url::parse(text).map_err(|_| "it is not a URL")?;
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if !is_bare {
            return Err("it must be an origin, without a path, query or user");
        }
        let is_local = match url.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => return Err("it has no host"),
        };
        match url.scheme() {
            "https" => {}
            "http" if is_local => {}
            "http" => return Err("plain http is for loopback only"),
            _ => return Err("its scheme is not https"),
        }
        Ok(Issuer(url.origin().ascii_serialization()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Host and port as a Host header has them.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.split_once("://").map_or(self.0.as_str(), |(_, authority)| authority)
    }

    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// The address of a path.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// The address of the metadata of a resource path such as `/mcp`.
    #[must_use]
    pub fn resource_metadata(&self, path: &str) -> String {
        format!("{}{PROTECTED_RESOURCE}{path}", self.0)
    }

    /// The path of the resource that a `resource` parameter names: `/mcp` or `/mcp/SERVER`. Without one, and
    /// for the origin itself, it is `/mcp`.
    #[must_use]
    pub fn resource_path(&self, resource: Option<&str>) -> Option<String> {
        let Some(resource) = resource else { return Some(MCP_PATH.to_owned()) };
        let url = Url::parse(resource).ok()?;
        let is_ours = url.origin().ascii_serialization() == self.0
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        is_ours.then(|| resource_path(url.path()))?
    }

    #[must_use]
    pub fn server_metadata(&self) -> Value {
        json!({
            "issuer": self.0,
            "authorization_endpoint": self.at("/authorize"),
            "token_endpoint": self.at("/token"),
            "registration_endpoint": self.at("/register"),
            "revocation_endpoint": self.at("/revoke"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": [pkce::METHOD],
            "scopes_supported": [SCOPE, OFFLINE_ACCESS],
            "client_id_metadata_document_supported": true,
            "authorization_response_iss_parameter_supported": true,
        })
    }

    /// `offline_access` belongs to the authorization server and is not named here.
    #[must_use]
    pub fn protected_resource(&self, path: &str) -> Value {
        json!({
            "resource": self.at(path),
            "authorization_servers": [self.0],
            "scopes_supported": [SCOPE],
            "bearer_methods_supported": ["header"],
            "resource_name": "tollgate",
        })
    }
}

/// The document at a path, if it is a well-known one. The authorization server has the same document at the
/// root and for every resource path.
#[must_use]
pub fn well_known(path: &str) -> Option<WellKnown> {
    if let Some(rest) = path.strip_prefix(PROTECTED_RESOURCE) {
        return resource_path(rest).map(|path| WellKnown::ProtectedResource { path });
    }
    let rest = path.strip_prefix(AUTHORIZATION_SERVER);
    let rest = rest.or_else(|| path.strip_prefix(OPENID_CONFIGURATION))?;
    resource_path(rest).map(|_| WellKnown::AuthorizationServer)
}

/// The canonical form of a resource path. A server's name is what a path segment can hold unescaped.
fn resource_path(path: &str) -> Option<String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() || path == MCP_PATH {
        return Some(MCP_PATH.to_owned());
    }
    let server = path.strip_prefix(MCP_PATH)?.strip_prefix('/')?;
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
    let is_name = !server.is_empty() && server.len() <= 64 && server.bytes().all(fits);
    is_name.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> Issuer {
        Issuer("https://gate.example".to_owned())
    }

    #[test]
    fn an_issuer_is_a_bare_origin() {
        let table = [
            ("https://gate.example", Some("https://gate.example")),
            ("https://gate.example/", Some("https://gate.example")),
            ("https://GATE.example:443", Some("https://gate.example")),
            ("https://gate.example:8443", Some("https://gate.example:8443")),
            ("http://127.0.0.1:4180", Some("http://127.0.0.1:4180")),
            ("http://localhost:4180", Some("http://localhost:4180")),
            ("http://gate.example", None),
            ("https://gate.example/mcp", None),
            ("https://gate.example/?a", None),
            ("https://u@gate.example", None),
            ("ftp://gate.example", None),
            ("gate.example", None),
            ("", None),
        ];
        for (text, expected) in table {
            let parsed = Issuer::parse(text).ok();
            assert_eq!(parsed.as_ref().map(Issuer::as_str), expected, "{text}");
        }
        assert_eq!(issuer().authority(), "gate.example");
    }

    #[test]
    fn every_resource_has_its_own_document() {
        let resource = |path: &str| match well_known(path) {
            Some(WellKnown::ProtectedResource { path }) => Some(path),
            _ => None,
        };
        assert_eq!(resource("/.well-known/oauth-protected-resource").as_deref(), Some("/mcp"));
        assert_eq!(resource("/.well-known/oauth-protected-resource/mcp").as_deref(), Some("/mcp"));
        assert_eq!(resource("/.well-known/oauth-protected-resource/mcp/").as_deref(), Some("/mcp"));
        assert_eq!(
            resource("/.well-known/oauth-protected-resource/mcp/files").as_deref(),
            Some("/mcp/files")
        );
        for path in ["/x", "/mcp/a/b", "/mcp/A", "/mcp/a%22b", "/mcpx", "x"] {
            assert_eq!(resource(&format!("/.well-known/oauth-protected-resource{path}")), None);
        }
        for kind in ["oauth-authorization-server", "openid-configuration"] {
            for rest in ["", "/mcp", "/mcp/files"] {
                let path = format!("/.well-known/{kind}{rest}");
                assert_eq!(well_known(&path), Some(WellKnown::AuthorizationServer), "{path}");
            }
        }
        assert_eq!(well_known("/mcp"), None);
        let text = issuer().protected_resource("/mcp/files").to_string();
        assert!(text.contains("https://gate.example/mcp/files") && !text.contains("offline"));
    }

    #[test]
    fn a_resource_is_one_of_this_gate() {
        let path = |resource: &str| issuer().resource_path(Some(resource));
        assert_eq!(issuer().resource_path(None).as_deref(), Some("/mcp"));
        assert_eq!(path("https://gate.example/mcp").as_deref(), Some("/mcp"));
        assert_eq!(path("https://gate.example/mcp/").as_deref(), Some("/mcp"));
        assert_eq!(path("https://gate.example").as_deref(), Some("/mcp"));
        assert_eq!(path("https://gate.example/mcp/files").as_deref(), Some("/mcp/files"));
        for other in [
            "https://evil.example/mcp",
            "http://gate.example/mcp",
            "https://gate.example:8443/mcp",
            "https://gate.example/other",
            "https://gate.example/mcp?x=1",
            "https://gate.example/mcp#x",
            "https://gate.example.evil.example/mcp",
            "/mcp",
            "",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}

//! The metadata documents, read leniently in form (`null` counts as absent) and strictly in what they claim.

use serde_json::Value;
use url::Url;

use super::address::{self, AddressRefused, Network};
use super::{discovery, text, texts};
use crate::pkce;

/// Why a document is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataRefused {
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it has no `{0}`")]
    Missing(&'static str),
    #[error("it is about another resource: `{0}`")]
    OtherResource(String),
    #[error("it names the issuer `{found}`, not `{expected}`")]
    OtherIssuer { found: String, expected: String },
    #[error("the authorization server does not support PKCE with S256")]
    NoS256,
    #[error("`{name}`: {why}")]
    Address { name: &'static str, why: AddressRefused },
}

/// The metadata of a protected resource (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResource {
    /// Exactly as written: it is the audience of tokens.
    pub resource: String,
    pub authorization_servers: Vec<String>,
    pub scopes_supported: Option<Vec<String>>,
}

impl ProtectedResource {
    /// Reads the document of a server. Its `resource` must be the server's address or a parent of it.
    pub fn read(document: &Value, server: &Url) -> Result<ProtectedResource, MetadataRefused> {
        if !document.is_object() {
            return Err(MetadataRefused::NotAnObject);
        }
        let resource = text(document, "resource").ok_or(MetadataRefused::Missing("resource"))?;
        if !covers(resource, server) {
            return Err(MetadataRefused::OtherResource(resource.chars().take(200).collect()));
        }
        let servers = texts(document, "authorization_servers").unwrap_or_default();
        if servers.is_empty() {
            return Err(MetadataRefused::Missing("authorization_servers"));
        }
        Ok(ProtectedResource {
            resource: resource.to_owned(),
            authorization_servers: servers,
            scopes_supported: texts(document, "scopes_supported"),
        })
    }
}

/// Whether a resource is the server's address or a parent of it.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != server.origin() || resource.fragment().is_some() {
        return false;
    }
    let parent = resource.path().trim_end_matches('/');
    let own = server.path();
    own.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The canonical address of a server, for one without protected resource metadata: no query, no fragment, no
/// slash at the end of the origin.
pub fn resource_of(server: &Url) -> String {
    let mut url = server.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = String::from(url);
    text.strip_suffix('/').filter(|_| server.path() == "/").map_or(text.clone(), str::to_owned)
}

/// The metadata of an authorization server (RFC 8414).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationServer {
    pub issuer: String,
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub registration_endpoint: Option<Url>,
    pub revocation_endpoint: Option<Url>,
    /// The signing keys of an OpenID provider.
    pub jwks_uri: Option<Url>,
    pub scopes_supported: Option<Vec<String>>,
    pub token_auth_methods: Option<Vec<String>>,
    pub supports_client_documents: bool,
    /// Whether it promises `iss` in every authorization response (RFC 9207).
    pub sends_iss: bool,
}

impl AuthorizationServer {
    /// Reads the document of an issuer. `issuer` must match byte for byte.
    pub fn read(
        document: &Value,
        issuer: &str,
        network: Network,
    ) -> Result<AuthorizationServer, MetadataRefused> {
        if !document.is_object() {
            return Err(MetadataRefused::NotAnObject);
        }
        let found = text(document, "issuer").ok_or(MetadataRefused::Missing("issuer"))?;
        if found != issuer {
            return Err(MetadataRefused::OtherIssuer {
                found: found.chars().take(200).collect(),
                expected: issuer.to_owned(),
            });
        }
        if let Some(methods) = texts(document, "code_challenge_methods_supported")
            && !methods.iter().any(|method| method == pkce::METHOD)
        {
            return Err(MetadataRefused::NoS256);
        }
        let optional = |name: &'static str| endpoint(document, name, network).transpose();
        let required = |name: &'static str| {
            endpoint(document, name, network).unwrap_or(Err(MetadataRefused::Missing(name)))
        };
        let flag = |name: &str| document.get(name).and_then(Value::as_bool) == Some(true);
        Ok(AuthorizationServer {
            issuer: found.to_owned(),
            authorization_endpoint: required("authorization_endpoint")?,
            token_endpoint: required("token_endpoint")?,
            registration_endpoint: optional("registration_endpoint")?,
            revocation_endpoint: optional("revocation_endpoint")?,
            // Most clients do not need it, so an address that may not be used only counts as absent.
            jwks_uri: endpoint(document, "jwks_uri", network).and_then(Result::ok),
            scopes_supported: texts(document, "scopes_supported"),
            token_auth_methods: texts(document, "token_endpoint_auth_methods_supported"),
            supports_client_documents: flag("client_id_metadata_document_supported"),
            sends_iss: flag("authorization_response_iss_parameter_supported"),
        })
    }

    /// A server of revision 2025-03-26 without any metadata.
    pub fn with_default_endpoints(server: &Url) -> AuthorizationServer {
        let endpoints = discovery::default_endpoints(server);
        AuthorizationServer {
            issuer: resource_of(&discovery::origin(server)),
            authorization_endpoint: endpoints.authorization,
            token_endpoint: endpoints.token,
            registration_endpoint: Some(endpoints.registration),
            revocation_endpoint: None,
            jwks_uri: None,
            scopes_supported: None,
            token_auth_methods: None,
            supports_client_documents: false,
            sends_iss: false,
        }
    }
}

fn endpoint(
    document: &Value,
    name: &'static str,
    network: Network,
) -> Option<Result<Url, MetadataRefused>> {
    let address = text(document, name)?;
    Some(address::parse(address, network).map_err(|why| MetadataRefused::Address { name, why }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "issuer": "https://a.example/t",
            "authorization_endpoint": "https://a.example/t/authorize",
            "token_endpoint": "https://a.example/t/token",
        })
    }

    fn with(name: &str, value: Value) -> Result<AuthorizationServer, MetadataRefused> {
        let mut document = document();
        document.as_object_mut().unwrap().insert(name.to_owned(), value);
        AuthorizationServer::read(&document, "https://a.example/t", Network::Public)
    }

    #[test]
    fn rule_10_the_issuer_is_compared_byte_for_byte() {
        for (expected, is_same) in [
            ("https://a.example/t", true),
            ("https://a.example/t/", false),
            ("https://A.example/t", false),
            ("https://a.example:443/t", false),
            ("https://a.example", false),
        ] {
            let read = AuthorizationServer::read(&document(), expected, Network::Public);
            assert_eq!(read.is_ok(), is_same, "{expected}");
        }
    }

    #[test]
    fn pkce_is_refused_only_where_s256_is_left_out_of_a_list() {
        for (methods, is_good) in [
            (json!(["S256"]), true),
            (json!(["plain", "S256"]), true),
            (json!(null), true),
            (json!(["plain"]), false),
            (json!([]), false),
        ] {
            let read = with("code_challenge_methods_supported", methods.clone());
            assert_eq!(read.is_ok(), is_good, "{methods}");
        }
    }

    #[test]
    fn null_members_count_as_absent() {
        let read = with("registration_endpoint", Value::Null).unwrap();
        assert_eq!(read.registration_endpoint, None);
        assert_eq!(
            with("token_endpoint", Value::Null).unwrap_err(),
            MetadataRefused::Missing("token_endpoint")
        );
    }

    #[test]
    fn rule_17_an_endpoint_inside_the_network_is_refused() {
        for at in ["http://a.example/token", "https://127.0.0.1/token", "https://10.0.0.7/token"] {
            assert!(with("token_endpoint", json!(at)).is_err(), "{at}");
        }
    }

    #[test]
    fn a_resource_is_the_server_or_its_parent() {
        let server = Url::parse("https://s.example/v1/mcp").unwrap();
        for (resource, is_good) in [
            ("https://s.example/v1/mcp", true),
            ("https://s.example/v1", true),
            ("https://s.example", true),
            ("https://s.example/", true),
            ("https://s.example/v1/mcp/x", false),
            ("https://s.example/v1/m", false),
            ("https://evil.example/v1/mcp", false),
            ("https://s.example:8443/v1/mcp", false),
            ("http://s.example/v1/mcp", false),
            ("mcp", false),
        ] {
            let document =
                json!({ "resource": resource, "authorization_servers": ["https://a.example"] });
            assert_eq!(ProtectedResource::read(&document, &server).is_ok(), is_good, "{resource}");
        }
    }

    #[test]
    fn the_canonical_address_has_no_query() {
        for (url, expected) in [
            ("https://s.example/mcp?key=1", "https://s.example/mcp"),
            ("https://s.example/", "https://s.example"),
            ("https://s.example/mcp/", "https://s.example/mcp/"),
        ] {
            assert_eq!(resource_of(&Url::parse(url).unwrap()), expected);
        }
    }
}

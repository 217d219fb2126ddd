//! How the client is known to an authorization server: an own client of the owner, a client metadata document
//! (CIMD), or dynamic registration (RFC 7591).

use serde_json::{Value, json};
use url::Url;

use super::metadata::AuthorizationServer;
use super::text;

/// The name that the consent page shows.
pub const CLIENT_NAME: &str = "tollgate";
/// Where a gate with a public address serves the document about itself.
pub const CLIENT_DOCUMENT_PATH: &str = "/oauth/client.json";

/// How the client is known to an authorization server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientMode {
    /// A client id, and mostly a secret, that the owner made at the service.
    Own,
    /// The client id is the address of a document about the client.
    Document,
    /// The client registered itself.
    Dynamic,
}

impl ClientMode {
    pub fn as_str(self) -> &'static str {
        match self {
            ClientMode::Own => "own client",
            ClientMode::Document => "client metadata document",
            ClientMode::Dynamic => "dynamic registration",
        }
    }
}

/// The best mode without a client of the owner; none if the owner must make one.
pub fn mode(server: &AuthorizationServer, has_document: bool) -> Option<ClientMode> {
    if server.supports_client_documents && has_document {
        return Some(ClientMode::Document);
    }
    server.registration_endpoint.as_ref().map(|_| ClientMode::Dynamic)
}

/// How the client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AuthMethod {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

impl AuthMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            AuthMethod::None => "none",
            AuthMethod::Basic => "client_secret_basic",
            AuthMethod::Post => "client_secret_post",
        }
    }

    fn parse(name: &str) -> Option<AuthMethod> {
        [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post]
            .into_iter()
            .find(|method| method.as_str() == name)
    }

    /// The method for a client with or without a secret: the registered one, else the first that the server
    /// supports, else `client_secret_basic`, which every server must support.
    pub fn select(
        has_secret: bool,
        registered: Option<&str>,
        supported: Option<&[String]>,
    ) -> AuthMethod {
        if !has_secret {
            return AuthMethod::None;
        }
        let registered = registered.and_then(AuthMethod::parse);
        let offers = |method: AuthMethod| {
            supported.is_none_or(|list| list.iter().any(|name| name == method.as_str()))
        };
        let known = [AuthMethod::Basic, AuthMethod::Post];
        registered
            .filter(|method| *method != AuthMethod::None)
            .or_else(|| known.into_iter().find(|method| offers(*method)))
            .unwrap_or(AuthMethod::Basic)
    }

    /// The method to register with: no secret where the server allows it.
    fn to_register(supported: Option<&[String]>) -> AuthMethod {
        let Some(list) = supported else { return AuthMethod::None };
        let known = [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post];
        known
            .into_iter()
            .find(|method| list.iter().any(|name| name == method.as_str()))
            .unwrap_or(AuthMethod::None)
    }
}

/// The body of a registration request. Both grant types are always named: without `refresh_token` some servers
/// issue none.
pub fn request(redirect_uris: &[String], server: &AuthorizationServer, scopes: &[String]) -> Value {
    let method = AuthMethod::to_register(server.token_auth_methods.as_deref());
    let mut body = json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.as_str(),
        "application_type": application_type(redirect_uris),
    });
    if let (false, Some(object)) = (scopes.is_empty(), body.as_object_mut()) {
        object.insert("scope".to_owned(), scopes.join(" ").into());
    }
    body
}

/// The client metadata document that a gate with a public address serves (CIMD).
pub fn document(address: &Url, redirect_uris: &[String]) -> Value {
    json!({
        "client_id": address.as_str(),
        "client_name": CLIENT_NAME,
        "redirect_uris": redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": application_type(redirect_uris),
    })
}

/// Loopback redirects belong to native applications.
fn application_type(redirect_uris: &[String]) -> &'static str {
    let is_web = redirect_uris.iter().all(|uri| uri.starts_with("https://"));
    if is_web && !redirect_uris.is_empty() { "web" } else { "native" }
}

/// A client that was registered.
#[derive(Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    pub client_id: String,
    pub client_secret: Option<String>,
    /// Seconds since 1970; none if the secret does not expire.
    pub secret_expires_s: Option<i64>,
    pub auth_method: Option<String>,
}

/// Why a registration failed. No text of the server is repeated, except a code of one word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationRefused {
    #[error("it refused to register a client (status {status}{})", .code.as_deref().map(|code| format!(", `{code}`")).unwrap_or_default())]
    Refused { status: u16, code: Option<String> },
    #[error("its registration response has no client id")]
    NoClientId,
}

impl RegisteredClient {
    /// Reads a registration response. Optional members may be null.
    pub fn read(status: u16, body: &[u8]) -> Result<RegisteredClient, RegistrationRefused> {
        let document: Value = serde_json::from_slice(body).unwrap_or_default();
        if !(200..300).contains(&status) {
            let is_word = |code: &&str| {
                code.len() <= 64 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            };
            let code = text(&document, "error").filter(is_word).map(str::to_owned);
            return Err(RegistrationRefused::Refused { status, code });
        }
        let client_id = text(&document, "client_id").ok_or(RegistrationRefused::NoClientId)?;
        let expires_s = document.get("client_secret_expires_at").and_then(Value::as_i64);
        Ok(RegisteredClient {
            client_id: client_id.to_owned(),
            client_secret: text(&document, "client_secret").map(str::to_owned),
            secret_expires_s: expires_s.filter(|at| *at > 0),
            auth_method: text(&document, "token_endpoint_auth_method").map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    fn server() -> AuthorizationServer {
        AuthorizationServer::with_default_endpoints(&Url::parse("https://s.example/mcp").unwrap())
    }

    #[test]
    fn rule_14_a_registration_names_both_grants_and_a_native_client() {
        let body = request(&["http://127.0.0.1:4180/oauth/callback".to_owned()], &server(), &[]);
        assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(body["application_type"], "native");
        assert_eq!(body["token_endpoint_auth_method"], "none");
        assert!(body.get("scope").is_none());
        let public = request(
            &["https://gate.example/oauth/callback".to_owned()],
            &server(),
            &["a".to_owned()],
        );
        assert_eq!((&public["application_type"], &public["scope"]), (&json!("web"), &json!("a")));
    }

    #[test]
    fn rule_15_null_members_of_a_registration_are_accepted() {
        let body = br#"{"client_id":"c","client_secret":null,"client_secret_expires_at":null,
            "client_uri":null,"scope":null,"token_endpoint_auth_method":null,"redirect_uris":null}"#;
        let client = RegisteredClient::read(201, body).unwrap_or_else(|_| unreachable!());
        assert_eq!(client.client_id, "c");
        assert_eq!(
            (client.client_secret, client.secret_expires_s, client.auth_method),
            (None, None, None)
        );
    }

    #[test]
    fn rule_11_a_refused_registration_gives_no_client() {
        for (status, body, expected) in [
            (403, "forbidden", RegistrationRefused::Refused { status: 403, code: None }),
            (422, "{}", RegistrationRefused::Refused { status: 422, code: None }),
            (
                400,
                r#"{"error":"invalid_redirect_uri"}"#,
                RegistrationRefused::Refused {
                    status: 400,
                    code: Some("invalid_redirect_uri".into()),
                },
            ),
            (
                400,
                r#"{"error":"Your token X"}"#,
                RegistrationRefused::Refused { status: 400, code: None },
            ),
            (201, "{}", RegistrationRefused::NoClientId),
            (201, r#"{"client_id":""}"#, RegistrationRefused::NoClientId),
            (201, r#"{"client_id":null}"#, RegistrationRefused::NoClientId),
            (200, "<html>", RegistrationRefused::NoClientId),
        ] {
            assert_eq!(
                RegisteredClient::read(status, body.as_bytes()).err(),
                Some(expected),
                "{status} {body}"
            );
        }
    }

    #[test]
    fn the_auth_method_is_the_registered_one_or_one_that_the_server_supports() {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (has_secret, registered, supported, expected) in [
            (false, Some("client_secret_basic"), None, AuthMethod::None),
            (true, None, None, AuthMethod::Basic),
            (true, None, Some(list(&["client_secret_post"])), AuthMethod::Post),
            (
                true,
                None,
                Some(list(&["client_secret_post", "client_secret_basic"])),
                AuthMethod::Basic,
            ),
            (true, Some("client_secret_post"), None, AuthMethod::Post),
            (true, Some("none"), Some(list(&["client_secret_post"])), AuthMethod::Post),
            (true, Some("private_key_jwt"), Some(list(&["tls_client_auth"])), AuthMethod::Basic),
        ] {
            let chosen = AuthMethod::select(has_secret, registered, supported.as_deref());
            assert_eq!(chosen, expected, "{has_secret} {registered:?} {supported:?}");
        }
    }

    #[test]
    fn a_client_document_comes_before_registration() {
        let mut server = server();
        server.supports_client_documents = true;
        assert_eq!(mode(&server, true), Some(ClientMode::Document));
        assert_eq!(mode(&server, false), Some(ClientMode::Dynamic));
        server.registration_endpoint = None;
        assert_eq!(mode(&server, false), None);
    }
}

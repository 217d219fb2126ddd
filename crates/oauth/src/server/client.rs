//! Clients: registration requests (RFC 7591) and client ID metadata documents. Everything a client says
//! about itself is untrusted text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::{Host, Url};

use super::redirect::RedirectUri;
use super::refusal::{ErrorCode, Refusal};

const REDIRECT_URIS_MAX: usize = 16;
const NAME_CHARS_MAX: usize = 80;
const GRANT_TYPES: [&str; 2] = ["authorization_code", "refresh_token"];
/// Members of a registration that are sent back as they came.
const ECHOED: [&str; 9] = [
    "client_uri",
    "logo_uri",
    "tos_uri",
    "policy_uri",
    "contacts",
    "software_id",
    "software_version",
    "scope",
    "application_type",
];

/// How a client presents its secret at the token endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretUse {
    /// A public client.
    #[default]
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

impl SecretUse {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SecretUse::None => "none",
            SecretUse::ClientSecretBasic => "client_secret_basic",
            SecretUse::ClientSecretPost => "client_secret_post",
        }
    }
}

/// What is kept of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMetadata {
    /// As the client calls itself; empty if it gives no name.
    pub name: String,
    pub redirect_uris: Vec<String>,
    pub secret_use: SecretUse,
    /// Further members of the registration, for the response.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub echoed: Map<String, Value>,
}

impl ClientMetadata {
    /// The registered URI that a presented one matches.
    #[must_use]
    pub fn accepts(&self, presented: &RedirectUri) -> bool {
        let registered = self.redirect_uris.iter().filter_map(|text| RedirectUri::parse(text).ok());
        registered.into_iter().any(|registered| registered.accepts(presented))
    }

    /// The response to a registration: the request, completed, without null members.
    #[must_use]
    pub fn registered(&self, id: &str, secret: Option<&str>, now_seconds: i64) -> Value {
        let mut members = self.echoed.clone();
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        put("client_id", id.into());
        put("client_id_issued_at", now_seconds.into());
        if let Some(secret) = secret {
            put("client_secret", secret.into());
            put("client_secret_expires_at", 0.into());
        }
        if !self.name.is_empty() {
            put("client_name", self.name.as_str().into());
        }
        put("redirect_uris", json!(self.redirect_uris));
        put("grant_types", json!(GRANT_TYPES));
        put("response_types", json!(["code"]));
        put("token_endpoint_auth_method", self.secret_use.as_str().into());
        Value::Object(members)
    }
}

/// Reads a registration request. Null members count as absent.
pub fn read_registration(body: &[u8]) -> Result<ClientMetadata, Refusal> {
    let members = object(body)?;
    let secret_use = match text(&members, "token_endpoint_auth_method")? {
        // The default of RFC 7591.
        None | Some("client_secret_basic") => SecretUse::ClientSecretBasic,
        Some("client_secret_post") => SecretUse::ClientSecretPost,
        Some("none") => SecretUse::None,
        Some(_) => {
            return Err(invalid(
                "`token_endpoint_auth_method` is `none`, `client_secret_basic` or `client_secret_post`",
            ));
        }
    };
    if let Some(types) = members.get("response_types").and_then(Value::as_array)
        && !types.iter().any(|kind| kind == "code")
    {
        return Err(invalid("`response_types` must include `code`"));
    }
    let echoed = ECHOED.iter().filter_map(|name| {
        let value = members.get(*name).filter(|value| !value.is_null())?;
        Some(((*name).to_owned(), value.clone()))
    });
    Ok(ClientMetadata {
        name: name(&members)?,
        redirect_uris: redirect_uris(&members)?,
        secret_use,
        echoed: echoed.collect(),
    })
}

/// Whether a client id is the address of a metadata document: https, a name with a path, nothing else.
#[must_use]
pub fn is_document_url(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let is_plain = url.as_str() == id
        && url.scheme() == "https"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    is_plain && url.path() != "/" && matches!(url.host(), Some(Host::Domain(_)))
}

/// Reads the metadata document of a client. It must name its own address as its id.
pub fn read_document(id: &str, body: &[u8]) -> Result<ClientMetadata, Refusal> {
    let members = object(body)?;
    if text(&members, "client_id")? != Some(id) {
        return Err(invalid("the document does not name its own address as `client_id`"));
    }
    if members.get("client_secret").is_some_and(|secret| !secret.is_null()) {
        return Err(invalid("a public document cannot hold a secret"));
    }
    if !may_be_public(&members)? {
        return Err(invalid(
            "a document needs `none` as `token_endpoint_auth_method` or in `token_endpoint_auth_methods_supported`",
        ));
    }
    Ok(ClientMetadata {
        name: name(&members)?,
        redirect_uris: redirect_uris(&members)?,
        secret_use: SecretUse::None,
        echoed: Map::new(),
    })
}

/// A document is published once for all servers, so it may prefer a method that this one lacks (ChatGPT's prefers
/// `private_key_jwt`) and list those that the client can also use.
fn may_be_public(members: &Map<String, Value>) -> Result<bool, Refusal> {
    let preferred = text(members, "token_endpoint_auth_method")?;
    let others = members.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let is_listed = others.is_some_and(|methods| methods.iter().any(|method| method == "none"));
    Ok(is_listed || preferred.is_none_or(|method| method == "none"))
}

fn invalid(description: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(ErrorCode::InvalidClientMetadata, description)
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(invalid("the body is not a JSON object")),
    }
}

fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<Option<&'m str>, Refusal> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(format!("`{name}` is not a string"))),
    }
}

/// The name on one line, without characters that could reorder or hide what a page says.
fn name(members: &Map<String, Value>) -> Result<String, Refusal> {
    let text = text(members, "client_name")?.unwrap_or_default();
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let shown: String = text.chars().filter(|c| !is_hidden(*c)).take(NAME_CHARS_MAX).collect();
    Ok(shown.trim().to_owned())
}

fn redirect_uris(members: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let wrong = |description: String| Refusal::new(ErrorCode::InvalidRedirectUri, description);
    let Some(Value::Array(items)) = members.get("redirect_uris") else {
        return Err(wrong("`redirect_uris` is missing".to_owned()));
    };
    if items.is_empty() || items.len() > REDIRECT_URIS_MAX {
        return Err(wrong(format!("`redirect_uris` has 1 to {REDIRECT_URIS_MAX} entries")));
    }
    items
        .iter()
        .map(|item| {
            let text =
                item.as_str().ok_or_else(|| wrong("a redirect URI is a string".to_owned()))?;
            RedirectUri::parse(text)
                .map(|_| text.to_owned())
                .map_err(|why| wrong(format!("a redirect URI cannot be used: {why}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn a_registration_is_echoed_with_both_grants_and_no_nulls() {
        let body = json!({
            "client_name": "Cl\u{202e}aude\n", "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none", "grant_types": ["authorization_code"],
            "logo_uri": null, "scope": "mcp", "unknown": 1, "jwks": { "keys": [] },
        });
        let Ok(client) = read_registration(body.to_string().as_bytes()) else { panic!("refused") };
        let response = client.registered("client_1", None, 7);
        assert_eq!(
            response,
            json!({
                "scope": "mcp", "client_id": "client_1", "client_id_issued_at": 7, "client_name": "Claude",
                "redirect_uris": ["http://127.0.0.1/callback"],
                "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            })
        );
        let secret = client.registered("c", Some("s"), 7);
        assert_eq!(secret.get("client_secret_expires_at"), Some(&json!(0)));
    }

    #[test]
    fn a_registration_needs_safe_redirects() {
        let code = |body: Value| {
            read_registration(body.to_string().as_bytes()).err().map(|r| r.code.as_str())
        };
        let uris = |uris: &[&str]| json!({ "redirect_uris": uris });
        assert_eq!(code(uris(&["https://a.example/cb"])), None);
        assert_eq!(code(json!({})), Some("invalid_redirect_uri"));
        assert_eq!(code(uris(&[])), Some("invalid_redirect_uri"));
        assert_eq!(code(uris(&["javascript:1"])), Some("invalid_redirect_uri"));
        assert_eq!(code(uris(&["https://a.example/"; 17])), Some("invalid_redirect_uri"));
        assert_eq!(code(json!([])), Some("invalid_client_metadata"));
        let with = |name: &str, value: Value| json!({ "redirect_uris": ["https://a.example/"], name: value });
        assert_eq!(
            code(with("token_endpoint_auth_method", json!("private_key_jwt"))),
            Some("invalid_client_metadata")
        );
        assert_eq!(code(with("client_name", json!(7))), Some("invalid_client_metadata"));
        assert_eq!(code(with("response_types", json!(["token"]))), Some("invalid_client_metadata"));
    }

    #[test]
    fn a_document_url_is_plain_https_with_a_path() {
        for (id, expected) in [
            ("https://claude.ai/oauth/claude-code-client-metadata", true),
            ("https://vscode.dev/oauth/client-metadata.json", true),
            ("https://a.example:8443/x", true),
            ("http://a.example/x", false),
            ("https://a.example", false),
            ("https://a.example/", false),
            ("https://a.example/x?y", false),
            ("https://a.example/x#y", false),
            ("https://u@a.example/x", false),
            ("https://127.0.0.1/x", false),
            ("https://[::1]/x", false),
            ("https://2130706433/x", false),
            ("https://a.example/../x", false),
            ("https://A.example/x", false),
            ("client_1", false),
        ] {
            assert_eq!(is_document_url(id), expected, "{id}");
        }
    }

    #[test]
    fn a_document_names_its_own_address() {
        let id = "https://a.example/client.json";
        let base = json!({ "client_id": id, "client_name": "A", "redirect_uris": ["http://localhost/cb"] });
        let code = |change: &[(&str, Value)]| {
            let mut document = base.clone();
            for (name, value) in change {
                if let Some(members) = document.as_object_mut() {
                    members.insert((*name).to_owned(), value.clone());
                }
            }
            read_document(id, document.to_string().as_bytes()).err().map(|r| r.code.as_str())
        };
        assert_eq!(code(&[]), None);
        assert_eq!(code(&[("token_endpoint_auth_method", json!("none"))]), None);
        assert_eq!(
            code(&[("client_id", json!("https://b.example/x"))]),
            Some("invalid_client_metadata")
        );
        assert_eq!(code(&[("client_secret", json!("x"))]), Some("invalid_client_metadata"));
        let preferred = ("token_endpoint_auth_method", json!("private_key_jwt"));
        let others = |names: Value| ("token_endpoint_auth_methods_supported", names);
        assert_eq!(code(std::slice::from_ref(&preferred)), Some("invalid_client_metadata"));
        let both = others(json!(["none", "private_key_jwt"]));
        assert_eq!(code(&[preferred.clone(), both]), None);
        let only = others(json!(["private_key_jwt"]));
        assert_eq!(code(&[preferred, only]), Some("invalid_client_metadata"));
        assert_eq!(code(&[("redirect_uris", json!(["data:x"]))]), Some("invalid_redirect_uri"));
    }
}

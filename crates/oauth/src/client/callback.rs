//! The authorization request, and the redirect that answers it: state, issuer (RFC 9207), code or error.

use url::Url;

const CODE_BYTES_MAX: usize = 4096;

/// The parts of an authorization request.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationRequest<'a> {
    pub endpoint: &'a Url,
    pub client_id: &'a str,
    pub redirect_uri: &'a str,
    pub state: &'a str,
    pub code_challenge: &'a str,
    /// Left out where empty.
    pub scopes: &'a [String],
    /// RFC 8707; left out for servers that refuse it.
    pub resource: Option<&'a str>,
    /// OpenID Connect: the ID token must repeat it.
    pub nonce: Option<&'a str>,
}

impl AuthorizationRequest<'_> {
    pub fn url(&self) -> Url {
        let mut url = self.endpoint.clone();
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", self.client_id)
                .append_pair("redirect_uri", self.redirect_uri)
                .append_pair("state", self.state)
                .append_pair("code_challenge", self.code_challenge)
                .append_pair("code_challenge_method", crate::pkce::METHOD);
            if !self.scopes.is_empty() {
                query.append_pair("scope", &self.scopes.join(" "));
                if self.scopes.iter().any(|scope| scope == "offline_access") {
                    // OpenID Connect gives a refresh token only with consent.
                    query.append_pair("prompt", "consent");
                }
            }
            if let Some(resource) = self.resource {
                query.append_pair("resource", resource);
            }
            if let Some(nonce) = self.nonce {
                query.append_pair("nonce", nonce);
            }
        }
        url
    }
}

/// The authorization server that the response must come from.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedIssuer<'a> {
    pub issuer: &'a str,
    /// It promised `iss` in every response.
    pub sends_iss: bool,
}

/// Why a redirect gives no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackRefused {
    #[error("it has no state, no code, or one of them twice")]
    Incomplete,
    #[error("it comes from another issuer")]
    OtherIssuer,
    #[error("it lacks `iss`, which this issuer always sends")]
    NoIssuer,
    #[error("the authorization server refused: `{0}`")]
    Declined(String),
}

/// The state of a redirect, by which its sign-in is found.
pub fn state(query: &str) -> Option<String> {
    one(query, "state").ok().flatten()
}

/// The code of a redirect. The caller has compared the state before. The issuer is checked before an error is
/// believed.
pub fn code(query: &str, expected: &ExpectedIssuer<'_>) -> Result<String, CallbackRefused> {
    match one(query, "iss")? {
        Some(issuer) if issuer != expected.issuer => return Err(CallbackRefused::OtherIssuer),
        None if expected.sends_iss => return Err(CallbackRefused::NoIssuer),
        _ => {}
    }
    if let Some(error) = one(query, "error")? {
        let is_word =
            error.len() <= 64 && error.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        return Err(CallbackRefused::Declined(if is_word { error } else { "error".to_owned() }));
    }
    let code = one(query, "code")?.ok_or(CallbackRefused::Incomplete)?;
    if code.is_empty() || code.len() > CODE_BYTES_MAX {
        return Err(CallbackRefused::Incomplete);
    }
    Ok(code)
}

/// The value of a parameter. Two values are ambiguous.
fn one(query: &str, name: &str) -> Result<Option<String>, CallbackRefused> {
    let mut values = url::form_urlencoded::parse(query.as_bytes())
        .filter(|(key, _)| key == name)
        .map(|(_, v)| v);
    let first = values.next();
    match values.next() {
        Some(_) => Err(CallbackRefused::Incomplete),
        None => Ok(first.map(std::borrow::Cow::into_owned)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_response_of_another_issuer_gives_no_code() {
        const ISSUER: &str = "https://a.example/t";
        for (query, sends_iss, expected) in [
            ("code=abc&state=s", false, Ok("abc")),
            ("code=abc&state=s&iss=https://a.example/t", true, Ok("abc")),
            ("code=abc&iss=https%3A%2F%2Fa.example%2Ft", false, Ok("abc")),
            ("code=abc&state=s", true, Err(CallbackRefused::NoIssuer)),
            ("code=abc&iss=https://a.example/t/", false, Err(CallbackRefused::OtherIssuer)),
            ("code=abc&iss=https://A.example/t", false, Err(CallbackRefused::OtherIssuer)),
            ("code=abc&iss=https://evil.example", true, Err(CallbackRefused::OtherIssuer)),
            (
                "error=access_denied&iss=https://evil.example",
                false,
                Err(CallbackRefused::OtherIssuer),
            ),
            ("error=access_denied", true, Err(CallbackRefused::NoIssuer)),
            ("error=access_denied", false, Err(CallbackRefused::Declined("access_denied".into()))),
            ("error=%3Cscript%3E", false, Err(CallbackRefused::Declined("error".into()))),
            ("code=a&code=b", false, Err(CallbackRefused::Incomplete)),
            ("code=a&iss=x&iss=y", false, Err(CallbackRefused::Incomplete)),
            ("code=", false, Err(CallbackRefused::Incomplete)),
            ("", false, Err(CallbackRefused::Incomplete)),
        ] {
            let found = code(query, &ExpectedIssuer { issuer: ISSUER, sends_iss });
            assert_eq!(found, expected.map(str::to_owned), "{query}");
        }
    }

    #[test]
    fn the_state_is_read_once() {
        assert_eq!(state("state=a&code=b"), Some("a".to_owned()));
        assert_eq!(state("state=a&state=a"), None);
        assert_eq!(state("code=b"), None);
    }

    #[test]
    fn rule_8_the_request_has_a_resource_unless_it_is_switched_off() {
        let endpoint = Url::parse("https://a.example/authorize?tenant=1").unwrap();
        let request = |resource| {
            let request = AuthorizationRequest {
                endpoint: &endpoint,
                client_id: "me",
                redirect_uri: "http://127.0.0.1:4180/oauth/callback",
                state: "s",
                code_challenge: "c",
                scopes: &[],
                resource,
                nonce: None,
            };
            request.url().query_pairs().into_owned().collect::<Vec<_>>()
        };
        let pair = ("resource".to_owned(), "https://s.example/mcp".to_owned());
        assert!(request(Some("https://s.example/mcp")).contains(&pair));
        let without = request(None);
        assert!(without.iter().all(|(name, _)| name != "resource" && name != "scope"));
        assert!(without.contains(&("tenant".to_owned(), "1".to_owned())));
        assert!(without.contains(&("code_challenge_method".to_owned(), "S256".to_owned())));
    }
}

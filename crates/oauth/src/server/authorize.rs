//! Authorization requests. Until the redirect URI is known to be the client's, an error is a page and never
//! a redirect.

use super::client::ClientMetadata;
use super::issuer::Issuer;
use super::redirect::RedirectUri;
use super::refusal::{ErrorCode, Refusal};
use super::{Pairs, needed, single};
use crate::pkce;

/// A request whose client is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorize<'p> {
    pub client_id: &'p str,
    redirect_uri: RedirectUri,
    pairs: &'p Pairs,
}

/// A request of a known client, checked in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedAuthorize {
    pub client_id: String,
    pub redirect_uri: RedirectUri,
    pub code_challenge: String,
    /// The path of the resource that the token is for.
    pub resource_path: String,
    state: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizeFault {
    /// For the person: the client is not told, because its address is not proven.
    Page(Refusal),
    /// The client is told by this redirect.
    Redirect { to: String, refusal: Refusal },
}

impl<'p> Authorize<'p> {
    pub fn parse(pairs: &'p Pairs) -> Result<Authorize<'p>, Refusal> {
        let client_id = needed(pairs, "client_id")?;
        let redirect_uri = RedirectUri::parse(needed(pairs, "redirect_uri")?).map_err(|why| {
            Refusal::new(ErrorCode::InvalidRequest, format!("`redirect_uri` cannot be used: {why}"))
        })?;
        Ok(Authorize { client_id, redirect_uri, pairs })
    }

    pub fn check(
        self,
        client: &ClientMetadata,
        issuer: &Issuer,
    ) -> Result<CheckedAuthorize, AuthorizeFault> {
        if !client.accepts(&self.redirect_uri) {
            return Err(AuthorizeFault::Page(Refusal::new(
                ErrorCode::InvalidRequest,
                "`redirect_uri` is not one that this client registered",
            )));
        }
        let state = single(self.pairs, "state").map_err(AuthorizeFault::Page)?;
        self.details(issuer, state).map_err(|refusal| AuthorizeFault::Redirect {
            to: error_redirect(&self.redirect_uri, &refusal, state, issuer),
            refusal,
        })
    }

    fn details(&self, issuer: &Issuer, state: Option<&str>) -> Result<CheckedAuthorize, Refusal> {
        let pairs = self.pairs;
        let refused =
            |description: &'static str| Err(Refusal::new(ErrorCode::InvalidRequest, description));
        if needed(pairs, "response_type")? != "code" {
            return Err(Refusal::new(
                ErrorCode::UnsupportedResponseType,
                "`response_type` must be `code`",
            ));
        }
        if single(pairs, "request")?.is_some() || single(pairs, "request_uri")?.is_some() {
            return refused("request objects are not supported");
        }
        if single(pairs, "response_mode")?.is_some_and(|mode| mode != "query") {
            return refused("`response_mode` must be `query`");
        }
        // Without a method RFC 7636 means `plain`, which protects nothing.
        if single(pairs, "code_challenge_method")? != Some(pkce::METHOD) {
            return refused("PKCE is needed: `code_challenge_method` must be `S256`");
        }
        let code_challenge = needed(pairs, "code_challenge")?;
        if !pkce::is_challenge(code_challenge) {
            return refused("`code_challenge` is not the base64url form of a SHA-256 hash");
        }
        let resource_path = issuer.resource_path(single(pairs, "resource")?).ok_or_else(|| {
            Refusal::new(ErrorCode::InvalidTarget, "`resource` is not a resource of this gate")
        })?;
        Ok(CheckedAuthorize {
            client_id: self.client_id.to_owned(),
            redirect_uri: self.redirect_uri.clone(),
            code_challenge: code_challenge.to_owned(),
            resource_path,
            state: state.map(str::to_owned),
        })
    }
}

impl CheckedAuthorize {
    /// Where the browser takes the code. `iss` lets the client notice a mix-up (RFC 9207).
    #[must_use]
    pub fn code_redirect(&self, code: &str, issuer: &Issuer) -> String {
        let mut pairs = vec![("code", code)];
        pairs.extend(self.state.as_deref().map(|state| ("state", state)));
        pairs.push(("iss", issuer.as_str()));
        self.redirect_uri.with(&pairs)
    }

    #[must_use]
    pub fn error_redirect(&self, refusal: &Refusal, issuer: &Issuer) -> String {
        error_redirect(&self.redirect_uri, refusal, self.state.as_deref(), issuer)
    }
}

fn error_redirect(
    to: &RedirectUri,
    refusal: &Refusal,
    state: Option<&str>,
    issuer: &Issuer,
) -> String {
    let mut pairs =
        vec![("error", refusal.code.as_str()), ("error_description", refusal.description.as_ref())];
    pairs.extend(state.map(|state| ("state", state)));
    pairs.push(("iss", issuer.as_str()));
    to.with(&pairs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use super::*;
    use crate::server::SecretUse;

    /// Parameters to set, or to leave out.
    type Changes<'c> = &'c [(&'c str, Option<&'c str>)];

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn check(change: Changes) -> Result<CheckedAuthorize, AuthorizeFault> {
        let mut pairs: Vec<(String, String)> = [
            ("response_type", "code"),
            ("client_id", "c"),
            ("redirect_uri", "https://a.example/cb"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("resource", "https://gate.example/mcp"),
            ("state", "s"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        for (name, value) in change {
            match value {
                // A name with `+` is sent a second time.
                Some(value) if name.starts_with('+') => {
                    pairs.push((name.trim_start_matches('+').to_owned(), (*value).to_owned()));
                }
                Some(value) => {
                    pairs.retain(|(known, _)| known != name);
                    pairs.push(((*name).to_owned(), (*value).to_owned()));
                }
                None => pairs.retain(|(known, _)| known != name),
            }
        }
        let client = ClientMetadata {
            name: "A".to_owned(),
            redirect_uris: vec!["https://a.example/cb".to_owned()],
            secret_use: SecretUse::None,
            echoed: serde_json::Map::new(),
        };
        let issuer = Issuer::parse("https://gate.example")
            .map_err(|why| AuthorizeFault::Page(Refusal::new(ErrorCode::ServerError, why)))?;
        Authorize::parse(&pairs).map_err(AuthorizeFault::Page)?.check(&client, &issuer)
    }

    #[test]
    fn a_request_is_answered_on_a_page_until_its_redirect_is_proven() {
        let on_page: [Changes; 8] = [
            &[("client_id", None)],
            &[("redirect_uri", None)],
            &[("redirect_uri", Some("https://evil.example/cb"))],
            &[("redirect_uri", Some("https://a.example/cb/../x"))],
            &[("redirect_uri", Some("https://a.example/cb?x"))],
            &[("redirect_uri", Some("javascript:alert(1)"))],
            &[("+redirect_uri", Some("https://evil.example/cb"))],
            &[("+state", Some("2"))],
        ];
        for change in on_page {
            assert!(matches!(check(change), Err(AuthorizeFault::Page(_))), "{change:?}");
        }
        let redirected: [(Changes, &str); 10] = [
            (&[("response_type", Some("token"))], "unsupported_response_type"),
            (&[("response_type", None)], "invalid_request"),
            (&[("code_challenge", None)], "invalid_request"),
            (&[("code_challenge", Some("short"))], "invalid_request"),
            (&[("code_challenge_method", None)], "invalid_request"),
            (&[("code_challenge_method", Some("plain"))], "invalid_request"),
            (&[("resource", Some("https://evil.example/mcp"))], "invalid_target"),
            (&[("request_uri", Some("https://evil.example/r"))], "invalid_request"),
            (&[("response_mode", Some("fragment"))], "invalid_request"),
            (&[("+code_challenge", Some(CHALLENGE))], "invalid_request"),
        ];
        for (change, code) in redirected {
            let Err(AuthorizeFault::Redirect { to, .. }) = check(change) else {
                panic!("{change:?} is not redirected")
            };
            assert!(to.starts_with(&format!("https://a.example/cb?error={code}&")), "{to}");
            assert!(to.ends_with("&state=s&iss=https%3A%2F%2Fgate.example"), "{to}");
        }
    }

    #[test]
    fn a_good_request_is_answered_with_state_and_issuer() {
        let Ok(checked) = check(&[("resource", None)]) else { panic!("refused") };
        assert_eq!(checked.resource_path, "/mcp");
        let Ok(issuer) = Issuer::parse("https://gate.example") else { panic!("an origin") };
        assert_eq!(
            checked.code_redirect("x", &issuer),
            "https://a.example/cb?code=x&state=s&iss=https%3A%2F%2Fgate.example"
        );
    }
}

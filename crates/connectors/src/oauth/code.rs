//! Authorization code with PKCE (S256) and state.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::random::{Random, RandomError};
use store::secret::Secret;
use subtle::ConstantTimeEq;
use url::Url;

use super::SignInError;
use super::grant::{Form, Grant};
use super::token_response::Tokens;
use crate::account::{Account, SignIn};
use crate::http::Http;
use crate::http::is_loopback;
use crate::settings::ServiceSettings;

const STATE_BYTES: usize = 24;
const VERIFIER_BYTES: usize = 32;
const CODE_BYTES_MAX: usize = 4096;

/// The redirect URL, exactly as registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    text: String,
    url: Url,
}

impl Redirect {
    pub fn parse(text: &str) -> Result<Redirect, SignInError> {
        let refused = || SignInError::Redirect(text.to_owned());
        let url = Url::parse(text).map_err(|_| refused())?;
        let is_plain =
            url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        let may = match url.scheme() {
            "https" => true,
            "http" => is_loopback(&url),
            // A custom scheme: the browser cannot reach us, but the owner can paste the URL.
            scheme => !["javascript", "data", "file", "blob"].contains(&scheme),
        };
        if is_plain && may { Ok(Redirect { text: text.to_owned(), url }) } else { Err(refused()) }
    }

    /// The same URL with another port.
    pub fn with_port(&self, port: u16) -> Result<Redirect, SignInError> {
        let mut url = self.url.clone();
        url.set_port(Some(port)).map_err(|()| SignInError::Redirect(self.text.clone()))?;
        Redirect::parse(url.as_str())
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The port to listen on; `None` if the redirect does not lead to this machine.
    pub fn port(&self) -> Option<u16> {
        (self.url.scheme() == "http").then(|| self.url.port_or_known_default()).flatten()
    }

    /// Is it the same URL apart from the query?
    pub(super) fn is_at(&self, url: &Url) -> bool {
        let (mut a, mut b) = (self.url.clone(), url.clone());
        for url in [&mut a, &mut b] {
            url.set_query(None);
            url.set_fragment(None);
        }
        a == b
    }
}

/// A sign-in in progress.
pub struct Attempt {
    /// The URL that the owner opens.
    pub url: Url,
    pub redirect: Redirect,
    state: Secret,
    verifier: Secret,
    oauth_origin: url::Origin,
}

impl Attempt {
    pub fn begin(
        account: &Account,
        settings: &ServiceSettings,
        client_id: &str,
        redirect: Redirect,
        random: &Random,
    ) -> Result<Attempt, SignInError> {
        let SignIn::Code { authorize, .. } = &account.sign_in else {
            return Err(SignInError::Redirect(redirect.text));
        };
        let state = random_text(random, STATE_BYTES)?;
        let verifier = random_text(random, VERIFIER_BYTES)?;
        let challenge = oauth::pkce::challenge(verifier.expose());
        let mut url = settings.oauth_base.join(authorize);
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &redirect.text)
            .append_pair("scope", &account.scopes.join(" "))
            .append_pair("state", state.expose())
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", oauth::pkce::METHOD)
            .extend_pairs(account.authorize_extra);
        let oauth_origin = settings.oauth_base.url().origin();
        Ok(Attempt { url, redirect, state, verifier, oauth_origin })
    }

    /// The code in the redirect URL. The URL of another sign-in is `NotOurs`, and the caller may
    /// continue to wait.
    pub fn code_from(&self, back: &Url) -> Result<Secret, SignInError> {
        if !self.redirect.is_at(back) {
            return Err(SignInError::NotOurs);
        }
        let one = |name: &str| {
            let mut values = back.query_pairs().filter(|(key, _)| key == name).map(|(_, v)| v);
            let first = values.next();
            // Two values are ambiguous.
            if values.next().is_some() { None } else { first }
        };
        let state = one("state").ok_or(SignInError::NotOurs)?;
        if !bool::from(state.as_bytes().ct_eq(self.state.expose().as_bytes())) {
            return Err(SignInError::NotOurs);
        }
        if let Some(issuer) = one("iss") {
            let origin = Url::parse(&issuer).map(|url| url.origin());
            if origin.ok().as_ref() != Some(&self.oauth_origin) {
                return Err(SignInError::Issuer);
            }
        }
        if let Some(error) = one("error") {
            let is_word = error.len() <= 64 && error.bytes().all(|b| b.is_ascii_graphic());
            let code = if is_word { error.into_owned() } else { "error".to_owned() };
            return Err(SignInError::Declined { code });
        }
        let code = one("code").filter(|code| !code.is_empty() && code.len() <= CODE_BYTES_MAX);
        Ok(Secret::new(code.ok_or(SignInError::NotOurs)?))
    }

    /// Exchanges the code for tokens.
    pub async fn exchange(
        &self,
        http: &Http,
        grant: &Grant,
        code: &Secret,
    ) -> Result<Tokens, SignInError> {
        let mut form = Form::of("authorization_code");
        form.push("code", code.expose());
        form.push("redirect_uri", &self.redirect.text);
        form.push("code_verifier", self.verifier.expose());
        Ok(grant.tokens(http, form).await?)
    }
}

fn random_text(random: &Random, bytes: usize) -> Result<Secret, RandomError> {
    let mut raw = vec![0; bytes];
    random.fill(&mut raw)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(raw)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::whoop::account::ACCOUNT;

    fn attempt() -> Attempt {
        let settings = ServiceSettings::read(&ACCOUNT, &|_| None).unwrap();
        let redirect = Redirect::parse("http://localhost:8000/callback").unwrap();
        Attempt::begin(&ACCOUNT, &settings, "me", redirect, &Random::seeded(1)).unwrap()
    }

    fn value(url: &Url, name: &str) -> String {
        url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned()
    }

    #[test]
    fn the_authorization_url_is_complete_and_holds_no_secret() {
        let attempt = attempt();
        assert_eq!(attempt.url.origin().ascii_serialization(), "https://api.prod.whoop.com");
        assert_eq!(attempt.url.path(), "/oauth/oauth2/auth");
        assert!(value(&attempt.url, "state").len() >= 16);
        assert!(value(&attempt.url, "scope").split(' ').any(|scope| scope == "offline"));
        assert_eq!(value(&attempt.url, "code_challenge_method"), "S256");
        assert_eq!(value(&attempt.url, "code_challenge").len(), 43);
        assert!(!attempt.url.as_str().contains(attempt.verifier.expose().as_str()));
    }

    #[test]
    fn only_the_matching_redirect_gives_a_code() {
        let attempt = attempt();
        let state = value(&attempt.url, "state");
        let back = |tail: &str| {
            let url = format!("http://localhost:8000{}", tail.replace("STATE", &state));
            attempt.code_from(&Url::parse(&url).unwrap())
        };
        assert_eq!(back("/callback?code=abc&state=STATE").unwrap().expose(), "abc");
        assert_eq!(
            back("/callback?iss=https://api.prod.whoop.com/oauth/&code=abc&state=STATE")
                .unwrap()
                .expose(),
            "abc"
        );
        for tail in [
            "/callback",
            "/callback?code=abc",
            "/callback?code=abc&state=other",
            "/callback?code=abc&state=STATE&state=STATE",
            "/callback?state=STATE",
            "/callback?state=STATE&code=",
            "/callback?state=STATE&code=a&code=b",
            "/callback/?code=abc&state=STATE",
            "/favicon.ico?code=abc&state=STATE",
            "/Callback?code=abc&state=STATE",
        ] {
            assert!(matches!(back(tail), Err(SignInError::NotOurs)), "{tail}");
        }
        assert!(matches!(
            back("/callback?iss=https://evil.example&code=abc&state=STATE"),
            Err(SignInError::Issuer)
        ));
        let declined = back("/callback?error=access_denied&state=STATE").unwrap_err();
        assert!(matches!(&declined, SignInError::Declined { code } if code == "access_denied"));
        assert!(matches!(back("/callback?error=x"), Err(SignInError::NotOurs)));
    }

    #[test]
    fn redirects_are_https_or_loopback() {
        for (text, port) in [
            ("http://localhost:8000/callback", Some(Some(8000))),
            ("http://127.0.0.1:8888/callback", Some(Some(8888))),
            ("http://[::1]:1/", Some(Some(1))),
            ("https://me.example/back", Some(None)),
            ("whoop://back", Some(None)),
            ("http://me.example/back", None),
            ("javascript:alert(1)", None),
            ("nothing", None),
        ] {
            assert_eq!(Redirect::parse(text).ok().map(|r| r.port()), port, "{text}");
        }
        let moved =
            Redirect::parse("http://localhost:8000/callback").unwrap().with_port(9).unwrap();
        assert_eq!(moved.as_str(), "http://localhost:9/callback");
    }
}

//! The token endpoint: exchanges codes and refresh tokens for access tokens.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::token_store::{Token, TokenStore};
use super::{ClientAuth, Offline, Provider, Rotation, Rules, TokenKind, refusal};
use crate::http::{Request, Response, first};

/// A caller with a valid access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) scopes: Vec<String>,
    sign_in: u64,
}

type Form = [(String, String)];

impl Provider {
    pub(crate) fn token(&self, request: &Request, now_us: i64) -> Response {
        let form = request.form();
        let result = match first(&form, "grant_type") {
            Some("authorization_code") => self.exchange(request, &form, now_us),
            Some("refresh_token") => self.refresh(request, &form, now_us),
            Some("urn:ietf:params:oauth:grant-type:device_code") => {
                self.device_token(request, &form, now_us)
            }
            _ => Err(refusal(400, "unsupported_grant_type", "unsupported grant type")),
        };
        result.unwrap_or_else(|refused| {
            let status = self.lock().0.refusal_status;
            if refused.status == 400 { Response { status, ..refused } } else { refused }
        })
    }

    fn exchange(&self, request: &Request, form: &Form, now_us: i64) -> Result<Response, Response> {
        let mut inner = self.lock();
        let (rules, store) = &mut *inner;
        let name = first(form, "code").unwrap_or_default();
        let challenged = store.codes.get(name).is_some_and(|code| code.challenge.is_some());
        let public = self.check_client(rules, request, form, challenged)?;
        let invalid = |message: &str| refusal(400, "invalid_grant", message);
        // Even a failed attempt uses up the code.
        let code = store.codes.remove(name).ok_or_else(|| invalid("unknown or used code"))?;
        if code.good_until_us <= now_us {
            return Err(invalid("the code has expired"));
        }
        if first(form, "redirect_uri") != Some(code.redirect.as_str()) {
            return Err(invalid(
                "the redirect URI differs from the one in the authorisation request",
            ));
        }
        if let Some(challenge) = &code.challenge {
            let verifier = first(form, "code_verifier").unwrap_or_default();
            if URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())) != *challenge {
                return Err(invalid("the PKCE verifier does not match its challenge"));
            }
        }
        let sign_in = store.next_sign_in();
        let token =
            Token { sign_in, scopes: code.scopes, good_until_us: 0, agreed_us: now_us, public };
        Ok(issue(rules, store, &token, now_us, code.offline))
    }

    fn refresh(&self, request: &Request, form: &Form, now_us: i64) -> Result<Response, Response> {
        let mut inner = self.lock();
        let (rules, store) = &mut *inner;
        let name = first(form, "refresh_token").unwrap_or_default();
        let old = store.refresh.get(name).cloned();
        // An unknown token may have belonged to a sign-in without a secret.
        let public = old.as_ref().is_none_or(|token| token.public);
        self.check_client(rules, request, form, public)?;
        let invalid =
            || refusal(400, rules.reused.code(), "the refresh token is invalid, used or unknown");
        let old = old.ok_or_else(invalid)?;
        if ends_us(rules, &old).is_some_and(|end_us| end_us <= now_us) {
            return Err(refusal(400, "invalid_grant", "the refresh token has expired"));
        }
        let rotation = if old.public { rules.rotation_public } else { rules.rotation };
        if rotation == Rotation::Strict {
            store.forget(old.sign_in);
        }
        let with_refresh = rotation != Rotation::Kept;
        Ok(issue(rules, store, &old, now_us, with_refresh))
    }

    /// Checks that the client is the registered one. Returns whether it came without its secret,
    /// which is allowed where a PKCE challenge replaces the secret.
    pub(super) fn check_client(
        &self,
        rules: &Rules,
        request: &Request,
        form: &Form,
        challenged: bool,
    ) -> Result<bool, Response> {
        let in_body = first(form, "client_id").zip(first(form, "client_secret"));
        let in_header = request.credentials("Basic").and_then(basic);
        let credentials = match rules.client_auth {
            ClientAuth::Body => in_body.map(|(id, secret)| (id.to_owned(), secret.to_owned())),
            ClientAuth::Basic => in_header,
            ClientAuth::Either => {
                in_header.or_else(|| in_body.map(|(id, secret)| (id.to_owned(), secret.to_owned())))
            }
        };
        let known = credentials
            .as_ref()
            .is_some_and(|(id, secret)| *id == self.client.id && *secret == self.client.secret);
        let secretless = challenged
            && rules.pkce_replaces_secret
            && credentials.is_none()
            && first(form, "client_id") == Some(self.client.id.as_str());
        if (known || secretless) && rules.client_known {
            return Ok(secretless);
        }
        Err(refusal(rules.client_status, "invalid_client", "client authentication failed"))
    }

    /// Checks that the request comes from the registered client.
    pub(crate) fn knows_client(&self, request: &Request) -> Result<(), Response> {
        let inner = self.lock();
        self.check_client(&inner.0, request, &request.form(), false).map(|_| ())
    }

    /// Signs the owner in without pages and codes.
    pub(crate) fn grant(&self, scopes: Vec<String>, now_us: i64) -> Value {
        let mut inner = self.lock();
        let (rules, store) = &mut *inner;
        let sign_in = store.next_sign_in();
        let token = Token { sign_in, scopes, good_until_us: 0, agreed_us: now_us, public: false };
        response(rules, store, &token, now_us, true)
    }

    /// The caller, if the access token of the request is valid.
    pub(crate) fn authenticate(&self, request: &Request, now_us: i64) -> Option<Bearer> {
        let inner = self.lock();
        let token = inner.1.access.get(request.credentials("Bearer")?)?;
        let valid = token.good_until_us > now_us;
        valid.then(|| Bearer { scopes: token.scopes.clone(), sign_in: token.sign_in })
    }

    /// Revokes all tokens of a sign-in.
    pub(crate) fn revoke(&self, bearer: &Bearer) {
        self.lock().1.forget(bearer.sign_in);
    }

    /// Revokes the sign-in of a token of either kind; false if the token is unknown.
    pub(crate) fn revoke_token(&self, token: &str) -> bool {
        let store = &mut self.lock().1;
        let sign_in = store.access.get(token).or_else(|| store.refresh.get(token));
        let sign_in = sign_in.map(|token| token.sign_in);
        if let Some(sign_in) = sign_in {
            store.forget(sign_in);
        }
        sign_in.is_some()
    }

    pub(crate) fn expire(&self, kind: TokenKind) {
        let store = &mut self.lock().1;
        if kind != TokenKind::Refresh {
            store.access.clear();
        }
        if kind != TokenKind::Access {
            store.refresh.clear();
        }
    }
}

pub(super) fn issue(
    rules: &Rules,
    store: &mut TokenStore,
    token: &Token,
    now_us: i64,
    with_refresh: bool,
) -> Response {
    let body = response(rules, store, token, now_us, with_refresh);
    Response::json(200, &body).with("cache-control", "no-store".to_owned())
}

/// Stores new tokens and returns the token response.
fn response(
    rules: &Rules,
    store: &mut TokenStore,
    token: &Token,
    now_us: i64,
    with_refresh: bool,
) -> Value {
    let life_us = rules.expires_in_s.saturating_mul(1_000_000);
    let access = store.secret("access");
    let valid = Token { good_until_us: now_us.saturating_add(life_us), ..token.clone() };
    store.access.insert(access.clone(), valid);
    let mut body = json!({
        "access_token": access,
        "expires_in": rules.expires_in_s,
        "scope": token.scopes.join(" "),
        "token_type": rules.token_type,
    });
    let offline = match rules.offline {
        Offline::Scope(needed) => token.scopes.iter().any(|scope| scope == needed),
        Offline::Always | Offline::Field(..) => true,
    };
    if let Some(body) = body.as_object_mut().filter(|_| offline && with_refresh) {
        let refresh = store.secret("refresh");
        store.refresh.insert(refresh.clone(), token.clone());
        body.insert("refresh_token".to_owned(), Value::String(refresh));
    }
    if let Some(end_us) = ends_us(rules, token).filter(|_| rules.refresh_life_told) {
        let left_s = end_us.saturating_sub(now_us) / 1_000_000;
        body.as_object_mut()
            .map(|body| body.insert("refresh_token_expires_in".to_owned(), json!(left_s)));
    }
    body
}

/// When the consent of a token expires, for a provider where it does.
fn ends_us(rules: &Rules, token: &Token) -> Option<i64> {
    let life_us = rules.refresh_life_s?.saturating_mul(1_000_000);
    Some(token.agreed_us.saturating_add(life_us))
}

fn basic(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    text.split_once(':').map(|(id, secret)| (id.to_owned(), secret.to_owned()))
}

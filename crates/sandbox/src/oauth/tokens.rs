//! The token endpoint: codes and refresh tokens turn into access tokens, and old ones turn void.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::books::{Books, Token};
use super::{ClientAuth, Offline, Provider, Rotation, Rules, Which, refusal};
use crate::http::{Asked, Reply, first};

/// Whoever showed a good access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) scopes: Vec<String>,
    sign_in: u64,
}

type Form = [(String, String)];

impl Provider {
    pub(crate) fn token(&self, asked: &Asked, now_us: i64) -> Reply {
        let form = asked.form();
        let answer = match first(&form, "grant_type") {
            Some("authorization_code") => self.exchange(asked, &form, now_us),
            Some("refresh_token") => self.refresh(asked, &form, now_us),
            Some("urn:ietf:params:oauth:grant-type:device_code") => {
                self.device_token(asked, &form, now_us)
            }
            _ => Err(refusal(400, "unsupported_grant_type", "this grant type is not known")),
        };
        answer.unwrap_or_else(|refused| {
            let status = self.lock().0.refusal_status;
            if refused.status == 400 { Reply { status, ..refused } } else { refused }
        })
    }

    fn exchange(&self, asked: &Asked, form: &Form, now_us: i64) -> Result<Reply, Reply> {
        let mut inner = self.lock();
        let (rules, books) = &mut *inner;
        let name = first(form, "code").unwrap_or_default();
        let challenged = books.codes.get(name).is_some_and(|code| code.challenge.is_some());
        let public = self.check_client(rules, asked, form, challenged)?;
        let void = |words: &str| refusal(400, "invalid_grant", words);
        // Even a wrong attempt uses a code up.
        let code = books.codes.remove(name).ok_or_else(|| void("unknown or used code"))?;
        if code.good_until_us <= now_us {
            return Err(void("the code has expired"));
        }
        if first(form, "redirect_uri") != Some(code.redirect.as_str()) {
            return Err(void("the redirect address is not the one the code was asked for with"));
        }
        if let Some(challenge) = &code.challenge {
            let verifier = first(form, "code_verifier").unwrap_or_default();
            if URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())) != *challenge {
                return Err(void("the PKCE verifier does not match its challenge"));
            }
        }
        let sign_in = books.next_sign_in();
        let token =
            Token { sign_in, scopes: code.scopes, good_until_us: 0, agreed_us: now_us, public };
        Ok(issue(rules, books, &token, now_us, code.offline))
    }

    fn refresh(&self, asked: &Asked, form: &Form, now_us: i64) -> Result<Reply, Reply> {
        let mut inner = self.lock();
        let (rules, books) = &mut *inner;
        let name = first(form, "refresh_token").unwrap_or_default();
        let old = books.refresh.get(name).cloned();
        // A token that is gone may have been one of a sign-in without a secret.
        let public = old.as_ref().is_none_or(|token| token.public);
        self.check_client(rules, asked, form, public)?;
        let void =
            || refusal(400, rules.reused.code(), "the refresh token is void, used or unknown");
        let old = old.ok_or_else(void)?;
        if ends_us(rules, &old).is_some_and(|end_us| end_us <= now_us) {
            return Err(refusal(400, "invalid_grant", "the refresh token has expired"));
        }
        let rotation = if old.public { rules.rotation_public } else { rules.rotation };
        if rotation == Rotation::Strict {
            books.forget(old.sign_in);
        }
        let with_refresh = rotation != Rotation::Kept;
        Ok(issue(rules, books, &old, now_us, with_refresh))
    }

    /// Is it the client that is registered? Says whether it came without its secret, which it may
    /// where a challenge stands in for it.
    pub(super) fn check_client(
        &self,
        rules: &Rules,
        asked: &Asked,
        form: &Form,
        challenged: bool,
    ) -> Result<bool, Reply> {
        let in_body = first(form, "client_id").zip(first(form, "client_secret"));
        let in_header = asked.credentials("Basic").and_then(basic);
        let said = match rules.client_auth {
            ClientAuth::Body => in_body.map(|(id, secret)| (id.to_owned(), secret.to_owned())),
            ClientAuth::Basic => in_header,
            ClientAuth::Either => {
                in_header.or_else(|| in_body.map(|(id, secret)| (id.to_owned(), secret.to_owned())))
            }
        };
        let known = said
            .as_ref()
            .is_some_and(|(id, secret)| *id == self.client.id && *secret == self.client.secret);
        let needless = challenged
            && rules.pkce_replaces_secret
            && said.is_none()
            && first(form, "client_id") == Some(self.client.id.as_str());
        if (known || needless) && rules.client_known {
            return Ok(needless);
        }
        Err(refusal(rules.client_status, "invalid_client", "client authentication failed"))
    }

    /// Does the request come from the client that is registered?
    pub(crate) fn knows_client(&self, asked: &Asked) -> Result<(), Reply> {
        let inner = self.lock();
        self.check_client(&inner.0, asked, &asked.form(), false).map(|_| ())
    }

    /// A sign-in that happened, without pages and codes.
    pub(crate) fn grant(&self, scopes: Vec<String>, now_us: i64) -> Value {
        let mut inner = self.lock();
        let (rules, books) = &mut *inner;
        let sign_in = books.next_sign_in();
        let token = Token { sign_in, scopes, good_until_us: 0, agreed_us: now_us, public: false };
        response(rules, books, &token, now_us, true)
    }

    /// Who holds the token of this request?
    pub(crate) fn holder(&self, asked: &Asked, now_us: i64) -> Option<Holder> {
        let inner = self.lock();
        let token = inner.1.access.get(asked.credentials("Bearer")?)?;
        let good = token.good_until_us > now_us;
        good.then(|| Holder { scopes: token.scopes.clone(), sign_in: token.sign_in })
    }

    /// Ends a sign-in with all its tokens.
    pub(crate) fn revoke(&self, holder: &Holder) {
        self.lock().1.forget(holder.sign_in);
    }

    /// Ends the sign-in that a token of either kind belongs to; was there one?
    pub(crate) fn revoke_token(&self, token: &str) -> bool {
        let books = &mut self.lock().1;
        let sign_in = books.access.get(token).or_else(|| books.refresh.get(token));
        let sign_in = sign_in.map(|token| token.sign_in);
        if let Some(sign_in) = sign_in {
            books.forget(sign_in);
        }
        sign_in.is_some()
    }

    pub(crate) fn expire(&self, which: Which) {
        let books = &mut self.lock().1;
        if which != Which::Refresh {
            books.access.clear();
        }
        if which != Which::Access {
            books.refresh.clear();
        }
    }
}

pub(super) fn issue(
    rules: &Rules,
    books: &mut Books,
    token: &Token,
    now_us: i64,
    with_refresh: bool,
) -> Reply {
    let body = response(rules, books, token, now_us, with_refresh);
    Reply::json(200, &body).with("cache-control", "no-store".to_owned())
}

/// Writes new tokens into the books and says them.
fn response(
    rules: &Rules,
    books: &mut Books,
    token: &Token,
    now_us: i64,
    with_refresh: bool,
) -> Value {
    let life_us = rules.expires_in_s.saturating_mul(1_000_000);
    let access = books.secret("access");
    let good = Token { good_until_us: now_us.saturating_add(life_us), ..token.clone() };
    books.access.insert(access.clone(), good);
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
        let refresh = books.secret("refresh");
        books.refresh.insert(refresh.clone(), token.clone());
        body.insert("refresh_token".to_owned(), Value::String(refresh));
    }
    if let Some(end_us) = ends_us(rules, token).filter(|_| rules.refresh_life_told) {
        let left_s = end_us.saturating_sub(now_us) / 1_000_000;
        body.as_object_mut()
            .map(|body| body.insert("refresh_token_expires_in".to_owned(), json!(left_s)));
    }
    body
}

/// When the consent behind a token ends, where consents end.
fn ends_us(rules: &Rules, token: &Token) -> Option<i64> {
    let life_us = rules.refresh_life_s?.saturating_mul(1_000_000);
    Some(token.agreed_us.saturating_add(life_us))
}

fn basic(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    text.split_once(':').map(|(id, secret)| (id.to_owned(), secret.to_owned()))
}

//! The older tools about the login. They were made to pass tokens through the conversation; here the
//! vault keeps them, and an answer says only what was granted and until when.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use serde_json::{Map, Value, json};
use store::accounts::Account;

use super::{failed, misread_answer};
use crate::account::{Revoke, SignIn, WHOOP};
use crate::coerce::Arguments;
use crate::http::Request;
use crate::member;
use crate::oauth::answer::Tokens;
use crate::oauth::grant::{Form, Grant};
use crate::tokens::{self, TokenError};
use crate::whoop::{NAME, SERVICE};
use crate::{Answer, Ask, Desk, ServiceSettings, when};

const STATE_BYTES: usize = 16;
const SET: &str = "Access token set successfully";

pub(in crate::whoop) async fn authorization_url(ask: Ask<'_>) -> Answer {
    let Some((settings, client_id)) = client(ask.desk) else { return no_client() };
    let SignIn::Code { authorize, redirect, .. } = &WHOOP.sign_in else { return no_client() };
    let mut state = [0; STATE_BYTES];
    if let Err(error) = ask.desk.random.fill(&mut state) {
        return failed("AUTH_FAILED", &error.to_string());
    }
    let mut url = settings.oauth_base.join(authorize);
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client_id)
        .append_pair("redirect_uri", settings.redirect_uri.as_deref().unwrap_or(redirect))
        .append_pair("scope", &WHOOP.scopes.join(" "))
        .append_pair("state", &URL_SAFE_NO_PAD.encode(state));
    Answer::Said {
        text: format!("Authorization URL: {url}"),
        value: json!({"status": "success", "url": url.as_str()}),
    }
}

/// Exchanges a code of that address and seals what comes.
pub(in crate::whoop) async fn exchange(ask: Ask<'_>) -> Answer {
    let code = match Arguments(ask.arguments).required_text("code") {
        Ok(code) => code.to_owned(),
        Err(misread) => return misread_answer(misread),
    };
    let desk = ask.desk;
    let Some((settings, client_id)) = client(desk) else { return no_client() };
    let SignIn::Code { redirect, .. } = &WHOOP.sign_in else { return no_client() };
    let mut account = Account::new(NAME, desk.clock.now().wall_us);
    if let Some(known) = known_account(desk) {
        account.extra = known.extra;
        let is_same = known.client_id.is_none() || known.client_id.as_ref() == Some(&client_id);
        account.client_secret = known.client_secret.filter(|_| is_same);
    }
    account.client_id = Some(client_id);
    account.client_secret = settings.client_secret.clone().or(account.client_secret);
    let grant = match Grant::new(&WHOOP, settings, &account) {
        Ok(grant) => grant,
        Err(refusal) => return failed("AUTH_FAILED", &refusal.to_string()),
    };
    let mut form = Form::of("authorization_code");
    form.push("code", &code);
    form.push("redirect_uri", settings.redirect_uri.as_deref().unwrap_or(redirect));
    match grant.tokens(&desk.http, form).await {
        Ok(tokens) => {
            // A service that grants just what was asked for need not say so.
            account.scopes = WHOOP.scopes.iter().map(|&scope| scope.to_owned()).collect();
            tokens.apply(&mut account, desk.clock.now().wall_us);
            take(desk, settings, &account, "the login is sealed in the vault").await
        }
        Err(refusal) => failed("AUTH_FAILED", &format!("WHOOP gave no tokens: {refusal}")),
    }
}

/// Seals a login that works and is of the person whose records are here; any other is dropped.
async fn take(desk: &Desk, settings: &ServiceSettings, account: &Account, words: &str) -> Answer {
    let Some(token) = &account.access else { return no_client() };
    let probe = Request::get(&settings.api_base, WHOOP.probe.path)
        .header("user-agent", WHOOP.user_agent)
        .bearer(token);
    match desk.http.send(probe).await {
        Ok(reply) if reply.status == 401 => {
            return failed("AUTH_FAILED", "WHOOP does not accept the token; nothing was changed");
        }
        Ok(reply) if reply.is_success() => {
            if let Err(other) = member::compare(desk, &SERVICE, &reply.body) {
                let words = other.to_string().replace("\nhint: ", "; ");
                return failed("AUTH_FAILED", &words);
            }
        }
        // Whose it is, is asked again before anything is fetched with it.
        _ => {}
    }
    match desk.accounts.lock(NAME).and_then(|locked| locked.save(account)) {
        Ok(()) => granted(desk, words),
        Err(error) => failed("AUTH_FAILED", &error.to_string()),
    }
}

/// Refreshes the vault's login. A token that the model passes is never used.
pub(in crate::whoop) async fn refresh(ask: Ask<'_>) -> Answer {
    match tokens::refresh_now(ask.desk, &SERVICE).await {
        Ok(()) => {
            let passed = ask.arguments.get("refreshToken").is_some_and(|value| !value.is_null());
            let words = if passed {
                "the stored login was refreshed; the token that was passed was not used"
            } else {
                "the stored login was refreshed"
            };
            granted(ask.desk, words)
        }
        Err(error) => token_answer(&error),
    }
}

/// Nobody gets here unless the owner's policy allows what the built-in one refuses. The refresh token
/// there is stays: it belongs to the same person, or the token is not taken.
pub(in crate::whoop) async fn set_access_token(ask: Ask<'_>) -> Answer {
    let token = match Arguments(ask.arguments).required_text("accessToken") {
        Ok(token) => token,
        Err(misread) => return misread_answer(misread),
    };
    let desk = ask.desk;
    let Some(settings) = desk.settings.of(&SERVICE) else { return no_client() };
    let given = Map::from_iter([("access_token".to_owned(), token.into())]);
    let Ok(tokens) = Tokens::read(&given) else {
        return failed("AUTH_FAILED", "that cannot be an access token");
    };
    let now_us = desk.clock.now().wall_us;
    let mut account = known_account(desk).unwrap_or_else(|| Account::new(NAME, now_us));
    account.created_us = now_us;
    tokens.apply(&mut account, now_us);
    match take(desk, settings, &account, SET).await {
        Answer::Found(value) => Answer::Said { text: SET.to_owned(), value },
        refused => refused,
    }
}

/// Takes the consent back at WHOOP, then forgets the login here.
pub(in crate::whoop) async fn revoke(ask: Ask<'_>) -> Answer {
    let desk = ask.desk;
    let (Some(settings), Some(Revoke::Api { method, path })) =
        (desk.settings.of(&SERVICE), &WHOOP.revoke)
    else {
        return no_client();
    };
    let token = match tokens::access(desk, &SERVICE).await {
        Ok(token) => token,
        Err(error) => return token_answer(&error),
    };
    let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::DELETE);
    let request = Request::new(method, &settings.api_base, path)
        .header("user-agent", WHOOP.user_agent)
        .bearer(&token);
    match desk.http.send(request).await {
        Ok(reply) if reply.is_success() => {}
        Ok(reply) => return failed("UPSTREAM_ERROR", &format!("WHOOP answered {}", reply.status)),
        Err(error) => return failed("UPSTREAM_ERROR", &error.to_string()),
    }
    match desk.accounts.lock(NAME).and_then(|locked| locked.wipe()) {
        Ok(_) => Answer::Said {
            text: "User access revoked successfully".to_owned(),
            value: json!({"status": "success", "message": "User access revoked successfully"}),
        },
        Err(error) => failed("AUTH_FAILED", &error.to_string()),
    }
}

/// What was granted and until when; never a token.
fn granted(desk: &Desk, words: &str) -> Answer {
    let facts = desk.accounts.facts(NAME).ok().flatten();
    let scopes: Value = facts.as_ref().map_or_else(|| json!([]), |facts| json!(facts.scopes));
    let expires_us = facts.as_ref().and_then(|facts| facts.expires_us);
    Answer::Found(json!({
        "status": "success",
        "message": words,
        "scopes": scopes,
        "expires_at": expires_us.map(when::utc_micros),
    }))
}

fn known_account(desk: &Desk) -> Option<Account> {
    desk.accounts.load(NAME).ok().flatten()
}

/// The settings and the app's id, the account's own before the environment's.
fn client(desk: &Desk) -> Option<(&ServiceSettings, String)> {
    let settings = desk.settings.of(&SERVICE)?;
    let known = known_account(desk).and_then(|account| account.client_id);
    Some((settings, settings.client_id.clone().or(known)?))
}

fn no_client() -> Answer {
    failed(
        "AUTH_FAILED",
        "no WHOOP app is known; set `WHOOP_CLIENT_ID` or run `tollgate connect whoop`",
    )
}

fn token_answer(error: &TokenError) -> Answer {
    failed("AUTH_FAILED", &error.to_string().replace("\nhint: ", "; "))
}

//! Signing in from a conversation. What must stay secret stays here: the agent carries an address to
//! open, a code to type, or a code that is worth nothing without the proof kept at the desk.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use store::accounts::{self, State};
use store::secret::Secret;
use url::Url;

use super::ask::from_fetch;
use super::problem::{Code, Problem};
use super::{Given, Outcome};
use crate::account::{self, SignIn};
use crate::fetch::FetchError;
use crate::oauth::SignInError;
use crate::oauth::code::{Attempt, Redirect};
use crate::oauth::device::DeviceCode;
use crate::oauth::grant::Grant;
use crate::tokens;
use crate::when::utc_millis;
use crate::{Ask, Desk, Service, ServiceSettings};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
const SOON_S: i64 = 5 * 60;
/// How long one call waits for the owner to type a code; it can be called again.
const WAIT_MAX: Duration = Duration::from_secs(40);

/// Sign-ins that were begun and wait for their second half.
#[derive(Default)]
pub struct SignIns(Mutex<HashMap<&'static str, Begun>>);

struct Begun {
    way: Way,
    account: accounts::Account,
    settings: ServiceSettings,
}

enum Way {
    Code(Attempt),
    Device(DeviceCode),
}

impl SignIns {
    fn put(&self, service: &Service, begun: Begun) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(service.name, begun);
    }

    fn take(&self, service: &Service) -> Option<Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(service.name)
    }
}

/// The first half of a sign-in: an address to open, or a code to type.
pub(crate) async fn setup(ask: Ask<'_>, service: &'static Service, next: &str) -> Outcome {
    let given = Given::new(service.name, ask.arguments);
    let (account, settings) = known(ask.desk, service)?;
    let mut settings = settings.clone();
    let before = ask.desk.accounts.load(service.name).ok().flatten();
    let mut fresh = accounts::Account::new(service.name, ask.desk.clock.now().wall_us);
    // The id of an application is no secret; its secret comes from the settings or the vault only.
    // Agents send an id along because older servers wanted one. The owner's application is the one
    // whose secret is known here, so it is used whatever they send.
    let said = given.text("client_id")?.map(str::to_owned);
    let configured = settings.client_id.clone();
    fresh.client_id = configured.or_else(|| before.as_ref()?.client_id.clone()).or(said);
    if let Some(before) = before {
        if fresh.client_id == before.client_id {
            fresh.client_secret = before.client_secret;
        }
        fresh.extra = before.extra;
    }
    let Some(client_id) = fresh.client_id.clone() else { return Err(no_client(service, account)) };
    if settings.client_id.as_ref() == Some(&client_id) {
        fresh.client_secret = settings.client_secret.clone().or(fresh.client_secret);
    }
    settings.client_id = Some(client_id.clone());
    settings.client_secret.clone_from(&fresh.client_secret);
    let refused = |error: SignInError| sign_in_problem(service, &error);
    let grant = Grant::new(account, &settings, &fresh).map_err(|_| no_client(service, account))?;
    let (way, told) = match &account.sign_in {
        SignIn::Code { redirect, .. } => {
            let said = given.text("redirect_uri")?;
            let redirect = said.or(settings.redirect_uri.as_deref()).unwrap_or(redirect);
            let redirect = Redirect::parse(redirect).map_err(refused)?;
            let attempt =
                Attempt::begin(account, &settings, &client_id, redirect, &ask.desk.random)
                    .map_err(refused)?;
            let told = json!({
                "status": "success",
                "message": format!("open the address in a browser and allow access to {}", service.title),
                "authorization_url": attempt.url.as_str(),
                "redirect_uri": attempt.redirect.as_str(),
                "next_step": format!("call {next} with the whole address the browser ends at; `tollgate connect {}` in a terminal does both by itself", service.name),
            });
            (Way::Code(attempt), told)
        }
        SignIn::Device { .. } => {
            let code = DeviceCode::begin(&ask.desk.http, &grant, account).await.map_err(refused)?;
            let told = json!({
                "success": true,
                "status": "waiting_for_authorization",
                "message": format!("open {} and type {}", code.url, code.user_code),
                "verification_url": code.url.as_str(),
                "user_code": code.user_code,
                "expires_in": code.expires().as_secs(),
                "next_tool": next,
            });
            (Way::Device(code), told)
        }
        SignIn::Values(_) => return Err(no_client(service, account)),
    };
    ask.desk.sign_ins.put(service, Begun { way, account: fresh, settings });
    Ok(told)
}

/// The second half: the code the browser came back with, or the wait for the one to be typed.
pub(crate) async fn complete(ask: Ask<'_>, service: &'static Service, first: &str) -> Outcome {
    let given = Given::new(service.name, ask.arguments);
    let (account, _) = known(ask.desk, service)?;
    let Some(mut begun) = ask.desk.sign_ins.take(service) else {
        return Err(Problem::invalid(
            service.name,
            "no sign-in is under way here",
            format!("call {first} first, or run `tollgate connect {}` in a terminal", service.name),
        ));
    };
    let grant = Grant::new(account, &begun.settings, &begun.account)
        .map_err(|_| no_client(service, account))?;
    let tokens = match &mut begun.way {
        Way::Code(attempt) => {
            let code = match code(attempt, &given) {
                Ok(code) => code,
                Err(problem) => {
                    ask.desk.sign_ins.put(service, begun);
                    return Err(problem);
                }
            };
            attempt.exchange(&ask.desk.http, &grant, &code).await.map(Some)
        }
        Way::Device(code) => code.tokens_within(WAIT_MAX, &ask.desk.http, &grant).await,
    };
    let Some(tokens) = tokens.map_err(|error| sign_in_problem(service, &error))? else {
        ask.desk.sign_ins.put(service, begun);
        return Ok(json!({
            "success": false,
            "status": "waiting_for_authorization",
            "tokens_saved": false,
            "message": "the code was not typed yet; call this tool again when it was",
        }));
    };
    let mut kept = begun.account;
    kept.scopes = account.scopes.iter().map(|&scope| scope.to_owned()).collect();
    tokens.apply(&mut kept, ask.desk.clock.now().wall_us);
    save(ask.desk, service, &kept)?;
    let mut told = Map::new();
    told.insert("success".to_owned(), json!(true));
    told.insert("status".to_owned(), json!("success"));
    told.insert("tokens_saved".to_owned(), json!(true));
    told.insert("message".to_owned(), json!(format!("{} is connected", service.title)));
    told.insert("expires_at".to_owned(), json!(kept.expires_us.map(utc_millis)));
    told.insert("scopes".to_owned(), json!(kept.scopes));
    Ok(Value::Object(told))
}

/// The code as agents bring it: alone, or in the whole address.
fn code(attempt: &Attempt, given: &Given<'_>) -> Result<Secret, Problem> {
    const NAME: &str = "authorization_code";
    let said = given.needed(NAME)?;
    match Url::parse(said) {
        Ok(back) if back.has_host() => attempt
            .code_from(&back)
            .map_err(|_| given.wrong(NAME, "the address this sign-in ended at, with its code")),
        _ if said.len() <= 4096 && said.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Secret::new(said))
        }
        _ => Err(given.wrong(NAME, "the code or the whole address the browser ended at")),
    }
}

fn save(
    desk: &Desk,
    service: &'static Service,
    account: &accounts::Account,
) -> Result<(), Problem> {
    let saved = desk.accounts.lock(service.name).and_then(|locked| locked.save(account));
    saved.map_err(|error| from_fetch(service, &FetchError::SignIn(error.into())))
}

/// Refreshes now.
pub(crate) async fn refresh(ask: Ask<'_>, service: &'static Service) -> Outcome {
    let refreshed = tokens::refresh_now(ask.desk, service).await;
    refreshed.map_err(|error| from_fetch(service, &error.into()))?;
    Ok(told(ask.desk, service, "the login was refreshed", true))
}

/// Refreshes when the token is about to end.
pub(crate) async fn refresh_if_due(ask: Ask<'_>, service: &'static Service) -> Outcome {
    let before = ask.desk.accounts.stamp(service.name);
    let token = tokens::access(ask.desk, service).await;
    token.map_err(|error| from_fetch(service, &error.into()))?;
    let is_new = before != ask.desk.accounts.stamp(service.name);
    let words = if is_new { "the login was refreshed" } else { "no refresh is needed yet" };
    Ok(told(ask.desk, service, words, is_new))
}

fn told(desk: &Desk, service: &Service, words: &str, is_new: bool) -> Value {
    let facts = desk.accounts.facts(service.name).ok().flatten();
    let expires_us = facts.and_then(|facts| facts.expires_us);
    json!({
        "success": true,
        "status": "success",
        "action": if is_new { "refreshed" } else { "no_refresh_needed" },
        "message": words,
        "token_refreshed": is_new,
        "expires_in_seconds": expires_us.map(|at| left_s(desk, at)),
        "expires_at": expires_us.map(utc_millis),
    })
}

/// How the login stands; nothing is asked of the service.
pub(crate) fn standing(desk: &Desk, service: &Service) -> Value {
    let facts = desk.accounts.facts(service.name).ok().flatten();
    let Some(facts) = facts.filter(|facts| facts.has("access") || facts.has("refresh")) else {
        if let Some(variable) = lent(desk, service) {
            return json!({
                "status": "success",
                "message": format!("the token in `{variable}` is used; nothing refreshes it. `tollgate connect {}` signs in", service.name),
                "token_info": {
                    "has_tokens": true,
                    "state": "valid",
                    "has_access_token": true,
                    "has_refresh_token": false,
                    "is_expired": false,
                },
            });
        }
        return json!({
            "status": "success",
            "message": format!("not connected; run `tollgate connect {}` in a terminal", service.name),
            "token_info": { "has_tokens": false, "state": "not_configured" },
        });
    };
    let left = facts.expires_us.map(|at| left_s(desk, at));
    let is_expired = left.is_some_and(|left| left <= 0);
    let state = match (&facts.state, left) {
        (State::Dead { .. }, _) => "ended",
        _ if is_expired => "expired",
        (_, Some(left)) if left <= SOON_S => "expiring_soon",
        _ => "valid",
    };
    let days = service.account.and_then(|account| account.consent_days_max);
    let ends_us = days.map(|days| facts.created_us.saturating_add(i64::from(days) * DAY_US));
    let message = match state {
        "ended" => format!("the login has ended; run `tollgate connect {}`", service.name),
        "expired" => "the access token has run out; it is refreshed with the next call".to_owned(),
        _ => "connected".to_owned(),
    };
    json!({
        "status": "success",
        "message": message,
        "token_info": {
            "has_tokens": true,
            "state": state,
            "has_access_token": facts.has("access"),
            "has_refresh_token": facts.has("refresh"),
            "is_expired": is_expired,
            "expires_in_seconds": left,
            "expires_in_minutes": left.map(|left| left / 60),
            "expires_at": facts.expires_us.map(utc_millis),
            "refreshed_at": facts.refreshed_us.map(utc_millis),
            "scopes": facts.scopes,
            "consent_ends_at": ends_us.map(utc_millis),
            "consent_days_left": ends_us.map(|at| left_s(desk, at).max(0) / 86_400),
        },
    })
}

/// The variable whose token serves while nobody has signed in.
fn lent(desk: &Desk, service: &Service) -> Option<&'static str> {
    desk.settings.of(service)?.access.as_ref()?;
    service.account?.access_token
}

fn left_s(desk: &Desk, at_us: i64) -> i64 {
    at_us.saturating_sub(desk.clock.now().wall_us) / SECOND_US
}

fn known<'a>(
    desk: &'a Desk,
    service: &'static Service,
) -> Result<(&'static account::Account, &'a ServiceSettings), Problem> {
    let account = service.account.zip(desk.settings.of(service));
    account.ok_or_else(|| {
        Problem::new(Code::NotConfigured, service.name, "it has no accounts", "use another service")
    })
}

fn no_client(service: &Service, account: &account::Account) -> Problem {
    Problem::new(
        Code::NotConfigured,
        service.name,
        format!("the application at {} is not known yet", service.title),
        format!(
            "run `tollgate connect {}` in a terminal, which says where to get it, or set `{}` and `{}`",
            service.name, account.client_id, account.client_secret
        ),
    )
}

fn sign_in_problem(service: &Service, error: &SignInError) -> Problem {
    let words = error.to_string();
    let message = words.lines().next().unwrap_or_default().to_owned();
    let hint = format!("begin again, or run `tollgate connect {}` in a terminal", service.name);
    let code = match error {
        SignInError::Redirect(_) | SignInError::NotOurs => Code::InvalidArgument,
        SignInError::Refusal(refusal) if refusal.code().is_none() => Code::UpstreamError,
        _ => Code::of_ended_login(service.name),
    };
    Problem::new(code, service.name, message, hint)
}

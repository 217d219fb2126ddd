//! Sign-in through an agent. Secrets stay in this process: the agent only sees a URL to open, a code
//! to type, or a code that is useless without the PKCE verifier kept in the context.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::accounts;
use store::secret::Secret;
use url::Url;

use super::login_status::left_s;
use super::problem::{Code, Problem};
use super::response::{from_fetch, of_demo, review_required};
use crate::account::{self, SignIn};
use crate::arguments::{BadArgument, IgnoredSecret, Unused};
use crate::fetch::FetchError;
use crate::oauth::SignInError;
use crate::oauth::code::{Attempt, Redirect};
use crate::oauth::device::DeviceCode;
use crate::oauth::grant::Grant;
use crate::tokens;
use crate::tool::{Json, Success};
use crate::when::utc_millis;
use crate::{ConnectorContext, Service, ServiceSettings, ToolCall};

/// How long one call waits for the owner to type a code; it can be called again.
const WAIT_MAX: Duration = Duration::from_secs(40);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeviceSetupArgs {
    /// The OAuth client's id, if tollgate does not know it yet.
    client_id: Option<String>,
    #[serde(default, rename = "client_secret")]
    _client_secret: IgnoredSecret,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DeviceCompleteArgs {
    /// Not needed: it is known from the first step.
    #[serde(default, rename = "client_id")]
    _client_id: Unused,
    #[serde(default, rename = "client_secret")]
    _client_secret: IgnoredSecret,
    #[serde(default, rename = "device_code")]
    _device_code: IgnoredSecret,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct CodeSetup {
    status: &'static str,
    message: String,
    authorization_url: String,
    redirect_uri: String,
    next_step: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct DeviceSetup {
    success: bool,
    status: &'static str,
    message: String,
    verification_url: String,
    user_code: String,
    expires_in: u64,
    next_tool: &'static str,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Completed {
    success: bool,
    status: CompletedStatus,
    tokens_saved: bool,
    message: String,
    #[serde(flatten)]
    login: Option<NewLogin>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CompletedStatus {
    Success,
    WaitingForAuthorization,
}

#[derive(Serialize, JsonSchema)]
struct NewLogin {
    expires_at: Option<String>,
    scopes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Refreshed {
    success: bool,
    status: Success,
    action: &'static str,
    message: &'static str,
    token_refreshed: bool,
    expires_in_seconds: Option<i64>,
    expires_at: Option<String>,
}

/// Sign-ins that wait for their second step.
#[derive(Default)]
pub struct SignIns(Mutex<HashMap<&'static str, Begun>>);

struct Begun {
    started: PendingStep,
    account: accounts::Account,
    settings: ServiceSettings,
}

enum PendingStep {
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

/// The first step of a sign-in: a URL to open.
pub(crate) async fn setup_by_code(
    call: ToolCall<'_>,
    service: &'static Service,
    next: &'static str,
    client_id: Option<String>,
    redirect_uri: Option<&str>,
) -> Result<Json<CodeSetup>, Problem> {
    let prepared = prepare(call.ctx, service, client_id)?;
    let SignIn::Code { redirect, .. } = &prepared.account.sign_in else {
        return Err(no_client(service, prepared.account));
    };
    let redirect = redirect_uri.or(prepared.settings.redirect_uri.as_deref()).unwrap_or(redirect);
    let attempt = Redirect::parse(redirect).and_then(|redirect| {
        let Prepared { account, settings, client_id, .. } = &prepared;
        Attempt::begin(account, settings, client_id, redirect, &call.ctx.random)
    });
    let attempt = attempt.map_err(|error| sign_in_problem(service, &error))?;
    let setup = CodeSetup {
        status: "success",
        message: format!("open the address in a browser and allow access to {}", service.title),
        authorization_url: attempt.url.as_str().to_owned(),
        redirect_uri: attempt.redirect.as_str().to_owned(),
        next_step: format!(
            "call {next} with the whole address the browser ends at; `tollgate connect {}` in a terminal does both by itself",
            service.name
        ),
    };
    call.ctx.state::<SignIns>().put(service, prepared.begun(PendingStep::Code(attempt)));
    Ok(Json(setup))
}

/// The first step of a sign-in: a code to type.
pub(crate) async fn setup_by_device(
    call: ToolCall<'_>,
    service: &'static Service,
    next: &'static str,
    args: DeviceSetupArgs,
) -> Result<Json<DeviceSetup>, Problem> {
    let prepared = prepare(call.ctx, service, args.client_id)?;
    let begun = DeviceCode::begin(&call.ctx.http, &prepared.grant, prepared.account).await;
    let code = begun.map_err(|error| sign_in_problem(service, &error))?;
    let setup = DeviceSetup {
        success: true,
        status: "waiting_for_authorization",
        message: format!("open {} and type {}", code.url, code.user_code),
        verification_url: code.url.as_str().to_owned(),
        user_code: code.user_code.clone(),
        expires_in: code.expires().as_secs(),
        next_tool: next,
    };
    call.ctx.state::<SignIns>().put(service, prepared.begun(PendingStep::Device(code)));
    Ok(Json(setup))
}

/// A sign-in whose application is known.
struct Prepared {
    account: &'static account::Account,
    settings: ServiceSettings,
    fresh: accounts::Account,
    client_id: String,
    grant: Grant,
}

impl Prepared {
    fn begun(self, started: PendingStep) -> Begun {
        Begun { started, account: self.fresh, settings: self.settings }
    }
}

fn prepare(
    ctx: &ConnectorContext,
    service: &'static Service,
    given: Option<String>,
) -> Result<Prepared, Problem> {
    let (account, settings) = known(ctx, service)?;
    if let Some(refusal) = ctx.http.refusal_elsewhere(&settings.oauth_base) {
        return Err(of_demo(service, &refusal));
    }
    let mut settings = settings.clone();
    let before = ctx.accounts.load(service.name).ok().flatten();
    let mut fresh = accounts::Account::new(service.name, ctx.clock.now().wall_us);
    // A client id is not a secret; the client secret comes only from the settings or the vault.
    // Agents send an id because older servers required one. Only the owner's application has a
    // known secret, so it is always used.
    let configured = settings.client_id.clone();
    fresh.client_id = configured.or_else(|| before.as_ref()?.client_id.clone()).or(given);
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
    let grant = Grant::new(account, &settings, &fresh).map_err(|_| no_client(service, account))?;
    Ok(Prepared { account, settings, fresh, client_id, grant })
}

/// The second step: the code of the redirect, or the wait for the typed code.
pub(crate) async fn complete(
    call: ToolCall<'_>,
    service: &'static Service,
    first: &str,
    authorization_code: Option<&str>,
) -> Result<Json<Completed>, Problem> {
    let (account, _) = known(call.ctx, service)?;
    let Some(mut begun) = call.ctx.state::<SignIns>().take(service) else {
        return Err(Problem::invalid(
            service.name,
            "no sign-in is in progress",
            format!("call {first} first, or run `tollgate connect {}` in a terminal", service.name),
        ));
    };
    let grant = Grant::new(account, &begun.settings, &begun.account)
        .map_err(|_| no_client(service, account))?;
    let tokens = match &mut begun.started {
        PendingStep::Code(attempt) => {
            let code = match code(attempt, service, authorization_code) {
                Ok(code) => code,
                Err(problem) => {
                    call.ctx.state::<SignIns>().put(service, begun);
                    return Err(problem);
                }
            };
            attempt.exchange(&call.ctx.http, &grant, &code).await.map(Some)
        }
        PendingStep::Device(code) => code.tokens_within(WAIT_MAX, &call.ctx.http, &grant).await,
    };
    let Some(tokens) = tokens.map_err(|error| sign_in_problem(service, &error))? else {
        call.ctx.state::<SignIns>().put(service, begun);
        return Ok(Json(Completed {
            success: false,
            status: CompletedStatus::WaitingForAuthorization,
            tokens_saved: false,
            message: "the code was not typed yet; call this tool again afterwards".to_owned(),
            login: None,
        }));
    };
    let mut kept = begun.account;
    kept.scopes = account.scopes.iter().map(|&scope| scope.to_owned()).collect();
    tokens.apply(&mut kept, call.ctx.clock.now().wall_us);
    save(call.ctx, service, &kept)?;
    Ok(Json(Completed {
        success: true,
        status: CompletedStatus::Success,
        tokens_saved: true,
        message: format!("{} is connected", service.title),
        login: Some(NewLogin { expires_at: kept.expires_us.map(utc_millis), scopes: kept.scopes }),
    }))
}

/// The code alone, or the whole redirect URL.
fn code(attempt: &Attempt, service: &Service, given: Option<&str>) -> Result<Secret, Problem> {
    const NAME: &str = "authorization_code";
    let wrong = |expected: &str| BadArgument::new(NAME, expected).problem(service.name);
    let given = given.ok_or_else(|| BadArgument::missing(NAME).problem(service.name))?;
    match Url::parse(given) {
        Ok(back) if back.has_host() => attempt
            .code_from(&back)
            .map_err(|_| wrong("the address this sign-in ended at, with its code")),
        _ if given.len() <= 4096 && given.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Secret::new(given))
        }
        _ => Err(wrong("the code or the whole address the browser ended at")),
    }
}

fn save(
    ctx: &ConnectorContext,
    service: &'static Service,
    account: &accounts::Account,
) -> Result<(), Problem> {
    let saved = ctx.accounts.lock(service.name).and_then(|locked| locked.save(account));
    saved.map_err(|error| from_fetch(service, &FetchError::SignIn(error.into())))
}

/// Refreshes now.
pub(crate) async fn refresh(
    call: ToolCall<'_>,
    service: &'static Service,
) -> Result<Json<Refreshed>, Problem> {
    let done = tokens::refresh_now(call.ctx, service).await;
    done.map_err(|error| from_fetch(service, &error.into()))?;
    Ok(Json(refreshed(call.ctx, service, true)))
}

/// Refreshes if the token is about to expire.
pub(crate) async fn refresh_if_due(
    call: ToolCall<'_>,
    service: &'static Service,
) -> Result<Json<Refreshed>, Problem> {
    let before = call.ctx.accounts.version(service.name);
    let token = tokens::access(call.ctx, service).await;
    token.map_err(|error| from_fetch(service, &error.into()))?;
    let is_new = before != call.ctx.accounts.version(service.name);
    Ok(Json(refreshed(call.ctx, service, is_new)))
}

fn refreshed(ctx: &ConnectorContext, service: &Service, is_new: bool) -> Refreshed {
    let facts = ctx.accounts.summary(service.name).ok().flatten();
    let expires_us = facts.and_then(|facts| facts.expires_us);
    Refreshed {
        success: true,
        status: Success,
        action: if is_new { "refreshed" } else { "no_refresh_needed" },
        message: if is_new { "the login was refreshed" } else { "no refresh is needed yet" },
        token_refreshed: is_new,
        expires_in_seconds: expires_us.map(|at| left_s(ctx, at)),
        expires_at: expires_us.map(utc_millis),
    }
}

fn known<'a>(
    ctx: &'a ConnectorContext,
    service: &'static Service,
) -> Result<(&'static account::Account, &'a ServiceSettings), Problem> {
    let account = service.account.zip(ctx.settings.of(service));
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
    if let SignInError::Refused(refusal) = error
        && refusal.is_unknown_client()
        && let Some(problem) = review_required(service)
    {
        return problem;
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().to_owned();
    let hint = format!("start again, or run `tollgate connect {}` in a terminal", service.name);
    let code = match error {
        SignInError::Redirect(_) | SignInError::NotOurs => Code::InvalidArgument,
        SignInError::Refused(refusal) if refusal.code().is_none() => Code::UpstreamError,
        _ => Code::of_ended_login(service),
    };
    Problem::new(code, service.name, message, hint)
}

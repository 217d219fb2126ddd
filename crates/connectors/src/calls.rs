//! One request in the owner's name: the token, the pace, the retries and the one refresh after a 401,
//! in this order, for every service alike.

use std::time::Duration;

use store::secret::Secret;

use crate::http::{HttpError, Reply, Request, Retry};
use crate::tokens::{self, TokenError};
use crate::{Desk, Service};

/// Why a call brought no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// Sends a request with the account's token. What comes back may be a refusal: 401 after the one
/// refresh, 429 and 5xx after the retries.
pub async fn call(
    desk: &Desk,
    service: &'static Service,
    request: &Request,
    retry: &Retry,
) -> Result<Reply, CallError> {
    let token = tokens::access(desk, service).await?;
    let reply = paced(desk, service, &signed(service, request, &token), retry).await?;
    if reply.status != 401 {
        return Ok(reply);
    }
    let token = tokens::after_401(desk, service, &token).await?;
    Ok(paced(desk, service, &signed(service, request, &token), retry).await?)
}

/// The same without an account's token, for services that take a key in the request itself.
pub async fn paced(
    desk: &Desk,
    service: &Service,
    request: &Request,
    retry: &Retry,
) -> Result<Reply, HttpError> {
    let client = desk.settings.of(service).and_then(|settings| settings.client_id.as_deref());
    let limits = service.account.map_or(&[][..], |account| account.limits);
    let pace = desk.paces.of(service.name, client.unwrap_or_default(), limits);
    let wait_max = Duration::from_millis(retry.wait_ms_max);
    let turn = || async {
        pace.turn(&desk.clock, wait_max).await.map_err(|wait| HttpError::Limited {
            host: request.host(),
            seconds: wait.as_secs() + 1,
        })
    };
    desk.http
        .send_in_turn(request, retry, turn, |reply| pace.learn(&desk.clock, reply))
        .await
}

fn signed(service: &Service, request: &Request, token: &Secret) -> Request {
    let agent = service.account.map_or("tollgate", |account| account.user_agent);
    request.clone().header("user-agent", agent).bearer(token)
}

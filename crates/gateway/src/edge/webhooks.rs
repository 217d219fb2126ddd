//! `/hooks/SERVICE`: webhook deliveries. The signature authenticates them; there is no grant and no
//! session, and only the owner's mirror changes.

use std::sync::Arc;

use connectors::webhook::{Delivery, FollowUp, Webhook};
use connectors::{ConnectorContext, Service};
use hyper::header::{ALLOW, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use store::ledger::Note;
use tokio::sync::Semaphore;

use crate::edge::Edge;
use crate::edge::bounded_body;
use crate::edge::http::{Rejection, base_response};
use crate::edge::serve::{Body, IncomingBody, Remote};
use crate::runtime::metrics::SyncOutcome;

/// Deliveries processed at the same time; others wait for a permit.
const CONCURRENT_MAX: usize = 4;

/// Limits the deliveries that are processed at the same time.
pub(crate) struct Webhooks {
    permits: Arc<Semaphore>,
}

impl Default for Webhooks {
    fn default() -> Webhooks {
        Webhooks { permits: Arc::new(Semaphore::new(CONCURRENT_MAX)) }
    }
}

/// Accepts one delivery, or says why not. The service waits about a second, so the records are
/// fetched after the response.
pub(crate) async fn receive(
    edge: &Arc<Edge>,
    remote: &Remote,
    name: &str,
    request: Request<IncomingBody>,
) -> Result<Response<Body>, Rejection> {
    let (service, webhook) = enabled_webhook(edge, name)
        .ok_or_else(|| Rejection::new(StatusCode::NOT_FOUND, "not found"))?;
    if request.method() != Method::POST {
        return Err(Rejection {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "webhooks are sent with POST",
            header: Some((ALLOW, HeaderValue::from_static("POST"))),
        });
    }
    let (head, body) = request.into_parts();
    let wait_max = edge.state.services.bounds.body_wait_max;
    let body = bounded_body::read(body, webhook.body_bytes_max, wait_max).await?;
    let ctx = edge.state.snapshots.factory.connectors.get().map_err(|error| {
        tracing::error!(%error, "cannot accept a webhook");
        Rejection::new(StatusCode::SERVICE_UNAVAILABLE, "cannot accept webhooks at the moment")
    })?;
    let delivery = Delivery { header: &|name| header(&head.headers, name), body: &body };
    match (webhook.receive)(&ctx, &delivery) {
        Ok(follow_up) => accept(edge, service, ctx, follow_up),
        Err(rejection) => {
            edge.state.services.metrics.webhook_handled(service.name, SyncOutcome::Failure);
            Ok(refuse(edge, remote, service, rejection.status, &rejection.reason))
        }
    }
}

/// The service of this name and its webhook, if the owner has enabled it.
fn enabled_webhook(edge: &Edge, name: &str) -> Option<(&'static Service, &'static Webhook)> {
    let connector = connectors::connector(name)?;
    let webhook = connector.webhook?;
    let is_on = edge.state.snapshots.settings().service(name).webhook;
    is_on.then_some((connector.service, webhook))
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    // A repeated header is ambiguous.
    values.next().is_none().then_some(value)
}

fn accept(
    edge: &Arc<Edge>,
    service: &'static Service,
    ctx: Arc<ConnectorContext>,
    follow_up: FollowUp,
) -> Result<Response<Body>, Rejection> {
    let note = Note { act: "notice", by: service.name, about: service.name, words: "signed" };
    if let Err(error) = edge.state.services.ledger.note(&note) {
        tracing::error!(%error, "could not record a webhook");
        return Err(Rejection::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "could not record the webhook, so it was not accepted",
        ));
    }
    let edge = Arc::clone(edge);
    tokio::spawn(async move {
        let permits = Arc::clone(&edge.webhooks.permits);
        let Ok(_permit) = permits.acquire_owned().await else { return };
        let outcome = match follow_up(ctx).await {
            Ok(()) => SyncOutcome::Success,
            Err(problem) => {
                tracing::warn!(service = service.name, %problem, "could not process a webhook; the next sync will fetch its records");
                SyncOutcome::Failure
            }
        };
        edge.state.services.metrics.webhook_handled(service.name, outcome);
    });
    Ok(base_response(StatusCode::NO_CONTENT, Body::empty()))
}

/// A delivery with a wrong signature is one audit row. Its sender learns only the status.
fn refuse(
    edge: &Edge,
    remote: &Remote,
    service: &'static Service,
    status: u16,
    message: &str,
) -> Response<Body> {
    edge.state.services.record_anonymous(
        remote.as_str(),
        "(notice)",
        service.name,
        status,
        message,
    );
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    base_response(status, Body::empty())
}

//! The path of a call: decide, admit, run, settle, called in this order by one function.

mod admit;
mod capture;
mod decide;
mod incoming;
mod record;
mod respond;
mod rounds;
mod run;
mod via_client;

use crate::exchange::outbound::Outbound;
use crate::exchange::refuse;
use crate::exchange::subject::RequestSubject;
use crate::session::InFlightGuard;
use mcp::{Method, ProtocolError};
use store::ledger::Facts;

pub(crate) use decide::allows;
pub(crate) use incoming::{IncomingRequest, OwnedSubject, RequestInfo, Target};
pub(in crate::exchange) use respond::{park, respond};

use record::CallRecord;

/// Carries one request to one server and back.
pub(crate) async fn carry(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    match four_steps(incoming, target, in_flight).await {
        Ok(outbound) | Err(outbound) => outbound,
    }
}

/// `Ok` is the response of a call that ran, `Err` the gate's own response (a refusal or a wait), so that each
/// step can return early with `?`. Both are sent alike.
async fn four_steps(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    mut in_flight: Option<InFlightGuard>,
) -> Result<Outbound, Outbound> {
    let record = CallRecord::of(incoming);
    let (keys, count) = record.argument_keys();
    let facts = record.facts(incoming, target, keys.get(..count).unwrap_or_default());

    let decided = decide::decide(incoming, target, &facts, &record.digests).await?;
    let facts = Facts { definition: decided.definition(incoming, target), ..facts };
    let permit = admit::admit(incoming, target, &decided, &facts, &mut in_flight).await?;
    let reader = run::run(incoming, target, decided, record, permit, in_flight).await?;
    Ok(respond::settle(reader).await)
}

/// Carries a request to its server, from the server's own endpoint or from that of all servers.
pub(crate) async fn to_server(
    incoming: &IncomingRequest<'_>,
    target: &Target<'_>,
    about: &RequestSubject<'_>,
    in_flight: Option<InFlightGuard>,
) -> Outbound {
    let subscribes = matches!(
        incoming.request.method,
        Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
    );
    if subscribes && target.access.server.is_shared_by_all() {
        let refused = ProtocolError::new(
            200,
            mcp::code::UNKNOWN_METHOD,
            "all clients share this server (`share`), so it takes no subscriptions",
        );
        return refuse::refuse(
            incoming.context,
            &refused.with_id(&incoming.request.id),
            &incoming.request.method_name,
        );
    }
    if subscribes
        && let Some(outbound) = incoming
            .context
            .state
            .upper_layers
            .subscribe_resource(incoming, target.access, about)
            .await
    {
        return outbound;
    }
    carry(incoming, target, in_flight).await
}

//! A call that waits for a sign-in at its server. A client that opens URLs gets the page as an elicitation of its
//! era, any other client the address as text.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp::edit::string;
use mcp::translate::{self, InputRequest};
use mcp::{ClientCapabilities, Era, Id, InputKind, Method, notification_body, result_body};
use policy::json::Value;
use serde_json::json;
use store::logins::LoginKey;

use crate::exchange::context::RequestContext;
use crate::exchange::error_responses;
use crate::exchange::rounds::{self, ROUND_SECONDS_MAX, RoundContent};
use crate::runtime::stop_signal::turned_true;
use crate::session::{ClientMessage, Session};
use crate::upstream::UpstreamError;

/// How long a repeated call waits for the owner to finish. Shorter than the request timeout of clients.
pub(crate) const RETRY_WAIT_MAX: Duration = Duration::from_secs(20);
/// The key of the only input request.
const KEY: &str = "sign-in";
const ELICITATION_ID_BYTES: usize = 16;

/// The request whose server could not be used.
pub(in crate::exchange) struct FailedRequest<'a> {
    pub(in crate::exchange) context: &'a RequestContext,
    pub(in crate::exchange) id: &'a Id,
    pub(in crate::exchange) era: Era,
    pub(in crate::exchange) method: Method,
    pub(in crate::exchange) client_capabilities: ClientCapabilities,
    pub(in crate::exchange) server: &'a str,
}

impl FailedRequest<'_> {
    /// The response to a request that its server did not get. `digest` is what the repeated call must match.
    pub(in crate::exchange) fn response(
        &self,
        error: &UpstreamError,
        digest: impl FnOnce() -> Option<String>,
    ) -> Vec<u8> {
        let elicited = match error {
            UpstreamError::SignIn { page: Some(page), .. }
                if self.client_capabilities.accepts(InputKind::Url) =>
            {
                self.elicitation(page, error, digest)
            }
            _ => None,
        };
        elicited.unwrap_or_else(|| error_responses::upstream_failed(self.id, self.server, error))
    }

    fn elicitation(
        &self,
        page: &str,
        error: &UpstreamError,
        digest: impl FnOnce() -> Option<String>,
    ) -> Option<Vec<u8>> {
        let has_rounds =
            matches!(self.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead);
        match self.era {
            Era::Legacy => {
                let elicitation = json!({
                    "mode": "url",
                    "elicitationId": self.elicitation_id()?,
                    "message": message(self.server),
                    "url": page,
                });
                Some(error_responses::url_required(self.id, self.server, error, &elicitation))
            }
            Era::Modern if has_rounds => {
                let state = RoundContent::SignIn;
                let state = rounds::seal(self.context, self.server, &digest()?, 0, state)?;
                let params = json!({ "mode": "url", "message": message(self.server), "url": page });
                let question = InputRequest {
                    key: KEY.to_owned(),
                    method: "elicitation/create".to_owned(),
                    params: params.to_string(),
                };
                Some(result_body(self.id, &translate::input_required(&[question], &state)))
            }
            Era::Modern => None,
        }
    }

    /// The id of the elicitation in this session. The client is notified once when it is complete.
    fn elicitation_id(&self) -> Option<String> {
        let session = self.context.session.as_ref()?;
        let mut bytes = [0; ELICITATION_ID_BYTES];
        self.context.services().random.fill(&mut bytes).ok()?;
        let new = URL_SAFE_NO_PAD.encode(bytes);
        if let Some(pending) = session.begin_sign_in(self.server, &new) {
            return Some(pending);
        }
        let (context, session) = (self.context.clone(), Arc::clone(session));
        let (server, id) = (self.server.to_owned(), new.clone());
        tokio::spawn(async move { notify_when_complete(context, session, server, id).await });
        Some(new)
    }
}

/// What the person at the client reads.
fn message(server: &str) -> String {
    format!(
        "Sign in to `{server}` with your own account. The page is part of the gate and needs your dashboard session."
    )
}

async fn notify_when_complete(
    context: RequestContext,
    session: Arc<Session>,
    server: String,
    elicitation_id: String,
) {
    let mut ended = session.ended();
    let wait_max = Duration::from_secs(ROUND_SECONDS_MAX.unsigned_abs());
    let is_complete = tokio::select! {
        is_complete = until_signed_in(&context, &server, wait_max) => is_complete,
        () = turned_true(&mut ended) => return,
    };
    session.end_sign_in(&server);
    if is_complete {
        let params = format!("{{\"elicitationId\":{}}}", string(&elicitation_id));
        let message = notification_body("notifications/elicitation/complete", Some(&params));
        session.deliver(ClientMessage::plain(message));
    }
}

/// Waits until the grant has a login at the server; false if that takes too long.
pub(in crate::exchange) async fn until_signed_in(
    context: &RequestContext,
    server: &str,
    wait_max: Duration,
) -> bool {
    let key = LoginKey::of_grant(server, &context.grantee.id);
    let logins = &context.state.snapshots.factory.logins;
    tokio::time::timeout(wait_max, logins.until_usable(&key)).await.is_ok()
}

/// Whether the client answered that its user opens the page.
pub(in crate::exchange) fn is_accepted(params: Option<Value<'_>>) -> bool {
    let answer = params.and_then(|params| params.get("inputResponses")?.get(KEY));
    let action = answer.and_then(|answer| answer.get("action")?.as_str());
    action.as_deref() == Some("accept")
}

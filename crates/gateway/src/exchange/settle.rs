//! How a call ends: its outcome row, and the response of a call that failed.

use crate::exchange::call::OwnedSubject;
use crate::exchange::context::Transport;
use crate::exchange::sign_in::FailedRequest;
use crate::runtime::permits;
use crate::runtime::trace::Span;
use crate::upstream::UpstreamError;
use bytes::Bytes;
use mcp::{Era, Method};
use store::ledger::{Ending, Facts, Outcome, Permit};

use crate::exchange::in_flight::InFlightCall;
use crate::exchange::response_reader::ResponsePart;

impl InFlightCall {
    pub(in crate::exchange) fn settle_answered(
        &mut self,
        status: u16,
        message: &Bytes,
        ending: Ending,
    ) {
        let outcome = Outcome {
            status: Some(status),
            result_bytes: Some(message.len() as u64),
            ..Outcome::new(ending)
        };
        self.settled = self.end(outcome, Permit::settle_soon);
        self.peer.server.health.record_success();
    }

    pub(in crate::exchange) fn garbled(&mut self, why: &str) -> ResponsePart {
        self.failed(&UpstreamError::Malformed { why: why.to_owned() })
    }

    /// There will be no response.
    pub(crate) fn failed(&mut self, error: &UpstreamError) -> ResponsePart {
        if self.in_flight.as_ref().is_some_and(|in_flight| in_flight.flight.is_cancelled()) {
            return self.cancelled();
        }
        if self.can_be_resumed() && matches!(error, UpstreamError::Lost { .. }) {
            return ResponsePart::Broken;
        }
        if matches!(error, UpstreamError::NotAsJudged) {
            self.context.services().metrics.not_as_judged();
        }
        tracing::warn!(server = %self.peer.server.name, %error, "no response from a server");
        let now_us = self.context.services().clock.now().wall_us;
        self.peer.server.health.record_failure(now_us, error.to_string());
        let request = FailedRequest {
            context: &self.context,
            id: &self.id,
            era: self.era,
            method: Method::parse(&self.method),
            client_capabilities: self.request.client_capabilities,
            server: &self.peer.server.name,
        };
        let body = request.response(error, || self.request.digest(self.context.services()));
        match (self.permit.take(), error.may_have_happened()) {
            (Some(permit), false) => {
                self.settled = Some(permit.release_soon(&error.to_string()));
                self.record_unless_awaited();
            }
            (permit, _) => {
                self.permit = permit;
                let ending = match error {
                    UpstreamError::Status { .. }
                    | UpstreamError::TooLarge { .. }
                    | UpstreamError::Malformed { .. } => Ending::Error,
                    _ => Ending::Unknown,
                };
                self.settle(ending);
            }
        }
        ResponsePart::Last { status: 200, body: body.into() }
    }

    /// Whether the client can resume an interrupted stream: over HTTP, in a session. Any other client would
    /// wait for ever.
    fn can_be_resumed(&self) -> bool {
        let over_http = matches!(self.context.transport, Transport::Http { .. });
        self.resumable && self.era == Era::Legacy && over_http && self.context.session.is_some()
    }

    pub(in crate::exchange) fn stream_ended(&mut self) -> ResponsePart {
        if self.can_be_resumed() {
            return ResponsePart::Broken;
        }
        self.failed(&UpstreamError::Lost { why: "the stream ended without a response".to_owned() })
    }

    pub(crate) fn cancelled(&mut self) -> ResponsePart {
        self.settle(Ending::Cancelled);
        ResponsePart::Cancelled
    }

    /// Ends a call without a response.
    pub(in crate::exchange) fn settle(&mut self, ending: Ending) {
        self.settle_with(Outcome { result_bytes: Some(0), ..Outcome::new(ending) });
    }

    pub(in crate::exchange) fn settle_with(&mut self, outcome: Outcome) {
        self.settled = self.end(outcome, Permit::settle_soon).or(self.settled.take());
        self.record_unless_awaited();
    }

    /// Ends the call, once.
    fn end<T>(
        &mut self,
        outcome: Outcome,
        settle: impl FnOnce(Permit, &Outcome) -> T,
    ) -> Option<T> {
        let permit = self.permit.take()?;
        if !self.crossing.is_none() {
            self.give_up_task();
        }
        let latency_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.context.services().metrics.call_ended(outcome.ending, latency_us);
        self.end_trace(outcome.ending, latency_us);
        let settled = settle(permit, &Outcome { latency_us: Some(latency_us), ..outcome });
        self.in_flight = None;
        Some(settled)
    }

    /// Waits until the outcome is recorded. Calls that end at the same time share one write, so a call yields
    /// if there are others.
    pub(in crate::exchange) async fn wait_until_recorded(&mut self) {
        let Some(settled) = self.settled.take() else { return };
        if settled.has_concurrent_calls() {
            tokio::task::yield_now().await;
        }
        permits::log_failure(settled.written().await);
    }

    /// The same in synchronous code. On Postgres it does not wait.
    pub(in crate::exchange) fn record_now(&mut self) {
        if let Some(settled) = self.settled.take() {
            permits::log_failure(settled.leave());
        }
    }

    /// On files the outcome of a failed call is written at once; on Postgres its response waits
    /// for it.
    fn record_unless_awaited(&mut self) {
        if !self.context.services().ledger.waits_for_store() {
            self.record_now();
        }
    }

    pub(in crate::exchange) fn end_trace(&mut self, ending: Ending, took_us: u64) {
        let Some(trace) = self.trace.take() else { return };
        self.context.services().tracer.end(Span {
            trace,
            name: self.method.clone().into_owned(),
            server: self.peer.server.name.clone(),
            grant: self.context.grantee.label.clone(),
            ended_at_us: self.context.services().clock.now().wall_us,
            took_us,
            ending,
        });
    }

    /// The server needs input. The call continues when the client answers.
    pub(in crate::exchange) fn settle_until_continued(&mut self, result_bytes: usize) {
        let Some(permit) = self.permit.take() else { return };
        let facts = Facts {
            server: &self.peer.server.name,
            method: &self.method,
            subject: self.request.subject.as_ref().map(OwnedSubject::as_subject),
            argument_digest: self.request.argument_digest,
            ..self.context.facts()
        };
        let outcome =
            Outcome { result_bytes: Some(result_bytes as u64), ..Outcome::new(Ending::Ok) };
        self.settled = Some(permit.settle_until_continued_soon(&outcome, &facts));
        self.record_unless_awaited();
    }
}

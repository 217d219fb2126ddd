//! Messages around a call that crosses eras: log messages on other streams, notifications that one era does not
//! have, and cancellation.

use std::time::Duration;

use bytes::Bytes;
use mcp::edit::string;
use mcp::{InputKind, notification_body};
use policy::json::{Bounds, Doc, Value};

use super::Crossing;
use crate::exchange::in_flight::InFlightCall;
use crate::exchange::prepare;
use crate::exchange::response_reader::ResponseReader;
use crate::runtime::offload::LARGE_BYTES;
use crate::upstream::Event;
use crate::upstream::log_levels::log_rank;
use crate::upstream::own_messages;

/// How long a response waits for log messages that precede it on another stream.
const LATE_LOG_WAIT: Duration = Duration::from_millis(50);

impl ResponseReader {
    /// Waits briefly for log messages on another stream before the response. True if some must be sent first.
    pub(super) async fn await_logs(&mut self, message: &[u8]) -> bool {
        let Some(crossing) = self.call.crossing.to_older_mut() else { return false };
        let Some(mut logs) = crossing.logs.take() else { return false };
        // A large message is parsed on another thread, so it is treated as the response here.
        let large = message.len() > LARGE_BYTES;
        let is_answer = large
            || Doc::read_shallow(message, &Bounds::ANSWER, 1)
                .is_ok_and(|doc| doc.root().get("method").is_none());
        if is_answer && logs.is_empty() {
            let late = tokio::time::timeout(LATE_LOG_WAIT, logs.recv()).await;
            crossing.unsent_logs.extend(late.ok().and_then(Result::ok));
        }
        while let Ok(message) = logs.try_recv() {
            crossing.unsent_logs.push_back(message);
        }
        if large || !is_answer {
            crossing.logs = Some(logs);
        }
        !crossing.unsent_logs.is_empty()
    }
}

impl InFlightCall {
    /// A log message that a legacy server sent outside the call.
    pub(super) fn next_stray_log(&mut self) -> Option<Bytes> {
        let redacts = self.redacts_anything();
        let crossing = self.crossing.to_older_mut()?;
        // It may belong to another call of the grant whose result is redacted.
        if redacts {
            crossing.logs = None;
            crossing.unsent_logs.clear();
            return None;
        }
        if let Some(logs) = &mut crossing.logs {
            while let Ok(message) = logs.try_recv() {
                crossing.unsent_logs.push_back(message);
            }
        }
        let mut late = std::mem::take(&mut crossing.unsent_logs);
        let mut wanted = None;
        while let Some(message) = late.pop_front() {
            if self.is_wanted_log(&message) {
                wanted = Some(message);
                break;
            }
        }
        self.crossing.to_older_mut()?.unsent_logs = late;
        wanted
    }

    fn is_wanted_log(&self, message: &[u8]) -> bool {
        Doc::read_shallow(message, &Bounds::ANSWER, 2).is_ok_and(|doc| {
            let method = doc.root().get("method").and_then(Value::as_str);
            method.as_deref() == Some("notifications/message") && self.wants_log(doc.root())
        })
    }

    /// Whether a log message has at least the level that the client wants. A legacy server has one level for
    /// all clients of a grant.
    pub(in crate::exchange) fn is_of_wanted_level(&self, root: Value<'_>) -> bool {
        let level = root.get("params").and_then(|params| params.get("level")?.as_str());
        match (self.request.log_level(), level.as_deref().and_then(log_rank)) {
            (Some(wanted), Some(level)) => log_rank(wanted) <= Some(level),
            _ => true,
        }
    }

    /// Whether a notification of a legacy server goes to subscribers instead of this modern client.
    pub(in crate::exchange) fn is_withheld_bridged(&self, event: &Event, method: &str) -> bool {
        if self.crossing.to_older().is_none() {
            return false;
        }
        let is_for_subscribers = is_for_subscribers(method);
        if is_for_subscribers {
            let context = &self.context;
            let stream = context.state.streams.of(&self.peer.server, &context.grantee.id);
            stream.publish(event.message.clone());
        }
        is_for_subscribers
    }

    /// Adjusts the progress of a modern server for a legacy client: it must increase over all rounds.
    pub(in crate::exchange) fn adjust_progress(&mut self, message: Bytes) -> Bytes {
        match self.crossing.to_newer_mut() {
            Some(crossing) => crossing.progress.adjusted(message),
            None => message,
        }
    }

    /// Records that a legacy server sent a request that its modern client does not support.
    pub(in crate::exchange) fn note_unsupported_input(&mut self, kind: InputKind) {
        if let Some(crossing) = self.crossing.to_older_mut() {
            crossing.unsupported_input = Some(kind);
        }
    }

    /// The call ends before its server has responded.
    pub(in crate::exchange) fn give_up_bridged(&mut self) {
        let is_unsettled = self.permit.is_some();
        if is_unsettled {
            self.cancel_at_older();
            self.give_up_task();
        }
        let Crossing::NewerToOlder(crossing) = &mut self.crossing else { return };
        let unrouted = crossing.requests.take().map(|requests| requests.leave());
        // These requests may belong to other calls.
        for request in unrouted.unwrap_or_default() {
            own_messages::answer_server_request(self.context.services(), &self.peer, &request);
        }
    }

    /// A modern client cancels by closing the connection. A legacy server must be notified.
    fn cancel_at_older(&self) {
        let is_remote = !self.peer.is_child() && !self.peer.is_builtin();
        if self.crossing.to_older().is_some() && is_remote {
            let params = format!("{{\"requestId\":{}}}", self.sent_id.raw());
            let body = notification_body("notifications/cancelled", Some(&params));
            own_messages::notify(self.context.services(), &self.peer, body.into());
        }
    }

    /// Cancels the server's task, whose result is no longer needed.
    pub(in crate::exchange) fn give_up_task(&mut self) {
        let Some(task) = self.crossing.take_awaited_task() else { return };
        let params = format!("{{\"taskId\":{}}}", string(&task));
        let client = prepare::client_meta_with_tasks(&self.context, &self.peer);
        let cancel = prepare::own_request(&self.peer, "tasks/cancel", Some(&params), &client);
        own_messages::request(self.context.services(), &self.peer, cancel.out);
    }
}

/// Notifications that belong to no request.
fn is_for_subscribers(method: &str) -> bool {
    method.ends_with("/list_changed")
        || matches!(method, "notifications/resources/updated" | "notifications/tasks/status")
}

//! Task-augmented calls of legacy clients at a modern server, which decides by itself whether to create a task.

use crate::exchange::in_flight::InFlightCall;
use crate::exchange::response_reader::ResponsePart;
use crate::exchange::tasks::finished::{FinishedTask, KEPT_MS_MAX, RESULT_BYTES_MAX};
use bytes::Bytes;
use mcp::edit::string;
use mcp::translate::modern_tasks;
use mcp::{Revision, TASKS, code, error_body, result_body};
use policy::json::{Bounds, Doc};

impl InFlightCall {
    /// Whether the client was told that calls to this server may become tasks.
    pub(in crate::exchange) fn offers_tasks(&self) -> bool {
        let session = self.context.session.as_ref();
        session.is_some_and(|session| session.revision == Revision::LEGACY_NEWEST)
            && self.peer.extends(TASKS)
    }

    /// Whether the client wants this call as a task.
    pub(in crate::exchange) fn wants_task(&self) -> bool {
        self.offers_tasks() && self.request.wants_task()
    }

    /// Stores the response as a finished task, for a client that wants one. Errors stay unchanged.
    pub(in crate::exchange) fn keep_as_task(&mut self, part: ResponsePart) -> ResponsePart {
        let ResponsePart::Last { status, body } = part else { return part };
        let body = self.keep_result(&body).unwrap_or(body);
        ResponsePart::Last { status, body }
    }

    fn keep_result(&self, body: &Bytes) -> Option<Bytes> {
        let doc = Doc::read(body, &Bounds::ANSWER).ok()?;
        let result = doc.root().get("result")?.raw();
        let (state, services) = (&self.context.state, self.context.services());
        if result.len() > RESULT_BYTES_MAX {
            let message = "the result is too large to be kept as a task; call without `task`";
            return Some(error_body(Some(&self.id), code::INTERNAL, message, None).into());
        }
        let (id, now_us) = (services.random_name()?, services.clock.now().wall_us);
        let kept_ms = self.request.wanted_ttl_ms().unwrap_or(KEPT_MS_MAX).clamp(0, KEPT_MS_MAX);
        let at = string(&jiff::Timestamp::from_microsecond(now_us).unwrap_or_default().to_string());
        let task = format!(
            "{{\"taskId\":{},\"status\":\"completed\",\"createdAt\":{at},\"lastUpdatedAt\":{at},\"ttlMs\":{kept_ms},\"result\":{result}}}",
            string(&id)
        );
        let doc = Doc::read(task.as_bytes(), &Bounds::ANSWER).ok()?;
        let server = self.peer.server.name.clone();
        state.tasks.keep(doc.root(), &self.request, &self.context, &self.peer);
        let begun = modern_tasks::legacy_created(doc.root());
        let (grant, until_us) = (self.context.grantee.id.clone(), now_us + kept_ms * 1000);
        state.tasks.finished.keep(FinishedTask { grant, server, id, task, until_us });
        Some(result_body(&self.id, &begun).into())
    }
}

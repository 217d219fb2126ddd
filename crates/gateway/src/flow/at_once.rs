//! Older clients that want calls as tasks, in front of a newer server, which decides that by itself.

use super::Piece;
use super::tail::Tail;
use crate::rebuild::string;
use crate::tasks::at_once::{KEPT_MS_MAX, Kept, RESULT_BYTES_MAX};
use crate::translate::newer_tasks;
use crate::wire::{Revision, TASKS, code, error_body, result_body};
use bytes::Bytes;
use policy::json::{Bounds, Doc};

impl Tail {
    /// Whether its client was told that calls of this server may become tasks.
    pub(super) fn offers_tasks(&self) -> bool {
        let session = self.scene.session.as_ref();
        session.is_some_and(|session| session.revision == Revision::LEGACY_NEWEST)
            && self.peer.extends(TASKS)
    }

    /// Whether its client wants this call as a task.
    pub(super) fn wants_task(&self) -> bool {
        self.offers_tasks() && self.asked.wants_task()
    }

    /// The answer to a call as a task that has ended, for a client that wanted one. What is no result stays.
    pub(super) fn kept_as_task(&mut self, piece: Piece) -> Piece {
        let Piece::Last { status, body } = piece else { return piece };
        let body = self.keep_result(&body).unwrap_or(body);
        Piece::Last { status, body }
    }

    fn keep_result(&self, body: &Bytes) -> Option<Bytes> {
        let doc = Doc::read(body, &Bounds::ANSWER).ok()?;
        let result = doc.root().get("result")?.raw();
        let gate = &self.scene.gate;
        if result.len() > RESULT_BYTES_MAX {
            let words = "the result is too large to be kept as a task; call without `task`";
            return Some(error_body(Some(&self.id), code::INTERNAL, words, None).into());
        }
        let (id, now_us) = (gate.random_name()?, gate.clock.now().wall_us);
        let kept_ms = self.asked.wanted_ttl_ms().unwrap_or(KEPT_MS_MAX).clamp(0, KEPT_MS_MAX);
        let at = string(&jiff::Timestamp::from_microsecond(now_us).unwrap_or_default().to_string());
        let task = format!(
            "{{\"taskId\":{},\"status\":\"completed\",\"createdAt\":{at},\"lastUpdatedAt\":{at},\"ttlMs\":{kept_ms},\"result\":{result}}}",
            string(&id)
        );
        let doc = Doc::read(task.as_bytes(), &Bounds::ANSWER).ok()?;
        let server = self.peer.server.name.clone();
        gate.tasks.keep(doc.root(), &self.asked, &self.scene, &self.peer);
        let begun = newer_tasks::legacy_begun(doc.root());
        let (grant, until_us) = (self.scene.holder.id.clone(), now_us + kept_ms * 1000);
        gate.tasks.at_once.keep(Kept { grant, server, id, task, until_us });
        Some(result_body(&self.id, &begun).into())
    }
}

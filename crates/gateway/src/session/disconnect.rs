//! Detects clients that are gone, so that their sessions end.

use std::sync::atomic::Ordering;

use super::Session;

impl Session {
    /// Notes that a server runs a task for this session. A client may return for it much later.
    pub(crate) fn note_task(&self) {
        self.has_task.store(true, Ordering::Relaxed);
    }

    /// How long the client has had no stream, no request and no task, as of the last polls. A client that
    /// returns later gets 404 and opens a new session, as the protocol says.
    pub(crate) fn gone_us(&self, now_us: i64) -> i64 {
        let mut state = self.state();
        let has_stream = state.stream.as_ref().is_some_and(|stream| !stream.is_closed());
        if has_stream || !self.client_requests.is_empty() || self.has_task.load(Ordering::Relaxed) {
            state.gone_since_us = None;
            return 0;
        }
        let since_us = *state.gone_since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us.max(self.used_at_us()))
    }
}

//! Server-sent events for open pages: how many approvals wait, and that the audit log grew. A page without
//! script loses nothing but the live update.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::app::App;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;

/// How often an open page is checked for news.
const EVERY: Duration = Duration::from_millis(500);
/// After so long the browser connects again.
const STREAM_SECONDS_MAX: u64 = 300;

#[expect(clippy::unnecessary_wraps, reason = "every page has this signature")]
pub(crate) fn stream(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let (sender, receiver) = mpsc::channel(4);
    let watched = Arc::new(app.watched());
    let cookie = visit.cookie.clone();
    // Only the page that follows the log pays for looking at it.
    let audit = visit.param("audit").and_then(|_| app.audit().ok());
    tokio::spawn(async move {
        let rounds = STREAM_SECONDS_MAX * 1000 / u64::try_from(EVERY.as_millis()).unwrap_or(1000);
        let (mut known, mut waiting) = (None, 0);
        for _ in 0..rounds {
            let (session, cookie) = (Arc::clone(&watched), cookie.clone());
            let signed_in = tokio::task::spawn_blocking(move || session.is_signed_in(&cookie));
            // Signed out, or the person was removed: nothing more is sent.
            if !signed_in.await.unwrap_or(false) {
                return;
            }
            // The generation is a number in memory, and the log is looked at from outside: a call costs the same
            // with an open page. Approvals are read only when one changed.
            let end = audit.as_ref().and_then(|audit| audit.end().ok());
            let news = (watched.generation(), end);
            if known != Some(news) {
                let has_grown = known.is_some_and(|(_, before)| before != end);
                if known.is_none_or(|(generation, _)| generation != news.0) {
                    waiting = watched.pending_count();
                }
                known = Some(news);
                let event = format!("data: {{\"approvals\":{waiting},\"audit\":{has_grown}}}\n\n");
                if sender.send(Bytes::from(event)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    });
    Ok(Response::events(receiver))
}

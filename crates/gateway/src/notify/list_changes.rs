//! List-change notifications from the gate itself. Lists also change when the owner changes a
//! policy or accepts a tool, and on the endpoint of all servers when a grant gains, loses or
//! reconnects a server.

use crate::exchange::state::SharedState;
use crate::snapshot::Snapshot;

/// Notifies sessions whose lists may have changed. A client without a stream misses nothing: lists
/// are always computed from the current snapshot.
pub(crate) fn notify_sessions(state: &SharedState, before: &Snapshot) {
    let now = state.snapshots.current();
    for session in state.sessions.all() {
        let grantees = now.grantees.get(&session.grant).zip(before.grantees.get(&session.grant));
        let Some((now, before)) = grantees else { continue };
        let changed = match &session.server {
            None => !now.same_access_as(before),
            Some(name) => {
                let both = now.accesses.get(&**name).zip(before.accesses.get(&**name));
                both.is_some_and(|(now, before)| !now.same_as(before))
            }
        };
        if changed {
            session.notify_lists_changed();
        }
    }
}

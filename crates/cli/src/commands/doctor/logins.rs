//! Checks the logins at servers that want OAuth: state, issuer, scopes, expiry, last refresh.

use store::logins::LoginFacts;

use super::Finding;
use crate::context::Stores;
use crate::server_login::text;

const ABOUT: &str = "logins";
/// A refresh takes seconds. A mark that is older was left by a process that ended.
const REFRESHING_US_MAX: i64 = 5 * 60 * 1_000_000;

pub(super) fn logins(stores: &Stores, findings: &mut Vec<Finding>) {
    let effective = match stores.effective() {
        Ok(effective) => effective,
        Err(e) => return findings.push(Finding::from_error(ABOUT, &e)),
    };
    for server in effective.servers.values() {
        let found = match stores.logins().store.at_server(server) {
            Ok(found) => found,
            Err(e) => {
                findings.push(Finding::from_error(ABOUT, &e.into()));
                continue;
            }
        };
        for facts in found {
            let label = facts.grant.as_ref().and_then(|id| {
                let grant = effective.grants().iter().find(|grant| grant.id == *id);
                grant.map(|grant| grant.label.clone())
            });
            findings.push(finding(&facts, label.as_deref(), stores.now_us()));
        }
    }
}

fn finding(facts: &LoginFacts, label: Option<&str>, now_us: i64) -> Finding {
    let whose = label.map(|label| format!(" (grant `{label}`)")).unwrap_or_default();
    let message = format!("`{}`{whose}: {}", facts.server, text::line(facts, now_us));
    let interrupted =
        facts.refreshing_us.is_some_and(|at| now_us.saturating_sub(at) > REFRESHING_US_MAX);
    match text::next_step(facts, label) {
        Some(next) if facts.is_signed_in() => Finding::careful(ABOUT, message, next),
        Some(next) => Finding::wrong(ABOUT, message, next),
        None if interrupted => Finding::careful(
            ABOUT,
            format!("{message}; a refresh was interrupted"),
            format!("if its calls fail: `tollgate server sign-in {}`", facts.server),
        ),
        None => Finding::good(ABOUT, message),
    }
}

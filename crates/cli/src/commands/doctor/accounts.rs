//! Checks the owner's accounts without contacting the services: whether each login should still work, and
//! whether the mirror is intact and fresh.

use store::accounts::{AccountState, AccountSummary};

use super::Finding;
use crate::context::Stores;
use crate::moment;
use crate::output::count;
use crate::services::{self, AccountStatus, LastSync};

const MINUTE_US: i64 = 60_000_000;
/// A mirror is old when this many background syncs were missed.
const INTERVALS_MISSED: i64 = 4;
/// Without background syncs a mirror is old after a day.
const DAY_US: i64 = 24 * 60 * MINUTE_US;
/// A refresh takes seconds; one that runs for this long was interrupted.
const REFRESHING_US_MAX: i64 = 5 * MINUTE_US;

pub(super) fn accounts(stores: &Stores, findings: &mut Vec<Finding>) {
    let statuses = services::account_statuses(stores);
    for status in &statuses {
        login(status, stores, findings);
        mirror(status, stores, findings);
    }
    if !statuses.is_empty() {
        records(stores, findings);
    }
}

fn login(status: &AccountStatus, stores: &Stores, findings: &mut Vec<Finding>) {
    let name = status.service.name;
    match &status.account {
        Ok(Some(facts)) => findings.push(login_finding(name, facts, stores.now_us())),
        Ok(None) => {}
        Err(message) => {
            findings.push(Finding::from_error("accounts", &anyhow::anyhow!(message.clone())));
        }
    }
}

fn login_finding(name: &str, facts: &AccountSummary, now_us: i64) -> Finding {
    const ABOUT: &str = "accounts";
    let connect = format!("`tollgate connect {name}`");
    if let AccountState::Dead { since_us, message } = &facts.state {
        let since = moment::local(*since_us);
        let message = format!("`{name}`: the login ended at {since}: {message}");
        return Finding::wrong(ABOUT, message, connect);
    }
    let cut_short = facts.refreshing_us.is_some_and(|at| now_us - at > REFRESHING_US_MAX);
    if cut_short {
        let message = format!("`{name}`: a refresh of its token was interrupted");
        return Finding::careful(
            ABOUT,
            message,
            format!("`tollgate sync {name}`; if it fails, {connect}"),
        );
    }
    let over = facts.expires_us.is_some_and(|at| at <= now_us);
    match (facts.has("refresh"), facts.expires_us) {
        (true, Some(at)) if over => Finding::good(
            ABOUT,
            format!(
                "`{name}`: connected; its token expired at {} and is renewed at the next use",
                moment::local(at)
            ),
        ),
        (true, Some(at)) => Finding::good(
            ABOUT,
            format!("`{name}`: connected, token valid until {}", moment::local(at)),
        ),
        (false, Some(at)) if over => Finding::wrong(
            ABOUT,
            format!("`{name}`: the login ended {} and cannot be renewed", moment::local(at)),
            connect,
        ),
        (false, Some(at)) => Finding::careful(
            ABOUT,
            format!("`{name}`: the login ends {} and cannot be renewed", moment::local(at)),
            connect,
        ),
        (_, None) => Finding::good(ABOUT, format!("`{name}`: connected")),
    }
}

fn mirror(status: &AccountStatus, stores: &Stores, findings: &mut Vec<Finding>) {
    let name = status.service.name;
    let Some(mirror) = connectors::mirror(name) else { return };
    let minutes = stores.settings.service(name).sync_interval_minutes;
    match &status.sync {
        Ok(last) => {
            let failed = crate::services::grouped(mirror, &last.failed);
            let last = LastSync { failed, ..last.clone() };
            findings.push(sync_finding(name, &last, minutes, stores.now_us()));
        }
        Err(message) => {
            findings.push(Finding::from_error("mirror", &anyhow::anyhow!(message.clone())));
        }
    }
}

fn sync_finding(name: &str, last: &LastSync, minutes: u64, now_us: i64) -> Finding {
    const ABOUT: &str = "mirror";
    let sync = format!("`tollgate sync {name}`");
    if !last.failed.is_empty() {
        let message = format!("`{name}`: the last sync failed: {}", last.failed.join("; "));
        return Finding::careful(ABOUT, message, sync);
    }
    let Some(good_us) = last.good_us else {
        return Finding::careful(ABOUT, format!("`{name}` was never synced"), sync);
    };
    let interval_us = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(MINUTE_US);
    let old_us = interval_us.saturating_mul(INTERVALS_MISSED).max(DAY_US);
    let message = format!("`{name}`: synced {}", moment::ago(good_us, now_us));
    if now_us.saturating_sub(good_us) > old_us {
        Finding::careful(ABOUT, message, format!("{sync}, or keep `tollgate up` running"))
    } else {
        Finding::good(ABOUT, message)
    }
}

fn records(stores: &Stores, findings: &mut Vec<Finding>) {
    let checked = stores.connector_context().and_then(|ctx| Ok(ctx.records.check()?));
    findings.push(match checked {
        Ok(()) => Finding::good("mirror", "`data.db` is intact"),
        Err(e) => Finding::from_error("mirror", &e),
    });
    let Ok(ctx) = stores.connector_context() else { return };
    for mirror in connectors::mirrors() {
        let doubtful = mirror.doubtful.and_then(|count| count(&ctx.records).ok()).unwrap_or(0);
        if doubtful > 0 {
            let name = mirror.service;
            let records = count(usize::try_from(doubtful).unwrap_or(usize::MAX), "record");
            let message =
                format!("`{name}`: {records} with impossible times, which belong to no day");
            let fix = format!("`tollgate sync {name} --full` reads them again");
            findings.push(Finding::careful("mirror", message, fix));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::commands::doctor::Health;

    const NOW_US: i64 = 1_800_000_000_000_000;

    fn facts(kept: &[&str], expires_us: i64) -> AccountSummary {
        AccountSummary {
            service: "whoop".to_owned(),
            client_id: None,
            kept: kept.iter().map(|name| (*name).to_owned()).collect(),
            token_type: "bearer".to_owned(),
            scopes: Vec::new(),
            expires_us: Some(expires_us),
            created_us: 0,
            refreshed_us: None,
            refreshing_us: None,
            state: AccountState::Live,
        }
    }

    #[test]
    fn a_login_is_wrong_only_if_it_cannot_be_used_or_renewed() {
        let (before, after) = (NOW_US - 1, NOW_US + 1);
        let dead = AccountState::Dead { since_us: 0, message: "consent withdrawn".to_owned() };
        for (facts, health) in [
            (facts(&["access", "refresh"], after), Health::Good),
            (facts(&["access", "refresh"], before), Health::Good),
            (facts(&["access"], after), Health::Careful),
            (facts(&["access"], before), Health::Wrong),
            (AccountSummary { state: dead, ..facts(&["access", "refresh"], after) }, Health::Wrong),
            (
                AccountSummary { refreshing_us: Some(0), ..facts(&["refresh"], after) },
                Health::Careful,
            ),
        ] {
            let finding = login_finding("whoop", &facts, NOW_US);
            assert_eq!(finding.health, health, "{}", finding.message);
            let mends = finding.fix.is_some_and(|fix| fix.contains("tollgate connect whoop"));
            assert_eq!(mends, health != Health::Good);
        }
    }

    #[test]
    fn a_mirror_is_old_after_missed_syncs() {
        let ago = |us: i64| LastSync { good_us: Some(NOW_US - us), failed: Vec::new() };
        let failed = LastSync { failed: vec!["sleeps: no".to_owned()], ..ago(0) };
        for (last, health) in [
            (LastSync::default(), Health::Careful),
            (ago(MINUTE_US), Health::Good),
            (ago(DAY_US - 1), Health::Good),
            (ago(DAY_US + 1), Health::Careful),
            (failed, Health::Careful),
        ] {
            assert_eq!(sync_finding("whoop", &last, 30, NOW_US).health, health, "{last:?}");
        }
    }
}

//! The owner's accounts: does each login still work as far as one can tell without asking, and is
//! what was mirrored whole and fresh?

use store::accounts::{Facts, State};

use super::Finding;
use crate::context::Stores;
use crate::moment;
use crate::output::count;
use crate::services::{self, LastSync, Standing};

const MINUTE_US: i64 = 60_000_000;
/// A mirror is old when so many syncs in the background should have come and did not.
const INTERVALS_MISSED: i64 = 4;
/// Without syncs in the background a mirror is old after a day.
const DAY_US: i64 = 24 * 60 * MINUTE_US;
/// A refresh takes seconds; one that is under way for so long was cut short.
const REFRESHING_US_MAX: i64 = 5 * MINUTE_US;

pub(super) fn accounts(stores: &Stores, findings: &mut Vec<Finding>) {
    let standings = services::standings(stores);
    for standing in &standings {
        login(standing, stores, findings);
        mirror(standing, stores, findings);
    }
    if !standings.is_empty() {
        records(stores, findings);
    }
}

fn login(standing: &Standing, stores: &Stores, findings: &mut Vec<Finding>) {
    let name = standing.service.name;
    match &standing.account {
        Ok(Some(facts)) => findings.push(judged(name, facts, stores.now_us())),
        Ok(None) => {}
        Err(words) => {
            findings.push(Finding::from_error("accounts", &anyhow::anyhow!(words.clone())));
        }
    }
}

fn judged(name: &str, facts: &Facts, now_us: i64) -> Finding {
    const ABOUT: &str = "accounts";
    let connect = format!("`tollgate connect {name}`");
    if let State::Dead { since_us, words } = &facts.state {
        let since = moment::local(*since_us);
        let words = format!("`{name}`: the login is dead since {since}: {words}");
        return Finding::wrong(ABOUT, words, connect);
    }
    let cut_short = facts.refreshing_us.is_some_and(|at| now_us - at > REFRESHING_US_MAX);
    if cut_short {
        let words = format!("`{name}`: a refresh of its token was cut short");
        return Finding::careful(
            ABOUT,
            words,
            format!("`tollgate sync {name}`; if it fails, {connect}"),
        );
    }
    let over = facts.expires_us.is_some_and(|at| at <= now_us);
    match (facts.has("refresh"), facts.expires_us) {
        (true, Some(at)) if over => Finding::good(
            ABOUT,
            format!(
                "`{name}`: connected; the token of {} is renewed at the next use",
                moment::local(at)
            ),
        ),
        (true, Some(at)) => Finding::good(
            ABOUT,
            format!("`{name}`: connected, token good until {}", moment::local(at)),
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

fn mirror(standing: &Standing, stores: &Stores, findings: &mut Vec<Finding>) {
    let name = standing.service.name;
    let Some(mirror) = connectors::sync::mirror(name) else { return };
    let minutes = stores.settings.service(name).sync_interval_minutes;
    match &standing.sync {
        Ok(last) => {
            let failed = crate::sync::grouped(mirror, &last.failed);
            let last = LastSync { failed, ..last.clone() };
            findings.push(fresh(name, &last, minutes, stores.now_us()));
        }
        Err(words) => {
            findings.push(Finding::from_error("mirror", &anyhow::anyhow!(words.clone())));
        }
    }
}

fn fresh(name: &str, last: &LastSync, minutes: u64, now_us: i64) -> Finding {
    const ABOUT: &str = "mirror";
    let sync = format!("`tollgate sync {name}`");
    if !last.failed.is_empty() {
        let words = format!("`{name}`: the last sync failed: {}", last.failed.join("; "));
        return Finding::careful(ABOUT, words, sync);
    }
    let Some(good_us) = last.good_us else {
        return Finding::careful(ABOUT, format!("`{name}` was never synced"), sync);
    };
    let interval_us = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(MINUTE_US);
    let old_us = interval_us.saturating_mul(INTERVALS_MISSED).max(DAY_US);
    let words = format!("`{name}`: synced {}", moment::ago(good_us, now_us));
    if now_us.saturating_sub(good_us) > old_us {
        Finding::careful(ABOUT, words, format!("{sync}, or keep `tollgate up` running"))
    } else {
        Finding::good(ABOUT, words)
    }
}

fn records(stores: &Stores, findings: &mut Vec<Finding>) {
    let checked = stores.desk().and_then(|desk| Ok(desk.records.check()?));
    findings.push(match checked {
        Ok(()) => Finding::good("mirror", "`data.db` is whole"),
        Err(e) => Finding::from_error("mirror", &e),
    });
    let doubtful = stores.desk().map(|desk| connectors::whoop::doubtful(&desk.records));
    if let Ok(Ok(doubtful)) = doubtful
        && doubtful > 0
    {
        let records = count(usize::try_from(doubtful).unwrap_or(usize::MAX), "record");
        let words = format!("`whoop`: {records} with impossible times; they belong to no day");
        let mend = "`tollgate sync whoop --full` reads them again".to_owned();
        findings.push(Finding::careful("mirror", words, mend));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::doctor::Health;

    const NOW_US: i64 = 1_800_000_000_000_000;

    fn facts(kept: &[&str], expires_us: i64) -> Facts {
        Facts {
            service: "whoop".to_owned(),
            client_id: None,
            kept: kept.iter().map(|name| (*name).to_owned()).collect(),
            token_type: "bearer".to_owned(),
            scopes: Vec::new(),
            expires_us: Some(expires_us),
            created_us: 0,
            refreshed_us: None,
            refreshing_us: None,
            state: State::Live,
        }
    }

    #[test]
    fn a_login_is_judged_by_what_can_be_done_with_it() {
        let (before, after) = (NOW_US - 1, NOW_US + 1);
        let dead = State::Dead { since_us: 0, words: "consent withdrawn".to_owned() };
        for (facts, health) in [
            (facts(&["access", "refresh"], after), Health::Good),
            (facts(&["access", "refresh"], before), Health::Good),
            (facts(&["access"], after), Health::Careful),
            (facts(&["access"], before), Health::Wrong),
            (Facts { state: dead, ..facts(&["access", "refresh"], after) }, Health::Wrong),
            (Facts { refreshing_us: Some(0), ..facts(&["refresh"], after) }, Health::Careful),
        ] {
            let finding = judged("whoop", &facts, NOW_US);
            assert_eq!(finding.health, health, "{}", finding.words);
            let mends = finding.mend.is_some_and(|mend| mend.contains("tollgate connect whoop"));
            assert_eq!(mends, health != Health::Good);
        }
    }

    #[test]
    fn a_mirror_is_old_when_syncs_did_not_come() {
        let ago = |us: i64| LastSync { good_us: Some(NOW_US - us), failed: Vec::new() };
        let failed = LastSync { failed: vec!["sleeps: no".to_owned()], ..ago(0) };
        for (last, health) in [
            (LastSync::default(), Health::Careful),
            (ago(MINUTE_US), Health::Good),
            (ago(DAY_US - 1), Health::Good),
            (ago(DAY_US + 1), Health::Careful),
            (failed, Health::Careful),
        ] {
            assert_eq!(fresh("whoop", &last, 30, NOW_US).health, health, "{last:?}");
        }
    }
}

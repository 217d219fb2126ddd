//! WHOOP's word that something changed. The signature is the proof of who speaks; the word itself is
//! not believed beyond that: what changed is fetched from WHOOP like everything else.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;
use store::records::RecordsError;
use store::secret::Secret;

use super::SERVICE;
use super::api::{self, Endpoint, Patience};
use super::keep::keep;
use super::kind::{CURRENT, Kind};
use super::problem::{Code, Problem};
use crate::Desk;

/// A delivery is a few hundred bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// A signature is good for this long, before and after; WHOOP's clock and ours may differ.
const FRESH_MS: i64 = 5 * 60 * 1000;
/// Deliveries are remembered far beyond the time in which their signature is good, because WHOOP
/// itself repeats one for about an hour when our answer was lost.
const REMEMBERED_US: i64 = 24 * 3_600 * 1_000_000;
const REMEMBERED_MAX: usize = 5_000;
const MEMORY_KEY: &str = "webhook/seen";
const ENDPOINT: &str = "/hooks/whoop";

/// What came to the door.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// `X-WHOOP-Signature`
    pub signature: Option<&'a str>,
    /// `X-WHOOP-Signature-Timestamp`
    pub timestamp: Option<&'a str>,
    /// Exactly as it came; signed as bytes.
    pub body: &'a [u8],
}

/// A delivery that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    user: i64,
    id: String,
    about: About,
    deleted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Workout,
    Sleep,
    Recovery,
}

/// Why a delivery is not taken. Never holds a secret or what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No signature, or one that cannot be read.
    Unsigned,
    Forged,
    /// Signed too long ago, or for a time to come.
    Stale,
    Repeated,
    TooLarge,
    Garbled,
    /// There is no client secret to check with.
    NotConnected,
    Store(String),
}

impl Refusal {
    /// The HTTP status that says so.
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Unsigned | Refusal::Forged | Refusal::Stale => 401,
            Refusal::Repeated => 409,
            Refusal::TooLarge => 413,
            Refusal::Garbled => 400,
            Refusal::NotConnected | Refusal::Store(_) => 503,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Unsigned => "the delivery is not signed",
            Refusal::Forged => "the signature is not WHOOP's",
            Refusal::Stale => "the signature is too old",
            Refusal::Repeated => "this delivery came before",
            Refusal::TooLarge => "the delivery is too large",
            Refusal::Garbled => "the delivery is not an event of WHOOP's second version",
            Refusal::NotConnected => "WHOOP is not connected here",
            Refusal::Store(words) => return write!(f, "the delivery cannot be noted: {words}"),
        })
    }
}

/// What an event led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    Kept {
        kind: Kind,
        id: String,
    },
    Removed {
        kind: Kind,
        id: String,
    },
    /// It was gone already, or never was here.
    NothingThere,
    /// The application has several members; this is about another one.
    SomebodyElse,
}

/// Checks signature, time and repetition, and notes the delivery. Asks nobody and takes well under a
/// millisecond, so WHOOP has its answer in time; [`apply`] does the work.
pub fn receive(desk: &Desk, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
    if delivery.body.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    let secrets = secrets(desk)?;
    check(delivery, &secrets, desk.clock.now().wall_us / 1000)?;
    let (event, trace) = event(delivery.body).ok_or(Refusal::Garbled)?;
    remember(desk, &trace)?;
    Ok(event)
}

/// The secrets that may have signed: those in use, and the one before the last change.
fn secrets(desk: &Desk) -> Result<Vec<Secret>, Refusal> {
    let account = desk.accounts.load(SERVICE.name).map_err(|e| Refusal::Store(first_line(&e)))?;
    let settings = desk.settings.of(&SERVICE).and_then(|of| of.client_secret.clone());
    let mut secrets: Vec<Secret> = settings.into_iter().collect();
    if let Some(account) = account {
        secrets.extend(account.previous_secret(desk.clock.now().wall_us).cloned());
        secrets.extend(account.client_secret);
    }
    if secrets.is_empty() { Err(Refusal::NotConnected) } else { Ok(secrets) }
}

/// Is it WHOOP's, and new enough?
fn check(delivery: &Delivery<'_>, secrets: &[Secret], now_ms: i64) -> Result<(), Refusal> {
    let (Some(signature), Some(timestamp)) = (delivery.signature, delivery.timestamp) else {
        return Err(Refusal::Unsigned);
    };
    let signature = STANDARD.decode(signature.trim()).map_err(|_| Refusal::Unsigned)?;
    let signed_ms: i64 = timestamp.trim().parse().map_err(|_| Refusal::Unsigned)?;
    let is_signed_by = |secret: &Secret| {
        let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes());
        mac.is_ok_and(|mac| {
            let mac = mac.chain_update(timestamp.as_bytes()).chain_update(delivery.body);
            mac.verify_slice(&signature).is_ok()
        })
    };
    if !secrets.iter().any(is_signed_by) {
        return Err(Refusal::Forged);
    }
    // Only now: what an unsigned stamp says is nobody's business.
    if signed_ms.abs_diff(now_ms) > FRESH_MS.unsigned_abs() {
        return Err(Refusal::Stale);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Body {
    user_id: i64,
    id: Value,
    #[serde(rename = "type")]
    what: String,
    trace_id: String,
}

fn event(body: &[u8]) -> Option<(Event, String)> {
    let body: Body = serde_json::from_slice(body).ok()?;
    let (about, change) = body.what.split_once('.')?;
    let about = match about {
        "workout" => About::Workout,
        "sleep" => About::Sleep,
        "recovery" => About::Recovery,
        _ => return None,
    };
    let deleted = match change {
        "updated" => false,
        "deleted" => true,
        _ => return None,
    };
    let id = match body.id {
        Value::String(id) if !id.is_empty() => id,
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let is_named = !body.trace_id.is_empty() && body.trace_id.len() <= 200;
    is_named.then_some((Event { user: body.user_id, id, about, deleted }, body.trace_id))
}

/// Two deliveries of one event may come at the same time.
static MEMORY: Mutex<()> = Mutex::new(());

fn remember(desk: &Desk, trace: &str) -> Result<(), Refusal> {
    let _one_at_a_time = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error: RecordsError| Refusal::Store(first_line(&error));
    let now_us = desk.clock.now().wall_us;
    let text = desk.records.state_get(SERVICE.name, MEMORY_KEY).map_err(failed)?;
    let seen: Vec<(String, i64)> =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if seen.iter().any(|(known, _)| known == trace) {
        return Err(Refusal::Repeated);
    }
    let mut seen: Vec<(String, i64)> =
        seen.into_iter().filter(|(_, at_us)| now_us - at_us < REMEMBERED_US).collect();
    seen.push((trace.to_owned(), now_us));
    let surplus = seen.len().saturating_sub(REMEMBERED_MAX);
    seen.drain(..surplus);
    desk.records.state_put(SERVICE.name, MEMORY_KEY, &json!(seen).to_string()).map_err(failed)
}

fn first_line(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Fetches what an event speaks of and keeps it, or takes out what was deleted.
pub async fn apply(desk: &Desk, event: &Event) -> Result<Applied, Problem> {
    if is_somebody_else(desk, event.user)? {
        return Ok(Applied::SomebodyElse);
    }
    match (event.about, event.deleted) {
        (About::Workout, false) => fetch(desk, Kind::Workouts, &event.id).await,
        (About::Sleep, false) => fetch(desk, Kind::Sleeps, &event.id).await,
        (About::Workout, true) => remove(desk, Kind::Workouts, &event.id),
        (About::Sleep, true) => remove(desk, Kind::Sleeps, &event.id),
        (About::Recovery, deleted) => recovery(desk, &event.id, deleted).await,
    }
}

/// Every event of an application goes to every address; the profile says who the owner is.
fn is_somebody_else(desk: &Desk, user: i64) -> Result<bool, Problem> {
    let profile = desk
        .records
        .one(SERVICE.name, Kind::Profile.name(), CURRENT)
        .map_err(|e| Problem::cache(ENDPOINT, &e))?;
    let owner = profile.and_then(|row| serde_json::from_str::<Value>(&row.raw).ok());
    let owner = owner.and_then(|raw| raw.get("user_id").and_then(Value::as_i64));
    Ok(owner.is_some_and(|owner| owner != user))
}

async fn fetch(desk: &Desk, kind: Kind, id: &str) -> Result<Applied, Problem> {
    let Some(endpoint) = Endpoint::of(kind, id) else { return Ok(Applied::NothingThere) };
    match api::get(desk, endpoint, &[], Patience::BRIEF).await {
        Ok(fetched) => {
            keep(desk, kind, &[fetched.text()]).map_err(|e| Problem::cache(ENDPOINT, &e))?;
            Ok(Applied::Kept { kind, id: id.to_owned() })
        }
        // It was deleted between the event and now.
        Err(problem) if problem.code == Code::NotFound => remove(desk, kind, id),
        Err(problem) => Err(problem),
    }
}

fn remove(desk: &Desk, kind: Kind, id: &str) -> Result<Applied, Problem> {
    let ids = [id.to_owned()];
    let now_us = desk.clock.now().wall_us;
    let removed = desk.records.remove(SERVICE.name, kind.name(), &ids, now_us);
    match removed.map_err(|e| Problem::cache(ENDPOINT, &e))? {
        0 => Ok(Applied::NothingThere),
        _ => Ok(Applied::Removed { kind, id: id.to_owned() }),
    }
}

/// A recovery is named by its sleep, and asked for by its cycle; the sleep leads from one to the
/// other. A sleep that is gone upstream may still be here.
async fn recovery(desk: &Desk, sleep: &str, deleted: bool) -> Result<Applied, Problem> {
    if !deleted {
        fetch(desk, Kind::Sleeps, sleep).await?;
    }
    let Some(cycle) = cycle_of(desk, sleep)? else { return Ok(Applied::NothingThere) };
    if deleted {
        return remove(desk, Kind::Recoveries, &cycle);
    }
    let known = desk.records.one(SERVICE.name, Kind::Cycles.name(), &cycle);
    if known.map_err(|e| Problem::cache(ENDPOINT, &e))?.is_none() {
        // The recovery takes its times from the cycle.
        fetch(desk, Kind::Cycles, &cycle).await?;
    }
    fetch(desk, Kind::Recoveries, &cycle).await
}

fn cycle_of(desk: &Desk, sleep: &str) -> Result<Option<String>, Problem> {
    let row = desk.records.one(SERVICE.name, Kind::Sleeps.name(), sleep);
    Ok(row.map_err(|e| Problem::cache(ENDPOINT, &e))?.and_then(|row| row.parent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const NOW_MS: i64 = 1_790_000_000_000;
    const BODY: &[u8] = br#"{"user_id":7,"id":"a-b","type":"sleep.updated","trace_id":"t1"}"#;

    fn sign(secret: &str, timestamp: &str, body: &[u8]) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        let mac = mac.chain_update(timestamp.as_bytes()).chain_update(body);
        STANDARD.encode(mac.finalize().into_bytes())
    }

    #[test]
    fn only_whoops_own_word_of_these_minutes_is_taken() {
        let secrets = [Secret::new("new".to_owned()), Secret::new("old".to_owned())];
        let now = NOW_MS.to_string();
        let late = (NOW_MS - FRESH_MS - 1).to_string();
        let early = (NOW_MS + FRESH_MS + 1).to_string();
        let good = sign("new", &now, BODY);
        let before = sign("old", &now, BODY);
        let wrong = sign("else", &now, BODY);
        let (old_stamp, far_stamp) = (sign("new", &late, BODY), sign("new", &early, BODY));
        for (signature, timestamp, body, expected) in [
            (Some(good.as_str()), Some(now.as_str()), BODY, Ok(())),
            (Some(&before), Some(&now), BODY, Ok(())),
            (Some(&wrong), Some(&now), BODY, Err(Refusal::Forged)),
            (Some(&good), Some(&now), b"{}", Err(Refusal::Forged)),
            (Some(&good), Some(&late), BODY, Err(Refusal::Forged)),
            (Some(&old_stamp), Some(&late), BODY, Err(Refusal::Stale)),
            (Some(&far_stamp), Some(&early), BODY, Err(Refusal::Stale)),
            (None, Some(&now), BODY, Err(Refusal::Unsigned)),
            (Some(&good), None, BODY, Err(Refusal::Unsigned)),
            (Some("%%%"), Some(&now), BODY, Err(Refusal::Unsigned)),
            (Some(""), Some(&now), BODY, Err(Refusal::Forged)),
            (Some(&good), Some("soon"), BODY, Err(Refusal::Unsigned)),
        ] {
            let delivery = Delivery { signature, timestamp, body };
            assert_eq!(check(&delivery, &secrets, NOW_MS), expected, "{signature:?} {timestamp:?}");
        }
    }

    #[test]
    fn events_of_the_second_version_are_read_and_others_are_not() {
        let (read, trace) = event(BODY).unwrap();
        assert_eq!((read.user, read.id.as_str(), trace.as_str()), (7, "a-b", "t1"));
        for body in [
            &br#"{"user_id":7,"id":"a","type":"cycle.updated","trace_id":"t"}"#[..],
            br#"{"user_id":7,"id":"a","type":"sleep.moved","trace_id":"t"}"#,
            br#"{"user_id":7,"id":"","type":"sleep.updated","trace_id":"t"}"#,
            br#"{"user_id":7,"id":"a","type":"sleep.updated"}"#,
            b"[]",
            b"",
        ] {
            assert!(event(body).is_none(), "{}", String::from_utf8_lossy(body));
        }
    }
}

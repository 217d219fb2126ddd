//! WHOOP's notifications of changes. The signature proves the sender; the content is only a hint: the
//! changed record is fetched from WHOOP.

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
use super::api::{self, ApiPath, WaitPolicy};
use super::kind::{CURRENT, Kind};
use super::mirror_writer::store_page;
use super::problem::{WhoopCode, WhoopProblem};
use crate::ConnectorContext;
use crate::webhook::{Rejection, Webhook};

/// A delivery is a few hundred bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// A signature is valid for this long, before and after; WHOOP's clock and ours may differ.
const FRESH_MS: i64 = 5 * 60 * 1000;
/// Deliveries are remembered far longer than their signature is valid, because WHOOP
/// itself repeats one for about an hour if our response was lost.
const REMEMBERED_US: i64 = 24 * 3_600 * 1_000_000;
const REMEMBERED_MAX: usize = 5_000;
const MEMORY_KEY: &str = "webhook/seen";
const ENDPOINT: &str = "/hooks/whoop";

/// A received delivery.
#[derive(Clone, Copy)]
pub struct SignedDelivery<'a> {
    /// `X-WHOOP-Signature`
    pub signature: Option<&'a str>,
    /// `X-WHOOP-Signature-Timestamp`
    pub timestamp: Option<&'a str>,
    /// Exactly as received; signed as bytes.
    pub body: &'a [u8],
}

/// A verified delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEvent {
    user: i64,
    id: String,
    about: RecordType,
    deleted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordType {
    Workout,
    Sleep,
    Recovery,
}

/// Why a delivery is refused. Never holds a secret or its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryRefusal {
    /// No signature, or one that cannot be read.
    Unsigned,
    Forged,
    /// Signed too long ago, or in the future.
    Stale,
    Repeated,
    TooLarge,
    Malformed,
    /// There is no client secret to check with.
    NotConnected,
    Store(String),
}

impl DeliveryRefusal {
    /// The HTTP status of the refusal.
    pub fn status(&self) -> u16 {
        match self {
            DeliveryRefusal::Unsigned | DeliveryRefusal::Forged | DeliveryRefusal::Stale => 401,
            DeliveryRefusal::Repeated => 409,
            DeliveryRefusal::TooLarge => 413,
            DeliveryRefusal::Malformed => 400,
            DeliveryRefusal::NotConnected | DeliveryRefusal::Store(_) => 503,
        }
    }
}

impl fmt::Display for DeliveryRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeliveryRefusal::Unsigned => "the delivery is not signed",
            DeliveryRefusal::Forged => "the signature is not WHOOP's",
            DeliveryRefusal::Stale => "the signature is too old",
            DeliveryRefusal::Repeated => "this delivery came before",
            DeliveryRefusal::TooLarge => "the delivery is too large",
            DeliveryRefusal::Malformed => "the delivery is not an event of WHOOP's second version",
            DeliveryRefusal::NotConnected => "WHOOP is not connected here",
            DeliveryRefusal::Store(message) => {
                return write!(f, "the delivery cannot be noted: {message}");
            }
        })
    }
}

/// The effect of an event.
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
    /// The record was not in the mirror.
    NothingThere,
    /// The application has several members; this is about another one.
    OtherMember,
}

/// WHOOP's notifications, as the gate receives them.
pub const WEBHOOK: Webhook = Webhook {
    body_bytes_max: BODY_BYTES_MAX,
    receive: |ctx, delivery| {
        let delivery = SignedDelivery {
            signature: (delivery.header)("x-whoop-signature"),
            timestamp: (delivery.header)("x-whoop-signature-timestamp"),
            body: delivery.body,
        };
        let event = receive(ctx, &delivery).map_err(|refusal| Rejection {
            status: refusal.status(),
            reason: refusal.to_string(),
        })?;
        Ok(Box::new(move |ctx| {
            Box::pin(async move {
                apply(&ctx, &event).await.map(drop).map_err(|problem| problem.to_string())
            })
        }))
    },
};

/// Checks signature, time and repetition, and records the delivery. Sends no request and takes well
/// under a millisecond, so WHOOP gets its response in time; [`apply`] does the work.
pub fn receive(
    ctx: &ConnectorContext,
    delivery: &SignedDelivery<'_>,
) -> Result<WebhookEvent, DeliveryRefusal> {
    if delivery.body.len() > BODY_BYTES_MAX {
        return Err(DeliveryRefusal::TooLarge);
    }
    let secrets = secrets(ctx)?;
    check(delivery, &secrets, ctx.clock.now().wall_us / 1000)?;
    let (event, trace) = event(delivery.body).ok_or(DeliveryRefusal::Malformed)?;
    remember(ctx, &trace)?;
    Ok(event)
}

/// The secrets that may have signed: those in use, and the one before the last change.
fn secrets(ctx: &ConnectorContext) -> Result<Vec<Secret>, DeliveryRefusal> {
    let account =
        ctx.accounts.load(SERVICE.name).map_err(|e| DeliveryRefusal::Store(first_line(&e)))?;
    let settings = ctx.settings.of(&SERVICE).and_then(|of| of.client_secret.clone());
    let mut secrets: Vec<Secret> = settings.into_iter().collect();
    if let Some(account) = account {
        secrets.extend(account.previous_secret(ctx.clock.now().wall_us).cloned());
        secrets.extend(account.client_secret);
    }
    if secrets.is_empty() { Err(DeliveryRefusal::NotConnected) } else { Ok(secrets) }
}

/// Is it signed by WHOOP, and recent enough?
fn check(
    delivery: &SignedDelivery<'_>,
    secrets: &[Secret],
    now_ms: i64,
) -> Result<(), DeliveryRefusal> {
    let (Some(signature), Some(timestamp)) = (delivery.signature, delivery.timestamp) else {
        return Err(DeliveryRefusal::Unsigned);
    };
    let signature = STANDARD.decode(signature.trim()).map_err(|_| DeliveryRefusal::Unsigned)?;
    let signed_ms: i64 = timestamp.trim().parse().map_err(|_| DeliveryRefusal::Unsigned)?;
    let is_signed_by = |secret: &Secret| {
        let mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes());
        mac.is_ok_and(|mac| {
            let mac = mac.chain_update(timestamp.as_bytes()).chain_update(delivery.body);
            mac.verify_slice(&signature).is_ok()
        })
    };
    if !secrets.iter().any(is_signed_by) {
        return Err(DeliveryRefusal::Forged);
    }
    // Checked after the signature: an unsigned time means nothing.
    if signed_ms.abs_diff(now_ms) > FRESH_MS.unsigned_abs() {
        return Err(DeliveryRefusal::Stale);
    }
    Ok(())
}

#[derive(Deserialize)]
struct EventBody {
    user_id: i64,
    id: Value,
    #[serde(rename = "type")]
    what: String,
    trace_id: String,
}

fn event(body: &[u8]) -> Option<(WebhookEvent, String)> {
    let body: EventBody = serde_json::from_slice(body).ok()?;
    let (about, change) = body.what.split_once('.')?;
    let about = match about {
        "workout" => RecordType::Workout,
        "sleep" => RecordType::Sleep,
        "recovery" => RecordType::Recovery,
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
    is_named.then_some((WebhookEvent { user: body.user_id, id, about, deleted }, body.trace_id))
}

/// Two deliveries of one event may come at the same time.
static MEMORY: Mutex<()> = Mutex::new(());

fn remember(ctx: &ConnectorContext, trace: &str) -> Result<(), DeliveryRefusal> {
    let _one_at_a_time = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error: RecordsError| DeliveryRefusal::Store(first_line(&error));
    let now_us = ctx.clock.now().wall_us;
    let text = ctx.records.state_get(SERVICE.name, MEMORY_KEY).map_err(failed)?;
    let seen: Vec<(String, i64)> =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    if seen.iter().any(|(known, _)| known == trace) {
        return Err(DeliveryRefusal::Repeated);
    }
    let mut seen: Vec<(String, i64)> =
        seen.into_iter().filter(|(_, at_us)| now_us - at_us < REMEMBERED_US).collect();
    seen.push((trace.to_owned(), now_us));
    let surplus = seen.len().saturating_sub(REMEMBERED_MAX);
    seen.drain(..surplus);
    ctx.records.state_put(SERVICE.name, MEMORY_KEY, &json!(seen).to_string()).map_err(failed)
}

fn first_line(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Fetches and stores the record of an event, or deletes it.
pub async fn apply(ctx: &ConnectorContext, event: &WebhookEvent) -> Result<Applied, WhoopProblem> {
    if is_somebody_else(ctx, event.user)? {
        return Ok(Applied::OtherMember);
    }
    match (event.about, event.deleted) {
        (RecordType::Workout, false) => fetch(ctx, Kind::Workouts, &event.id).await,
        (RecordType::Sleep, false) => fetch(ctx, Kind::Sleeps, &event.id).await,
        (RecordType::Workout, true) => remove(ctx, Kind::Workouts, &event.id),
        (RecordType::Sleep, true) => remove(ctx, Kind::Sleeps, &event.id),
        (RecordType::Recovery, deleted) => recovery(ctx, &event.id, deleted).await,
    }
}

/// Every event of an application goes to every registered URL; the profile identifies the owner.
fn is_somebody_else(ctx: &ConnectorContext, user: i64) -> Result<bool, WhoopProblem> {
    let profile = ctx
        .records
        .one(SERVICE.name, Kind::Profile.name(), CURRENT)
        .map_err(|e| WhoopProblem::cache(ENDPOINT, &e))?;
    let owner = profile.and_then(|row| serde_json::from_str::<Value>(&row.raw).ok());
    let owner = owner.and_then(|raw| raw.get("user_id").and_then(Value::as_i64));
    Ok(owner.is_some_and(|owner| owner != user))
}

async fn fetch(ctx: &ConnectorContext, kind: Kind, id: &str) -> Result<Applied, WhoopProblem> {
    let Some(endpoint) = ApiPath::of(kind, id) else { return Ok(Applied::NothingThere) };
    match api::get(ctx, endpoint, &[], WaitPolicy::BRIEF).await {
        Ok(fetched) => {
            store_page(ctx, kind, &[fetched.text()])
                .map_err(|e| WhoopProblem::cache(ENDPOINT, &e))?;
            Ok(Applied::Kept { kind, id: id.to_owned() })
        }
        // It was deleted between the event and now.
        Err(problem) if problem.code == WhoopCode::NotFound => remove(ctx, kind, id),
        Err(problem) => Err(problem),
    }
}

fn remove(ctx: &ConnectorContext, kind: Kind, id: &str) -> Result<Applied, WhoopProblem> {
    let ids = [id.to_owned()];
    let now_us = ctx.clock.now().wall_us;
    let removed = ctx.records.remove(SERVICE.name, kind.name(), &ids, now_us);
    match removed.map_err(|e| WhoopProblem::cache(ENDPOINT, &e))? {
        0 => Ok(Applied::NothingThere),
        _ => Ok(Applied::Removed { kind, id: id.to_owned() }),
    }
}

/// An event names a recovery by its sleep, and WHOOP returns it by its cycle; the sleep links the
/// two. A sleep that was deleted upstream may still be in the mirror.
async fn recovery(
    ctx: &ConnectorContext,
    sleep: &str,
    deleted: bool,
) -> Result<Applied, WhoopProblem> {
    if !deleted {
        fetch(ctx, Kind::Sleeps, sleep).await?;
    }
    let Some(cycle) = cycle_of(ctx, sleep)? else { return Ok(Applied::NothingThere) };
    if deleted {
        return remove(ctx, Kind::Recoveries, &cycle);
    }
    let known = ctx.records.one(SERVICE.name, Kind::Cycles.name(), &cycle);
    if known.map_err(|e| WhoopProblem::cache(ENDPOINT, &e))?.is_none() {
        // The recovery takes its times from the cycle.
        fetch(ctx, Kind::Cycles, &cycle).await?;
    }
    fetch(ctx, Kind::Recoveries, &cycle).await
}

fn cycle_of(ctx: &ConnectorContext, sleep: &str) -> Result<Option<String>, WhoopProblem> {
    let row = ctx.records.one(SERVICE.name, Kind::Sleeps.name(), sleep);
    Ok(row.map_err(|e| WhoopProblem::cache(ENDPOINT, &e))?.and_then(|row| row.parent))
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
    fn only_recent_deliveries_of_whoop_are_accepted() {
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
            (Some(&wrong), Some(&now), BODY, Err(DeliveryRefusal::Forged)),
            (Some(&good), Some(&now), b"{}", Err(DeliveryRefusal::Forged)),
            (Some(&good), Some(&late), BODY, Err(DeliveryRefusal::Forged)),
            (Some(&old_stamp), Some(&late), BODY, Err(DeliveryRefusal::Stale)),
            (Some(&far_stamp), Some(&early), BODY, Err(DeliveryRefusal::Stale)),
            (None, Some(&now), BODY, Err(DeliveryRefusal::Unsigned)),
            (Some(&good), None, BODY, Err(DeliveryRefusal::Unsigned)),
            (Some("%%%"), Some(&now), BODY, Err(DeliveryRefusal::Unsigned)),
            (Some(""), Some(&now), BODY, Err(DeliveryRefusal::Forged)),
            (Some(&good), Some("soon"), BODY, Err(DeliveryRefusal::Unsigned)),
        ] {
            let delivery = SignedDelivery { signature, timestamp, body };
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

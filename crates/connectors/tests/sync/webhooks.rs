//! WHOOP's notifications.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use connectors::whoop::SERVICE;
use connectors::whoop::kind::Kind;
use connectors::whoop::webhook::{Applied, DeliveryRefusal, SignedDelivery, apply, receive};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use store::clock::Clock;
use store::secret::Secret;

use crate::fixture::{DAY_US, Fixture};

struct Signed {
    signature: String,
    timestamp: String,
    body: Vec<u8>,
}

impl Signed {
    fn new(fixture: &Fixture, body: &Value) -> Signed {
        let ready = fixture.sandbox.control().ready();
        Signed::with(fixture, body, ready["client_secret"].as_str().unwrap())
    }

    fn with(fixture: &Fixture, body: &Value, secret: &str) -> Signed {
        let timestamp = (fixture.ctx.clock.now().wall_us / 1000).to_string();
        let body = body.to_string().into_bytes();
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes()).unwrap();
        let mac = mac.chain_update(timestamp.as_bytes()).chain_update(&body).finalize();
        Signed { signature: STANDARD.encode(mac.into_bytes()), timestamp, body }
    }

    fn delivery(&self) -> SignedDelivery<'_> {
        SignedDelivery {
            signature: Some(&self.signature),
            timestamp: Some(&self.timestamp),
            body: &self.body,
        }
    }
}

fn user(fixture: &Fixture) -> i64 {
    fixture.mirrored("profile")["current"]["user_id"].as_i64().unwrap()
}

#[tokio::test]
async fn records_named_by_an_event_are_fetched_or_deleted() {
    let fixture = Fixture::new(60);
    fixture.full().await;
    let user = user(&fixture);
    let (cycle, recovery) = fixture.upstream("recovery").into_iter().nth(20).unwrap();
    let sleep = recovery["sleep_id"].as_str().unwrap().to_owned();
    let workout = fixture.upstream("workout").into_keys().nth(3).unwrap();
    let mut trace = 0;
    let mut event = |what: &str, id: &str| {
        trace += 1;
        json!({"user_id": user, "id": id, "type": what, "trace_id": format!("t{trace}")})
    };
    let say = async |body: &Value| {
        let signed = Signed::new(&fixture, body);
        let event = receive(&fixture.ctx, &signed.delivery()).unwrap();
        apply(&fixture.ctx, &event).await.unwrap()
    };

    fixture.edit("workout", &workout, &json!({"sport_name": "curling"}));
    let kept = say(&event("workout.updated", &workout)).await;
    assert_eq!(kept, Applied::Kept { kind: Kind::Workouts, id: workout.clone() });
    assert_eq!(fixture.mirrored("workouts")[&workout]["sport_name"], "curling");

    // The id of a recovery event is that of its sleep.
    fixture.edit("recovery", &sleep, &json!({"score_state": "UNSCORABLE"}));
    let kept = say(&event("recovery.updated", &sleep)).await;
    assert_eq!(kept, Applied::Kept { kind: Kind::Recoveries, id: cycle.clone() });
    assert_eq!(fixture.mirrored("recoveries")[&cycle]["score_state"], "UNSCORABLE");

    let gone = say(&event("recovery.deleted", &sleep)).await;
    assert_eq!(gone, Applied::Removed { kind: Kind::Recoveries, id: cycle.clone() });
    let gone = say(&event("sleep.deleted", &sleep)).await;
    assert_eq!(gone, Applied::Removed { kind: Kind::Sleeps, id: sleep.clone() });
    assert_eq!(say(&event("sleep.deleted", &sleep)).await, Applied::NothingThere);

    // Deleted upstream between the event and the request.
    fixture.sandbox.control().remove("workout", &workout).unwrap();
    let gone = say(&event("workout.updated", &workout)).await;
    assert_eq!(gone, Applied::Removed { kind: Kind::Workouts, id: workout });

    let other_person =
        json!({"user_id": user + 1, "id": sleep, "type": "sleep.updated", "trace_id": "s"});
    assert_eq!(say(&other_person).await, Applied::OtherMember);
}

#[tokio::test]
async fn a_delivery_is_taken_once_and_only_with_whoops_signature() {
    let fixture = Fixture::new(30);
    let body = json!({"user_id": 1, "id": "x", "type": "sleep.updated", "trace_id": "once"});
    let signed = Signed::new(&fixture, &body);
    assert!(receive(&fixture.ctx, &signed.delivery()).is_ok());
    let again = receive(&fixture.ctx, &signed.delivery());
    assert_eq!(again.as_ref().map_err(DeliveryRefusal::status), Err(409));
    let forged = SignedDelivery { body: b"{}", ..signed.delivery() };
    assert_eq!(receive(&fixture.ctx, &forged), Err(DeliveryRefusal::Forged));
    assert_eq!(DeliveryRefusal::Forged.status(), 401);
    // Signed a second time, it is still the same event.
    let resigned = Signed::new(&fixture, &body);
    assert_eq!(receive(&fixture.ctx, &resigned.delivery()), Err(DeliveryRefusal::Repeated));
}

#[tokio::test]
async fn the_secret_before_the_last_change_counts_for_a_day() {
    let clock = Clock::set(Clock::System.now());
    let fixture = Fixture::at(5, clock.clone());
    let before = fixture.ctx.accounts.load("whoop").unwrap().unwrap();
    let mut after = before.clone();
    after.client_secret = Some(Secret::new("the new one"));
    after.created_us = fixture.ctx.clock.now().wall_us;
    after.remember_secret(&before);
    // The environment may hold the secret, too; here only the account does.
    let settings = &fixture.ctx.settings;
    let old = settings.of(&SERVICE).unwrap().client_secret.clone().unwrap();
    let mut ctx = fixture.second_desk();
    ctx.clock = clock.clone();
    let mut bare = settings.of(&SERVICE).unwrap().clone();
    bare.client_secret = None;
    ctx.settings.put(&SERVICE, bare);
    fixture.ctx.accounts.lock("whoop").unwrap().save(&after).unwrap();
    let say = |secret: &str, trace: &str| {
        let body = json!({"user_id": 1, "id": "x", "type": "sleep.updated", "trace_id": trace});
        let signed = Signed::with(&fixture, &body, secret);
        receive(&ctx, &signed.delivery()).map(drop)
    };
    assert_eq!(say("the new one", "a"), Ok(()));
    assert_eq!(say(old.expose(), "b"), Ok(()));
    assert_eq!(say("neither", "c"), Err(DeliveryRefusal::Forged));
    clock.advance(DAY_US + 1);
    assert_eq!(say(old.expose(), "d"), Err(DeliveryRefusal::Forged));
    assert_eq!(say("the new one", "e"), Ok(()));
}

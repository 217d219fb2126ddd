//! WHOOP says that something changed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use connectors::whoop::SERVICE;
use connectors::whoop::kind::Kind;
use connectors::whoop::webhook::{Applied, Delivery, Refusal, apply, receive};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use store::clock::Clock;
use store::secret::Secret;

use crate::stage::{DAY_US, Stage};

struct Signed {
    signature: String,
    timestamp: String,
    body: Vec<u8>,
}

impl Signed {
    fn new(stage: &Stage, body: &Value) -> Signed {
        let ready = stage.sandbox.control().ready();
        Signed::with(stage, body, ready["client_secret"].as_str().unwrap())
    }

    fn with(stage: &Stage, body: &Value, secret: &str) -> Signed {
        let timestamp = (stage.desk.clock.now().wall_us / 1000).to_string();
        let body = body.to_string().into_bytes();
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes()).unwrap();
        let mac = mac.chain_update(timestamp.as_bytes()).chain_update(&body).finalize();
        Signed { signature: STANDARD.encode(mac.into_bytes()), timestamp, body }
    }

    fn delivery(&self) -> Delivery<'_> {
        Delivery {
            signature: Some(&self.signature),
            timestamp: Some(&self.timestamp),
            body: &self.body,
        }
    }
}

fn user(stage: &Stage) -> i64 {
    stage.mirrored("profile")["current"]["user_id"].as_i64().unwrap()
}

#[tokio::test]
async fn what_an_event_names_is_fetched_and_deletions_are_followed() {
    let stage = Stage::new(60);
    stage.full().await;
    let user = user(&stage);
    let (cycle, recovery) = stage.upstream("recovery").into_iter().nth(20).unwrap();
    let sleep = recovery["sleep_id"].as_str().unwrap().to_owned();
    let workout = stage.upstream("workout").into_keys().nth(3).unwrap();
    let mut trace = 0;
    let mut event = |what: &str, id: &str| {
        trace += 1;
        json!({"user_id": user, "id": id, "type": what, "trace_id": format!("t{trace}")})
    };
    let say = async |body: &Value| {
        let signed = Signed::new(&stage, body);
        let event = receive(&stage.desk, &signed.delivery()).unwrap();
        apply(&stage.desk, &event).await.unwrap()
    };

    stage.edit("workout", &workout, &json!({"sport_name": "curling"}));
    let kept = say(&event("workout.updated", &workout)).await;
    assert_eq!(kept, Applied::Kept { kind: Kind::Workouts, id: workout.clone() });
    assert_eq!(stage.mirrored("workouts")[&workout]["sport_name"], "curling");

    // The id of a recovery event is that of its sleep.
    stage.edit("recovery", &sleep, &json!({"score_state": "UNSCORABLE"}));
    let kept = say(&event("recovery.updated", &sleep)).await;
    assert_eq!(kept, Applied::Kept { kind: Kind::Recoveries, id: cycle.clone() });
    assert_eq!(stage.mirrored("recoveries")[&cycle]["score_state"], "UNSCORABLE");

    let gone = say(&event("recovery.deleted", &sleep)).await;
    assert_eq!(gone, Applied::Removed { kind: Kind::Recoveries, id: cycle.clone() });
    let gone = say(&event("sleep.deleted", &sleep)).await;
    assert_eq!(gone, Applied::Removed { kind: Kind::Sleeps, id: sleep.clone() });
    assert_eq!(say(&event("sleep.deleted", &sleep)).await, Applied::NothingThere);

    // Gone upstream between the event and the question.
    stage.sandbox.control().remove("workout", &workout).unwrap();
    let gone = say(&event("workout.updated", &workout)).await;
    assert_eq!(gone, Applied::Removed { kind: Kind::Workouts, id: workout });

    let somebody =
        json!({"user_id": user + 1, "id": sleep, "type": "sleep.updated", "trace_id": "s"});
    assert_eq!(say(&somebody).await, Applied::SomebodyElse);
}

#[tokio::test]
async fn a_delivery_is_taken_once_and_only_with_whoops_signature() {
    let stage = Stage::new(30);
    let body = json!({"user_id": 1, "id": "x", "type": "sleep.updated", "trace_id": "once"});
    let signed = Signed::new(&stage, &body);
    assert!(receive(&stage.desk, &signed.delivery()).is_ok());
    let again = receive(&stage.desk, &signed.delivery());
    assert_eq!(again.as_ref().map_err(Refusal::status), Err(409));
    let forged = Delivery { body: b"{}", ..signed.delivery() };
    assert_eq!(receive(&stage.desk, &forged), Err(Refusal::Forged));
    assert_eq!(Refusal::Forged.status(), 401);
    // Signed a second time, it is still the same event.
    let resigned = Signed::new(&stage, &body);
    assert_eq!(receive(&stage.desk, &resigned.delivery()), Err(Refusal::Repeated));
}

#[tokio::test]
async fn the_secret_before_the_last_change_counts_for_a_day() {
    let clock = Clock::set(Clock::System.now());
    let stage = Stage::at(5, clock.clone());
    let before = stage.desk.accounts.load("whoop").unwrap().unwrap();
    let mut after = before.clone();
    after.client_secret = Some(Secret::new("the new one"));
    after.created_us = stage.desk.clock.now().wall_us;
    after.remember_secret(&before);
    // The environment may name the secret, too; here only the account does.
    let settings = &stage.desk.settings;
    let old = settings.of(&SERVICE).unwrap().client_secret.clone().unwrap();
    let mut desk = stage.second_desk();
    desk.clock = clock.clone();
    let mut bare = settings.of(&SERVICE).unwrap().clone();
    bare.client_secret = None;
    desk.settings.put(&SERVICE, bare);
    stage.desk.accounts.lock("whoop").unwrap().save(&after).unwrap();
    let say = |secret: &str, trace: &str| {
        let body = json!({"user_id": 1, "id": "x", "type": "sleep.updated", "trace_id": trace});
        let signed = Signed::with(&stage, &body, secret);
        receive(&desk, &signed.delivery()).map(drop)
    };
    assert_eq!(say("the new one", "a"), Ok(()));
    assert_eq!(say(old.expose(), "b"), Ok(()));
    assert_eq!(say("neither", "c"), Err(Refusal::Forged));
    clock.advance(DAY_US + 1);
    assert_eq!(say(old.expose(), "d"), Err(Refusal::Forged));
    assert_eq!(say("the new one", "e"), Ok(()));
}

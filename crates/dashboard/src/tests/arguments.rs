//! Captured arguments reach the roles that may read them and no other, and each look is in the log.

use hmac::Mac;
use store::captures::CaptureLimits;
use store::ledger::{Facts, Filter, Refusal, RefusalKind};
use store::vault::Purpose;

use super::*;

const SECRET: &str = "word-that-is-only-here";

/// An entry whose arguments were captured.
fn captured_entry(stage: &Stage) -> u64 {
    let params = json!({ "text": SECRET, "markup": "<img src=x>" }).to_string();
    let mut mac = stage.registry.vault().digest(Purpose::ArgumentDigest);
    mac.update(params.as_bytes());
    let digest: [u8; 32] = mac.finalize().into_bytes().into();
    let limits = CaptureLimits::of(&Settings::default());
    let captures = stage.registry.captures();
    captures.put("notes", &digest, params.as_bytes(), stage.now_us(), &limits).unwrap();
    let facts = Facts {
        grant: "alice",
        server: "notes",
        method: "tools/call",
        argument_digest: Some(digest),
        ..Facts::default()
    };
    let refusal = Refusal { kind: RefusalKind::Denied, code: "x", reason: "no" };
    stage.dashboard.app.ledger.record(&refusal, &facts).unwrap()
}

fn looks(stage: &Stage) -> usize {
    let reader = stage.dashboard.app.audit().unwrap();
    let all = reader.newest_first(&Filter::default()).unwrap();
    all.filter(|entry| entry.as_ref().unwrap().act == "arguments_read").count()
}

#[tokio::test]
async fn only_admin_and_auditor_see_captured_arguments_and_each_look_is_recorded() {
    let stage = Stage::new();
    let seq = captured_entry(&stage);
    let (page, twin) = (format!("/audit/{seq}"), format!("/audit/{seq}.json"));
    for role in Role::ALL {
        let cookie = stage.sign_in(role);
        let may = matches!(role, Role::Admin | Role::Auditor);
        let before = looks(&stage);
        for path in [&page, &twin] {
            let shown = text(&stage.get(&cookie, path));
            assert!(!shown.contains(SECRET), "{role:?} {path}");
            let tells = shown.contains("Show the arguments") || shown.contains("\"captured\"");
            assert_eq!(tells, may, "{role:?} {path}: {shown}");
            let asked = stage.post(&cookie, path, "");
            assert_eq!(asked.status == StatusCode::OK, may, "{role:?} {path}");
            assert_eq!(text(&asked).contains(SECRET), may, "{role:?} {path}");
            assert!(path == &twin || !text(&asked).contains("<img"), "{role:?} {path}");
        }
        assert_eq!(looks(&stage) - before, if may { 2 } else { 0 }, "{role:?}");
    }
}

#[tokio::test]
async fn an_entry_without_captured_arguments_offers_none() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let facts = Facts { server: "notes", argument_digest: Some([1; 32]), ..Facts::default() };
    let refusal = Refusal { kind: RefusalKind::Denied, code: "x", reason: "no" };
    let seq = stage.dashboard.app.ledger.record(&refusal, &facts).unwrap();
    let path = format!("/audit/{seq}");
    assert!(!text(&stage.get(&cookie, &path)).contains("Show the arguments"));
    assert_eq!(stage.post(&cookie, &path, "").status, StatusCode::NOT_FOUND);
}

//! Lists of prompts and resources survive a restart, sealed, and go with their server.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, NOW_US};
use store::registry::ServerList;

fn list(grant: &str, items: &[&str]) -> ServerList {
    let items = items.iter().map(|item| (*item).to_owned()).collect();
    ServerList { grant: grant.to_owned(), list: "resources/list".to_owned(), items }
}

#[test]
fn lists_are_kept_sealed_until_their_server_goes() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let first = list("g_1", &[r#"{"uri":"file:///diary-of-alice"}"#]);
    let other = list("g_2", &[]);
    for one in [&list("g_1", &["{}"]), &first, &other] {
        fixture.registry.put_server_list("demo", one, NOW_US).unwrap();
    }
    assert_eq!(fixture.second().server_lists("demo").unwrap(), [first, other.clone()]);
    assert!(fixture.registry.server_lists("another").unwrap().is_empty());
    for file in ["db", "db-wal"] {
        let bytes = std::fs::read(fixture.db().with_extension(file)).unwrap();
        assert!(!bytes.windows(8).any(|part| part == b"diary-of"), "{file}");
    }
    // One that is too long takes away what was stored.
    let long = "x".repeat(100_000);
    fixture.registry.put_server_list("demo", &list("g_1", &[&long]), NOW_US).unwrap();
    assert_eq!(fixture.registry.server_lists("demo").unwrap(), [other]);
    fixture.registry.remove_server("demo", NOW_US).unwrap();
    assert!(fixture.registry.server_lists("demo").unwrap().is_empty());
}

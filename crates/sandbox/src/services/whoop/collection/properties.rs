//! Pages against a slow filter: every record of a window exactly once, newest first.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use proptest::prelude::*;

use super::{Collection, Entry, PageQuery, read_token};

fn entry(number: usize, start_ms: i64, length_ms: Option<i64>) -> Entry {
    Entry {
        id: format!("id-{number}"),
        cycle: 0,
        start_ms,
        end_ms: length_ms.map(|length| start_ms + length),
        v1: None,
        main: true,
        body: String::new(),
    }
}

fn slowly(entries: &[Entry], start: Option<i64>, end: i64) -> Vec<&str> {
    let mut found: Vec<&Entry> = entries
        .iter()
        .filter(|e| e.start_ms < end)
        .filter(|e| start.is_none() || e.end_ms.is_none() || e.end_ms >= start)
        .collect();
    found.sort_by(|a, b| (b.start_ms, &b.id).cmp(&(a.start_ms, &a.id)));
    found.iter().map(|e| e.id.as_str()).collect()
}

proptest! {
    #[test]
    fn pages_give_every_record_once_and_in_order(
        records in prop::collection::vec((0..60_i64, prop::option::weighted(0.9, 0..20_i64)), 0..120),
        start in prop::option::of(-5..70_i64),
        end in -5..90_i64,
        limit in 1..=25_usize,
    ) {
        let entries: Vec<Entry> = records
            .iter()
            .enumerate()
            .map(|(number, (start, length))| entry(number, *start, *length))
            .collect();
        let collection = Collection::new(entries.clone());
        let mut page_query = PageQuery { start_ms: start, end_ms: end, limit, after: None };
        let mut paged = Vec::new();
        loop {
            let (page, next) = collection.page(&page_query);
            prop_assert!(page.len() <= limit);
            prop_assert!(next.is_none() || page.len() == limit);
            paged.extend(page.iter().map(|entry| entry.id.clone()));
            prop_assert!(paged.len() <= entries.len(), "pages do not end");
            let Some(next) = next else { break };
            page_query.after = Some(read_token(&next).unwrap());
        }
        prop_assert_eq!(paged, slowly(&entries, start, end));
    }
}

#[test]
fn an_unknown_page_token_is_refused() {
    for token in ["", "!", "bm8", "next"] {
        assert_eq!(read_token(token), None, "{token}");
    }
}

#[test]
fn a_record_that_appears_while_pages_are_read_moves_no_other() {
    let mut collection = Collection::new(
        (0..6).map(|n| entry(usize::try_from(n).unwrap(), 10 * n, Some(5))).collect(),
    );
    let mut page_query = PageQuery { start_ms: None, end_ms: 1_000, limit: 3, after: None };
    let (_, next) = collection.page(&page_query);
    page_query.after = read_token(&next.unwrap());
    collection.put(entry(9, 500, Some(5)));
    let (page, next) = collection.page(&page_query);
    let ids: Vec<&str> = page.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!((ids, next), (vec!["id-2", "id-1", "id-0"], None));
}

//! Cuts responses to a size that agents accept, below 25,000 tokens as for WHOOP, and says what was
//! left out and how to get it.

use serde_json::{Map, Value, json};

/// Some clients refuse larger responses.
const TOKENS_MAX: usize = 25_000;
/// Bytes per token, a low estimate, as for WHOOP.
const BYTES_PER_TOKEN: usize = 2;
/// Reserved for the rest of the response.
const RESERVE_BYTES: usize = 2_000;
pub(crate) const ENTRIES_BYTES_MAX: usize = TOKENS_MAX * BYTES_PER_TOKEN - RESERVE_BYTES;
/// Entries kept of a nested list, once the response is too long.
const NESTED_ENTRIES_MAX: usize = 5;
/// The maximum number of lists to cut.
const CUTS_MAX: usize = 8;
/// Large members without information for an agent.
const HEAVY: &[&str] = &["available_markets"];
/// Members that lead to the next page. After a cut they would skip entries.
const CURSORS: &[&str] =
    &["next", "next_after", "next_page_token", "next_cursor", "after", "cursors"];

/// How many entries from the front fit into one response; at least one.
pub(crate) fn fitting(entries: &[Value]) -> usize {
    let mut bytes = 0_usize;
    let fits = entries.iter().take_while(|entry| {
        bytes = bytes.saturating_add(size(entry) + 1);
        bytes <= ENTRIES_BYTES_MAX
    });
    fits.count().max(1).min(entries.len())
}

/// Entries without their large members, if they do not fit otherwise.
pub(crate) fn lighten(entries: &mut [Value]) {
    let bytes: usize = entries.iter().map(size).sum();
    if bytes > ENTRIES_BYTES_MAX {
        for entry in entries {
            shed(entry, 0);
        }
    }
}

/// The notice about a cut list.
pub(crate) fn hint(shown: usize, all: usize, name: &str, next_offset: Option<usize>) -> String {
    let on = match next_offset {
        Some(offset) => format!("call again with `offset` {offset}"),
        None => format!("call again with `limit` {shown} and go on page by page"),
    };
    format!("{shown} of {all} in `{name}` fit into one answer; {on}")
}

/// The response, cut if it is too long.
pub(crate) fn fit(mut answer: Value) -> Value {
    if size(&answer) <= ENTRIES_BYTES_MAX + RESERVE_BYTES {
        return answer;
    }
    shed(&mut answer, 0);
    let mut hints = Vec::new();
    for _ in 0..CUTS_MAX {
        let all = size(&answer);
        if all <= ENTRIES_BYTES_MAX + RESERVE_BYTES {
            break;
        }
        let Some(told) = longest(&answer).and_then(|at| cut(&mut answer, &at, all)) else { break };
        hints.push(told);
    }
    if let (Some(members), false) = (answer.as_object_mut(), hints.is_empty()) {
        for cursor in CURSORS {
            if let Some(member) = members.get_mut(*cursor) {
                *member = Value::Null;
            }
        }
        members.insert("truncated".to_owned(), json!(true));
        members.insert("hint".to_owned(), json!(hints.join("; ")));
    }
    answer
}

/// Cuts the list at a pointer by the excess of the response.
fn cut(answer: &mut Value, pointer: &str, all: usize) -> Option<String> {
    let list = answer.pointer_mut(pointer)?.as_array_mut()?;
    let before = list.len();
    let own: usize = list.iter().map(|entry| size(entry) + 1).sum();
    let room = (ENTRIES_BYTES_MAX + RESERVE_BYTES).saturating_sub(all - own.min(all));
    let mut bytes = 0_usize;
    let fits = list.iter().take_while(|entry| {
        bytes = bytes.saturating_add(size(entry) + 1);
        bytes <= room
    });
    let kept = fits.count();
    if kept == before {
        return None;
    }
    // An empty list would mean that there are no entries.
    let kept = kept.max(usize::from(before > 1));
    list.truncate(kept);
    let name = pointer.rsplit('/').next().unwrap_or(pointer);
    Some(hint(kept, before, name, None))
}

/// The pointer of the list with most bytes.
fn longest(answer: &Value) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    look(answer, "", 0, &mut best);
    best.map(|(_, pointer)| pointer)
}

fn look(value: &Value, pointer: &str, depth: usize, best: &mut Option<(usize, String)>) {
    const DEPTH_MAX: usize = 6;
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Array(entries) => {
            let bytes = size(value);
            let longer = entries.len() > 1 && best.as_ref().is_none_or(|(most, _)| bytes > *most);
            if longer {
                *best = Some((bytes, pointer.to_owned()));
            }
            for (at, entry) in entries.iter().enumerate() {
                look(entry, &format!("{pointer}/{at}"), depth + 1, best);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                look(member, &format!("{pointer}/{name}"), depth + 1, best);
            }
        }
        _ => {}
    }
}

/// Removes large members and shortens nested lists.
fn shed(value: &mut Value, depth: usize) {
    match value {
        Value::Array(entries) => {
            // The list of entries itself is at most two levels deep.
            if depth > 2 {
                entries.truncate(NESTED_ENTRIES_MAX);
            }
            for entry in entries {
                shed(entry, depth + 1);
            }
        }
        Value::Object(members) => shed_members(members, depth),
        _ => {}
    }
}

fn shed_members(members: &mut Map<String, Value>, depth: usize) {
    for name in HEAVY {
        members.shift_remove(*name);
    }
    for member in members.values_mut() {
        shed(member, depth + 1);
    }
}

fn size(value: &Value) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]
    use super::{ENTRIES_BYTES_MAX, RESERVE_BYTES, fit, fitting, size};
    use serde_json::{Value, json};

    #[test]
    fn a_long_response_is_truncated_with_a_hint() {
        let entry = json!({ "name": "x".repeat(900), "available_markets": vec!["DE"; 200] });
        let answer = json!({ "total": 500, "items": vec![entry.clone(); 500], "next": "cursor" });
        let fitted = fit(answer);
        assert!(size(&fitted) <= ENTRIES_BYTES_MAX + 2 * RESERVE_BYTES, "{}", size(&fitted));
        assert_eq!(fitted["truncated"], json!(true));
        assert_eq!(fitted["next"], Value::Null, "a cursor would skip what was left out");
        let kept = fitted["items"].as_array().map_or(0, Vec::len);
        assert!((10..500).contains(&kept), "{kept}");
        let short = json!({ "items": [entry] });
        assert_eq!(fit(short.clone()), short);
    }

    #[test]
    fn a_single_entry_always_fits() {
        let large = json!("x".repeat(2 * ENTRIES_BYTES_MAX));
        assert_eq!(fitting(&[large.clone(), large]), 1);
        assert_eq!(fitting(&[]), 0);
    }
}

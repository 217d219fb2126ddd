//! Checks that no two keys of an object can be confused.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::bounds::Keys;
use super::doc::{Key, Value};
use super::fold::{fold, is_plain};
use super::refusal::RefusalKind;

/// Up to this many keys are compared pair by pair; more go through a hash table, so the time stays linear.
const PAIRWISE_KEYS_MAX: usize = 16;

const DUPLICATE: &str = "an object has the same key twice";
const CONFUSABLE: &str =
    "an object has two keys that differ only in case or in invisible characters";
const CONTROL: &str = "a key contains a control character";

/// A rejected key.
pub(super) struct BadKey {
    pub(super) at: usize,
    pub(super) kind: RefusalKind,
    pub(super) message: &'static str,
}

pub(super) fn check(object: Value<'_>, keys: Keys) -> Result<(), BadKey> {
    match keys {
        Keys::Any => Ok(()),
        Keys::Unique => check_by_table(object, |key| Ok(key.text())),
        Keys::OneMeaning => check_pairs(object).unwrap_or_else(|| check_by_table(object, folded)),
    }
}

/// The quick way for small objects of plain ASCII keys; `None` when it does not apply.
fn check_pairs(object: Value<'_>) -> Option<Result<(), BadKey>> {
    let mut seen = [""; PAIRWISE_KEYS_MAX];
    for (index, (key, _)) in object.entries().enumerate() {
        let text = key.plain().filter(|text| is_plain(text))?;
        let (earlier, rest) = seen.split_at_mut_checked(index)?;
        if let Some(same) = earlier.iter().find(|other| other.eq_ignore_ascii_case(text)) {
            return Some(Err(bad(key, *same == text)));
        }
        *rest.first_mut()? = text;
    }
    Some(Ok(()))
}

fn folded(key: Key<'_>) -> Result<Cow<'_, str>, BadKey> {
    let text = key.text();
    if text.chars().any(char::is_control) {
        let kind = RefusalKind::ConfusableKey;
        return Err(BadKey { at: key.span().start, kind, message: CONTROL });
    }
    Ok(match text {
        Cow::Borrowed(text) => fold(text),
        Cow::Owned(text) => Cow::Owned(fold(&text).into_owned()),
    })
}

fn check_by_table<'d>(
    object: Value<'d>,
    shape: impl Fn(Key<'d>) -> Result<Cow<'d, str>, BadKey>,
) -> Result<(), BadKey> {
    let mut seen: HashMap<Cow<'d, str>, Key<'d>> = HashMap::with_capacity(object.len());
    for (key, _) in object.entries() {
        match seen.entry(shape(key)?) {
            Entry::Occupied(other) => return Err(bad(key, other.get().text() == key.text())),
            Entry::Vacant(slot) => slot.insert(key),
        };
    }
    Ok(())
}

fn bad(key: Key<'_>, same: bool) -> BadKey {
    let (kind, message) = if same {
        (RefusalKind::DuplicateKey, DUPLICATE)
    } else {
        (RefusalKind::ConfusableKey, CONFUSABLE)
    };
    BadKey { at: key.span().start, kind, message }
}

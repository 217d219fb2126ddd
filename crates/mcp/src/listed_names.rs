//! Names of tools and prompts as clients see them. Some clients reject a whole list for one name outside
//! `^[a-zA-Z0-9_-]{1,64}$`, so every listed name matches it. Servers keep their own names.

use std::borrow::Cow;
use std::collections::HashMap;

use sha2::{Digest, Sha256};

/// The longest name that every client accepts.
pub const LISTED_BYTES_MAX: usize = 64;
const SEPARATOR: &str = "__";
/// 48 bits. Two names that share them are ambiguous, which is refused.
const HASH_CHARS: usize = 12;
/// How much of a long server name a short form keeps.
const SERVER_HEAD_MAX: usize = 20;

/// How the names of a grant are listed at the endpoint of all servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Every name has its server's prefix.
    #[default]
    Always,
    /// Only names that would be ambiguous without it.
    Never,
}

/// A server and its own name for a tool or prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemName<'a> {
    pub server: &'a str,
    pub own: &'a str,
}

/// Whether every client accepts this name.
pub fn fits_clients(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=LISTED_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// The name at the endpoint of all servers: `server__own`, or a short form with a hash. It depends on
/// nothing but the two names.
pub fn listed(item: ItemName<'_>) -> String {
    plain(item).unwrap_or_else(|| short(Some(item.server), item.own))
}

/// The name at the endpoint of one server that is served under mapped names.
pub fn mapped(own: &str) -> Cow<'_, str> {
    if fits_clients(own) && !is_short(own) {
        return Cow::Borrowed(own);
    }
    Cow::Owned(short(None, own))
}

/// Whether a name ends like a short form. No other listed form does.
pub fn is_short(name: &str) -> bool {
    let Some(at) = name.len().checked_sub(HASH_CHARS) else { return false };
    let (Some(head), Some(hash)) = (name.get(..at), name.get(at..)) else { return false };
    head.ends_with('_') && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The name with its prefix, if the prefix can be read back: the first `__` ends the server's name.
fn plain(item: ItemName<'_>) -> Option<String> {
    let name = format!("{}{SEPARATOR}{}", item.server, item.own);
    let is_readable = name.find(SEPARATOR) == Some(item.server.len()) && !item.own.is_empty();
    (is_readable && fits_clients(&name) && !is_short(&name)).then_some(name)
}

/// A readable head and a hash of both names.
fn short(server: Option<&str>, own: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(server.unwrap_or_default());
    hasher.update([0]);
    hasher.update(own);
    let digest = hasher.finalize();
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    let hash: String = digits.take(HASH_CHARS).collect();
    let mut name = match server {
        Some(server) => format!("{}{SEPARATOR}", head(server, SERVER_HEAD_MAX)),
        None => String::new(),
    };
    let own = head(own, LISTED_BYTES_MAX - HASH_CHARS - 1 - name.len());
    name.push_str(&own);
    if !name.ends_with('_') {
        name.push('_');
    }
    name + &hash
}

/// The beginning of a name in accepted characters, with single underscores and none at its ends.
fn head(name: &str, bytes_max: usize) -> String {
    let mut head = String::new();
    for char in name.chars() {
        if head.len() == bytes_max {
            break;
        }
        let is_kept = char.is_ascii_alphanumeric() || char == '-';
        if is_kept {
            head.push(char);
        } else if !head.is_empty() && !head.ends_with('_') {
            head.push('_');
        }
    }
    head.truncate(head.trim_end_matches('_').len());
    head
}

/// The item that a name means by its prefix alone: `server__own` as listed, or the older `server.own`. A
/// name that begins with a server of the grant always means that server.
pub fn by_prefix(name: &str, is_server: impl Fn(&str) -> bool) -> Option<ItemName<'_>> {
    let listed_as = |item: ItemName<'_>| plain(item).is_some_and(|plain| plain == name);
    let split = |separator| name.split_once(separator);
    let item = |(server, own)| ItemName { server, own };
    let underscored = split(SEPARATOR).map(item).filter(|item| listed_as(*item));
    let dotted = || split(".").map(item).filter(|item| is_server(item.server));
    underscored.filter(|item| is_server(item.server)).or_else(dotted)
}

/// Whether a name without a server's prefix may mean this item: its short form, or its own name.
pub fn may_mean(name: &str, item: ItemName<'_>) -> bool {
    item.own == name || (is_short(name) && listed(item) == name)
}

/// The items that a name without a server's prefix means, of those that `may_mean` it. A listed name
/// precedes an own name. More than one is ambiguous.
pub fn meant<'a>(name: &str, items: &[ItemName<'a>]) -> Vec<ItemName<'a>> {
    let all = |fits: &dyn Fn(&ItemName<'a>) -> bool| -> Vec<ItemName<'a>> {
        items.iter().copied().filter(fits).collect()
    };
    let listed_so = all(&|item| is_short(name) && listed(*item) == name);
    if listed_so.is_empty() { all(&|item| item.own == name) } else { listed_so }
}

/// The name of each item in a list for a grant with these servers. An item has none if another one has the
/// same.
pub fn list_names(
    items: &[ItemName<'_>],
    prefix: Prefix,
    is_server: impl Fn(&str) -> bool,
) -> Vec<Option<String>> {
    let full: Vec<String> = items.iter().map(|item| listed(*item)).collect();
    let full_owners = owners(items.iter().copied().zip(full.iter().map(String::as_str)));
    let own_owners = owners(items.iter().map(|item| (*item, item.own)));
    let is_bare = |item: &ItemName<'_>| {
        prefix == Prefix::Never
            && fits_clients(item.own)
            && by_prefix(item.own, &is_server).is_none()
            && is_only(&own_owners, item.own, *item)
            && !full_owners.contains_key(item.own)
    };
    items
        .iter()
        .zip(&full)
        .map(|(item, full)| match () {
            () if is_bare(item) => Some(item.own.to_owned()),
            () if is_only(&full_owners, full, *item) => Some(full.clone()),
            () => None,
        })
        .collect()
}

/// The item of each name, or none if several have it.
type Owners<'n, 'a> = HashMap<&'n str, Option<ItemName<'a>>>;

fn owners<'n, 'a>(named: impl Iterator<Item = (ItemName<'a>, &'n str)>) -> Owners<'n, 'a> {
    let mut owners: Owners<'n, 'a> = HashMap::new();
    for (item, name) in named {
        let owner = owners.entry(name).or_insert(Some(item));
        // A server may list one name twice.
        *owner = owner.filter(|owner| *owner == item);
    }
    owners
}

fn is_only(owners: &Owners<'_, '_>, name: &str, item: ItemName<'_>) -> bool {
    owners.get(name).is_some_and(|owner| *owner == Some(item))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn item<'a>(server: &'a str, own: &'a str) -> ItemName<'a> {
        ItemName { server, own }
    }

    #[test]
    fn names_as_clients_see_them() {
        let long = "x".repeat(70);
        for (server, own, expected) in [
            ("files", "read_text_file", "files__read_text_file"),
            ("a", "_b", "a___b"),
            ("a", "b__c", "a__b__c"),
            // The prefix of these could not be read back.
            ("a__b", "c", "a_b__c_#"),
            ("a_", "b", "a__b_#"),
            ("files", "fs.read", "files__fs_read_#"),
            ("files", "lesen/größe", "files__lesen_gr_e_#"),
            ("files", &long, "files__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_#"),
            ("files", "commit_0123456789ab", "files__commit_0123456789ab_#"),
            ("files", "...", "files__#"),
            ("files", "", "files__#"),
        ] {
            let name = listed(item(server, own));
            assert!(fits_clients(&name), "{name}");
            let is_short = is_short(&name);
            let head = if is_short { &name[..name.len() - HASH_CHARS] } else { &name };
            let shown = if is_short { format!("{head}#") } else { name.clone() };
            assert_eq!(shown, expected, "{server} {own}");
        }
        // The same in every version: clients store these names in their rules.
        assert_eq!(listed(item("files", "fs.read")), "files__fs_read_ada9233e162e");
        assert_eq!(mapped("fs.read"), "fs_read_eead5d6eee83");
    }

    #[test]
    fn a_name_with_two_readings_has_one_meaning() {
        let servers = ["a", "a__b", "x"];
        let is_server = |name: &str| servers.contains(&name);
        for (name, expected) in [
            ("a__b__c", Some(item("a", "b__c"))),
            ("a__b.c", Some(item("a__b", "c"))),
            ("a.b__c", Some(item("a", "b__c"))),
            ("a.b.c", Some(item("a", "b.c"))),
            ("a__c", Some(item("a", "c"))),
            ("a___c", Some(item("a", "_c"))),
            ("b__c", None),
            ("b.c", None),
            ("a", None),
            ("a__", None),
        ] {
            assert_eq!(by_prefix(name, is_server), expected, "{name}");
        }
        // A tool cannot take the listed name of another server's tool.
        let items = [item("a", "c"), item("x", "a__c"), item("x", "a.c")];
        let names = list_names(&items, Prefix::Never, is_server);
        let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        assert_eq!(names.first(), Some(&"c"));
        assert_eq!(names.get(1), Some(&"x__a__c"));
        assert_eq!(meant("c", &items), [item("a", "c")]);
    }

    #[test]
    fn an_own_name_that_several_servers_have_is_listed_with_its_prefix() {
        let items = [item("a", "read"), item("b", "read"), item("b", "write"), item("b", "write")];
        let names = list_names(&items, Prefix::Never, |name| ["a", "b"].contains(&name));
        let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        assert_eq!(names, ["a__read", "b__read", "write", "write"]);
        assert_eq!(meant("read", &items).len(), 2);
    }

    /// Names with the characters that make trouble.
    fn names() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
        let server = "[ab_-]{1,4}|[a_]{1,3}__[b_]{1,3}|[a-c]{60,64}";
        let own = "[ab_.-]{1,5}|[ab]__[ab_]{1,3}|a_[0-9a-f]{12}|[a./ é]{1,4}|[ab]{50,70}|a__b.c";
        let own = proptest::collection::hash_set(own, 0..8);
        let servers = proptest::collection::hash_map(server, own, 1..5);
        servers.prop_map(|all| {
            all.into_iter().map(|(name, own)| (name, own.into_iter().collect())).collect()
        })
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config {
            failure_persistence: None,
            cases: 2_000,
            ..proptest::test_runner::Config::default()
        })]

        /// Every item has a name that every client accepts, no two share one, and each name leads back.
        #[test]
        fn every_listed_name_leads_back_to_its_item(all in names(), never in any::<bool>()) {
            let items: Vec<ItemName<'_>> = all
                .iter()
                .flat_map(|(server, own)| own.iter().map(move |own| item(server, own)))
                .collect();
            let is_server = |name: &str| all.iter().any(|(server, _)| server == name);
            let prefix = if never { Prefix::Never } else { Prefix::Always };
            let names = list_names(&items, prefix, is_server);
            let mut seen = HashSet::new();
            for (item, name) in items.iter().zip(names) {
                let name = name.expect("no two hashes collide here");
                prop_assert!(fits_clients(&name), "{}", name);
                prop_assert!(seen.insert(name.clone()), "{} twice", name);
                let candidates: Vec<ItemName<'_>> =
                    items.iter().copied().filter(|item| may_mean(&name, *item)).collect();
                let found = match by_prefix(&name, is_server) {
                    Some(found) => vec![found],
                    None => meant(&name, &candidates),
                };
                prop_assert_eq!(found, vec![*item], "{}", name);
                let dotted = format!("{}.{}", item.server, item.own);
                prop_assert_eq!(by_prefix(&dotted, is_server), Some(*item));
            }
        }

        /// The same for the endpoint of one server, and independent of its other tools.
        #[test]
        fn mapped_names_of_one_server_differ(own in proptest::collection::hash_set("[ab_.]{1,4}|a_[0-9a-f]{12}|[é ]{1,3}", 1..10)) {
            let names: HashSet<String> = own.iter().map(|own| mapped(own).into_owned()).collect();
            prop_assert_eq!(names.len(), own.len());
            prop_assert!(names.iter().all(|name| fits_clients(name)));
        }
    }
}

//! Random policies and calls from small shared pools, so that names, values and wrong types meet often.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use crate::model::ModelCall;
use crate::tree::Json;

const NAMES: [&str; 21] = [
    "wip\u{435}",
    "a",
    "a",
    "ab",
    "ab",
    "abc",
    "get_a",
    "get_a",
    "get_ab",
    "get_x_b",
    "x_b",
    "b",
    "caf\u{e9}",
    "cafe\u{301}",
    "get_a\u{200b}",
    "g\u{435}t_a",
    "\u{0}",
    "abb",
    "acab",
    "abxc",
    "",
];
const PATTERNS: [&str; 16] = [
    "a",
    "ab",
    "abc",
    "get_a",
    "x_b",
    "caf\u{e9}",
    "g\u{435}t_a",
    "*",
    "get_*",
    "get_a*",
    "*_b",
    "get_*_b",
    "a*",
    "a*b",
    "ab*c",
    "a*c*b",
];
const URIS: [&str; 18] = [
    "mem://a",
    "mem://a/b",
    "mem://b",
    "mem://a/../b",
    "mem://a/x/../b",
    "MEM://a",
    "mem://a/%2e%2e/b",
    "mem://a//b",
    "mem://a/b#f",
    "mem://%61",
    "mem://a\\b",
    "mem://a/%252e/b",
    "mem://\u{435}",
    "mem://a/#/../../b",
    "file:/a",
    "file://localhost/a",
    "file:///a",
    "other",
];
const URI_PATTERNS: [&str; 12] = [
    "mem://a",
    "mem://a/b",
    "mem://b",
    "MEM://a",
    "mem://*",
    "mem://a/*",
    "*",
    "mem://\u{435}",
    "mem://e",
    "file:///*",
    "file:/*",
    "file:///a",
];
const NUMBERS: [&str; 20] = [
    "0",
    "-0",
    "1",
    "1.0",
    "2",
    "5",
    "100",
    "100.0",
    "1e2",
    "100.00000000000000000001",
    "99.9",
    "-3",
    "0.1",
    "2.5",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551716",
    "1e400",
    "1e-19",
    "1e20",
];
const WORDS: [&str; 10] = ["", "a", "b", "ab", "AB", "a\nb", "5", "100", "aXb", "caf\u{e9}"];
const PATHS: [&str; 16] = [
    "/safe",
    "/safe/x",
    "/safe/../etc",
    "/safe/%2e%2e/etc",
    "/safe/%252e%252e/etc",
    "/safe\\..\\etc",
    "/etc/passwd",
    "/Safe/x",
    "safe/x",
    "../safe",
    "~/safe",
    "/safe-not",
    "//safe/./x",
    "/safe/a\\b",
    "/%2e%2e/safe",
    "/safe/%25252525252e",
];
const FOLDERS: [&str; 5] = ["/safe", "/", "/etc", "safe", "."];
const HOSTS: [&str; 6] = ["good.com", "evil.org", "*.good.com", "127.0.0.1", "::1", "*.org"];
const ADDRESSES: [&str; 8] = [
    "10.1.2.3",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "192.168.0.1",
    "010.1.2.3",
    "10.1.2",
    "0.0.0.0/0",
    "256.1.1.1",
];
const NETWORKS: [&str; 4] = ["10.0.0.0/8", "10.1.0.0/16", "192.168.0.1", "0.0.0.0/0"];
const GLOBS: [&str; 7] = ["*", "a*", "?", "a?b", "*b", "\\a*", "ab"];
const REGEXES: [&str; 6] = ["^a", "b$", "^[0-9]+$", "a.*b", "(?i)^AB$", ""];
const ARG_PATHS: [&str; 14] = [
    "args.n",
    "args.a",
    "args.o.n",
    "args.o.a",
    "args.list[*]",
    "args.list[0]",
    "args.items[*].n",
    "args.items[*].a",
    "args[\"odd key\"]",
    "args.deep[*][*]",
    "args.items[*].list[*]",
    "args.missing",
    "args.list",
    "args.o",
];
const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

type Strat = BoxedStrategy<Json>;

fn text(pool: &'static [&'static str]) -> Strat {
    select(pool).prop_map(Json::text).boxed()
}

fn number() -> Strat {
    select(&NUMBERS[..]).prop_map(Json::number).boxed()
}

fn plain_text() -> Strat {
    let urls: Vec<&'static str> = crate::model::urls();
    prop_oneof![
        4 => text(&WORDS),
        2 => text(&PATHS),
        1 => select(urls).prop_map(Json::text),
        1 => text(&ADDRESSES),
    ]
    .boxed()
}

fn scalar() -> Strat {
    prop_oneof![3 => number(), 3 => text(&WORDS), 1 => any::<bool>().prop_map(Json::Bool)].boxed()
}

/// One text, or a list of some.
fn texts(pool: &'static [&'static str]) -> Strat {
    prop_oneof![text(pool), vec(text(pool), 1..3).prop_map(Json::List)].boxed()
}

/// An operator with a value it takes.
fn comparison() -> BoxedStrategy<(&'static str, Option<Json>)> {
    let given = |ops: &'static [&'static str], value: Strat| {
        (select(ops), value).prop_map(|(op, value)| (op, Some(value))).boxed()
    };
    let count = (0_u8..4).prop_map(|count| Json::Number(count.to_string())).boxed();
    prop_oneof![
        4 => given(&["eq", "neq"], scalar()),
        4 => given(&["lt", "lte", "gt", "gte"], number()),
        3 => given(&["in", "not_in"], vec(scalar(), 0..4).prop_map(Json::List).boxed()),
        1 => of(any::<bool>().prop_map(Json::Bool)).prop_map(|value| ("exists", value)),
        1 => given(&["regex"], text(&REGEXES)),
        2 => given(&["contains"], scalar()),
        1 => given(&["starts_with", "ends_with"], text(&WORDS)),
        1 => given(&["glob"], text(&GLOBS)),
        1 => given(&["length_lte", "length_gte"], count),
        2 => given(&["path_under"], texts(&FOLDERS)),
        1 => given(&["url_host_in"], texts(&HOSTS)),
        1 => given(&["cidr_in"], texts(&NETWORKS)),
    ]
    .boxed()
}

fn condition() -> Strat {
    let on_args = (select(&ARG_PATHS[..]), comparison(), any::<bool>());
    let on_args = on_args.prop_map(|(path, (op, value), missing)| {
        let mut members = vec![("path", Json::text(path)), ("op", Json::text(op))];
        members.extend(value.map(|value| ("value", value)));
        if missing && op != "exists" {
            members.push(("missing", Json::text("match")));
        }
        Json::map(members)
    });
    prop_oneof![6 => on_args, 1 => fact_condition()].boxed()
}

fn fact_condition() -> Strat {
    let texts = (
        select(vec![
            "caller.grant",
            "caller.session",
            "caller.client",
            "tool.category",
            "tool.risk",
        ]),
        select(vec!["eq", "neq", "starts_with", "contains"]),
        select(vec!["ann", "bob", "read", "high", "a"]),
    );
    let texts = texts.prop_map(|(path, op, value)| {
        Json::map([
            ("path", Json::text(path)),
            ("op", Json::text(op)),
            ("value", Json::text(value)),
        ])
    });
    let hour = (select(vec!["lt", "gte", "eq"]), 0_u8..24).prop_map(|(op, hour)| {
        Json::map([
            ("path", Json::text("time.hour")),
            ("op", Json::text(op)),
            ("value", Json::Number(hour.to_string())),
        ])
    });
    let day = (select(vec!["in", "not_in"]), vec(text(&WEEKDAYS), 0..3)).prop_map(|(op, days)| {
        Json::map([
            ("path", Json::text("time.weekday")),
            ("op", Json::text(op)),
            ("value", Json::List(days)),
        ])
    });
    prop_oneof![3 => texts, 1 => hour, 1 => day].boxed()
}

fn rule(with_timeout: bool) -> Strat {
    let timeout = prop_oneof![Just(Json::number("90")), Just(Json::text("2h"))];
    let via = select(vec!["owner", "client"]).prop_map(Json::text);
    (vec(condition(), 0..3), of(Just(Json::text("because"))), of(timeout), of(via))
        .prop_map(move |(conditions, on_deny, timeout, via)| {
            let mut members = vec![("conditions", Json::List(conditions))];
            members.extend(on_deny.map(|words| ("on_deny", words)));
            members.extend(timeout.filter(|_| with_timeout).map(|timeout| ("timeout", timeout)));
            members.extend(via.filter(|_| with_timeout).map(|via| ("via", via)));
            Json::map(members)
        })
        .boxed()
}

fn window() -> Strat {
    let texts = select(vec!["second", "minute", "hour", "day", "90s", "15m", "6h", "7d"])
        .prop_map(Json::text);
    prop_oneof![texts, Just(Json::number("60"))].boxed()
}

fn limit() -> Strat {
    let max = select(vec!["0", "1", "30", "99.5"]).prop_map(Json::number);
    let increment = prop_oneof![
        Just(Json::number("1")),
        Just(Json::number("2.5")),
        Just(Json::text("args.n")),
        Just(Json::text("args.items[*].n")),
        Just(Json::text("args.list[*]")),
    ];
    let scope = text(&["grant", "session", "server", "everyone"]);
    (window(), max, of(text(&["c1", "c2"])), of(scope), of(increment))
        .prop_map(|(window, max, counter, scope, increment)| {
            let mut members = vec![("window", window), ("max", max)];
            members.extend(counter.map(|counter| ("counter", counter)));
            members.extend(scope.map(|scope| ("scope", scope)));
            members.extend(increment.map(|increment| ("increment", increment)));
            Json::map(members)
        })
        .boxed()
}

/// A list that is there now and then.
fn rules(name: &'static str, of_what: Strat) -> BoxedStrategy<Option<(&'static str, Json)>> {
    of(vec(of_what, 0..3).prop_map(move |rules| (name, Json::List(rules)))).boxed()
}

fn all_tools() -> Strat {
    let lists = (
        rules("require", rule(false)),
        rules("deny_if", rule(false)),
        rules("approve_if", rule(true)),
        rules("limits", limit()),
    );
    lists.prop_map(|(a, b, c, d)| Json::map([a, b, c, d].into_iter().flatten())).boxed()
}

fn entry() -> Strat {
    let action = select(vec!["allow", "allow", "deny", "hide", "require_approval"]);
    let short = (window(), select(vec!["1", "10"]))
        .prop_map(|(window, max)| Json::map([("window", window), ("max", Json::number(max))]));
    (all_tools(), of(action), of(short), of(text(&["refuse", "warn", "allow"])), any::<bool>())
        .prop_map(|(lists, action, short, on_change, reason)| {
            let Json::Map(mut members) = lists else { return lists };
            let extra = [
                action.map(|action| ("action", Json::text(action))),
                short.map(|short| ("rate_limit", short)),
                on_change.map(|word| ("on_change", word)),
                reason.then(|| ("reason", Json::text("the owner says so"))),
            ];
            members
                .extend(extra.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)));
            Json::Map(members)
        })
        .boxed()
}

fn section(patterns: &'static [&'static str], entries: std::ops::Range<usize>) -> Strat {
    let name = select(patterns);
    proptest::collection::btree_map(name, entry(), entries).prop_map(Json::map).boxed()
}

pub(crate) fn policy() -> Strat {
    let hide =
        of(vec(text(&["x_b", "get_a*", "*_b", "mem://b", "mem://a/b", "ab", "wip*", "*c"]), 0..3)
            .prop_map(Json::List));
    (
        text(&["deny", "deny", "allow"]),
        hide,
        of(all_tools()),
        section(&PATTERNS, 2..7),
        section(&URI_PATTERNS, 1..5),
        section(&PATTERNS, 1..4),
        section(&PATTERNS, 1..4),
        of(text(&["refuse", "warn", "allow"])),
        proptest::option::weighted(0.15, select(vec!["1", "7", "448"]).prop_map(Json::number)),
    )
        .prop_map(
            |(default, hide, all_tools, tools, resources, prompts, skills, on_change, days)| {
                let mut members = vec![("version", Json::text("1")), ("default", default)];
                members.extend(hide.map(|hide| ("hide", hide)));
                members.extend(all_tools.map(|rules| ("all_tools", rules)));
                members.extend([("tools", tools), ("resources", resources)]);
                members.extend([("prompts", prompts), ("skills", skills)]);
                members.extend(on_change.map(|word| ("on_change", word)));
                members.extend(days.map(|days| ("aggregate_only", days)));
                Json::map(members)
            },
        )
        .boxed()
}

fn value() -> Strat {
    let leaf = prop_oneof![4 => number(), 4 => plain_text(), 1 => any::<bool>().prop_map(Json::Bool), 1 => Just(Json::Null)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![vec(inner.clone(), 0..3).prop_map(Json::List), object(inner)]
    })
    .boxed()
}

fn object(value: impl Strategy<Value = Json> + 'static) -> Strat {
    let name = select(vec![
        "n", "a", "o", "list", "items", "odd key", "deep", "N", "Items", "LIST", "Odd Key",
    ]);
    proptest::collection::btree_map(name, value, 0..5).prop_map(Json::map).boxed()
}

/// Arguments of the expected shapes, and of any other.
fn args() -> BoxedStrategy<Option<Json>> {
    let item =
        object(prop_oneof![number(), plain_text(), vec(scalar(), 0..3).prop_map(Json::List)]);
    let shaped = (number(), plain_text(), vec(scalar(), 0..4), vec(item.clone(), 0..3), item)
        .prop_map(|(n, a, list, items, o)| {
            Json::map([
                ("n", n),
                ("a", a),
                ("list", Json::List(list)),
                ("items", Json::List(items)),
                ("o", o),
            ])
        });
    prop_oneof![4 => shaped.prop_map(Some), 4 => object(value()).prop_map(Some), 1 => Just(None)]
        .boxed()
}

fn word(pool: &'static [&'static str]) -> BoxedStrategy<Option<String>> {
    of(select(pool).prop_map(str::to_owned)).boxed()
}

pub(crate) fn call() -> BoxedStrategy<ModelCall> {
    let target = prop_oneof![
        6 => select(&NAMES[..]).prop_map(|name| ("tools", name)),
        3 => select(&URIS[..]).prop_map(|name| ("resources", name)),
        2 => select(&NAMES[..]).prop_map(|name| ("prompts", name)),
        2 => select(&NAMES[..]).prop_map(|name| ("skills", name)),
        1 => Just(("methods", "tasks/list")),
    ];
    let facts =
        (word(&["read", "a"]), word(&["high", "low"]), word(&["ann", "bob"]), word(&["a", "b"]));
    let definition = select(vec![
        "unchanged",
        "unchanged",
        "unchanged",
        "unchanged",
        "unknown",
        "unknown",
        "changed",
        "new",
        "conflict",
    ]);
    (
        target,
        args(),
        select(vec!["ann", "bob", "a"]),
        facts,
        definition,
        0_u8..24,
        select(&WEEKDAYS[..]),
    )
        .prop_map(|((section, name), args, grant, facts, definition, hour, weekday)| ModelCall {
            section,
            name: name.to_owned(),
            args,
            grant: grant.to_owned(),
            category: facts.0,
            risk: facts.1,
            session: facts.2,
            client: facts.3,
            definition,
            aggregates: hour % 2 == 0,
            hour,
            weekday,
        })
        .boxed()
}

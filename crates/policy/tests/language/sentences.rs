//! One row per sentence of the language: a policy and calls with what must come of them. The calls run as
//! the policy's own tests, so this also shows that those work.

use policy::{Format, Policy};

/// A policy and its calls: the fields of a test without `expect`, the decision, and the rule.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str, &'static str)]);

fn check(rows: &[Row]) {
    for (sentence, policy, calls) in rows {
        let tests: Vec<String> = calls
            .iter()
            .map(|(call, expect, rule)| {
                format!(r#"{{{call},"expect":"{expect}","rule":"{rule}"}}"#)
            })
            .collect();
        let body = policy.trim().strip_suffix('}').unwrap();
        let source = format!(r#"{body},"tests":[{}]}}"#, tests.join(","));
        if let Err(error) = Policy::load(&source, Format::Json) {
            panic!("{sentence}\n{error}");
        }
    }
}

#[test]
fn published_examples_behave_as_their_pages_say() {
    check(PUBLISHED);
}

const PUBLISHED: &[Row] = &[
    (
        "a tool with a limit is usable and everything else is denied",
        r#"{"version":"1","default":"deny","tools":{"whoop-refresh-token":{"limits":[{"counter":"whoop-refresh-token_rate","window":"minute","max":30,"scope":"grant"}]}}}"#,
        &[
            (r#""tool":"whoop-refresh-token""#, "allow", "/tools/whoop-refresh-token"),
            (r#""tool":"whoop-get-token""#, "deny", "/default"),
            (r#""resource":"whoop-refresh-token""#, "deny", "/default"),
            (r#""prompt":"whoop-refresh-token""#, "deny", "/default"),
        ],
    ),
    (
        "an empty entry allows",
        r#"{"version":"1","default":"deny","tools":{"refresh_spotify_token":{}}}"#,
        &[
            (r#""tool":"refresh_spotify_token""#, "allow", "/tools/refresh_spotify_token"),
            (r#""tool":"play""#, "deny", "/default"),
        ],
    ),
    (
        "a short rate limit allows",
        r#"{"version":"1","default":"deny","tools":{"search":{"rate_limit":{"max":10,"window":60}}}}"#,
        &[(r#""tool":"search""#, "allow", "/tools/search")],
    ),
    (
        "an action of deny denies",
        r#"{"version":"1","default":"allow","tools":{"drop":{"action":"deny","reason":"not here"}}}"#,
        &[
            (r#""tool":"drop""#, "deny", "/tools/drop/action"),
            (r#""tool":"read""#, "allow", "/default"),
        ],
    ),
    (
        "an empty condition list always holds",
        r#"{"version":"1","default":"deny","tools":{"pay":{"deny_if":[{"conditions":[],"on_deny":"Requires human approval."}]},
                "ask":{"approve_if":[{"conditions":[]}]},"need":{"require":[{"conditions":[]}]}}}"#,
        &[
            (r#""tool":"pay""#, "deny", "/tools/pay/deny_if/0"),
            (r#""tool":"ask""#, "ask", "/tools/ask/approve_if/0"),
            (r#""tool":"need""#, "allow", "/tools/need"),
        ],
    ),
    (
        "hide takes names and globs",
        r#"{"version":"1","default":"allow","hide":["x","delete_*"]}"#,
        &[
            (r#""tool":"x""#, "hide", "/hide/0"),
            (r#""tool":"delete_all""#, "hide", "/hide/1"),
            (r#""tool":"y""#, "allow", "/default"),
        ],
    ),
    (
        "hide may hide everything",
        r#"{"version":"1","default":"deny","hide":["*"],"tools":{"x":{}},"prompts":{"p":{}},"resources":{"r":{}}}"#,
        &[
            (r#""tool":"x""#, "hide", "/hide/0"),
            (r#""tool":"y""#, "hide", "/hide/0"),
            (r#""prompt":"p""#, "hide", "/hide/0"),
            (r#""resource":"r""#, "hide", "/hide/0"),
        ],
    ),
];

#[test]
fn names_follow_their_precedence() {
    check(NAMES);
}

const NAMES: &[Row] = &[
    (
        "an exact name beats a glob, a longer prefix beats a shorter, hide beats all",
        r#"{"version":"1","default":"deny","hide":["get_hidden"],"tools":{"*":{"action":"deny"},"get_*":{},"get_secret_*":{"action":"deny"},
                "get_secret_ok":{},"get_hidden":{}}}"#,
        &[
            (r#""tool":"x""#, "deny", "/tools/*/action"),
            (r#""tool":"get_user""#, "allow", "/tools/get_*"),
            (r#""tool":"get_secret_key""#, "deny", "/tools/get_secret_*/action"),
            (r#""tool":"get_secret_ok""#, "allow", "/tools/get_secret_ok"),
            (r#""tool":"get_hidden""#, "hide", "/hide/0"),
            (r#""tool":"GET_USER""#, "deny", "/tools/*/action"),
        ],
    ),
    (
        "an action of hide hides, unless a better match says otherwise",
        r#"{"version":"1","default":"allow","tools":{"delete_*":{"action":"hide"},"delete_draft":{}}}"#,
        &[
            (r#""tool":"delete_all""#, "hide", "/tools/delete_*/action"),
            (r#""tool":"delete_draft""#, "allow", "/tools/delete_draft"),
        ],
    ),
    (
        "names are compared after NFC and odd names are never matched by a glob",
        r#"{"version":"1","default":"deny","hide":["café_hidden"],"tools":{"*":{},"café":{"action":"deny"}}}"#,
        &[
            (r#""tool":"cafe\u0301""#, "deny", "/tools/café/action"),
            (r#""tool":"cafe\u0301_hidden""#, "hide", "/hide/0"),
            (r#""tool":"cafe\u0301_other""#, "deny", "/default"),
            (r#""tool":"caf\u00e9_other""#, "allow", "/tools/*"),
            (r#""tool":"d\u0435lete""#, "deny", "/default"),
            (r#""tool":"get\u0000""#, "deny", "/default"),
            (r#""tool":"get\u200b""#, "deny", "/default"),
            (r#""tool":"get_\u5929\u6c17""#, "allow", "/tools/*"),
        ],
    ),
    (
        "under default allow a name that only looks like another does not slip past its entry",
        r#"{"version":"1","default":"allow","hide":["wipe_*"],"tools":{"delete":{"action":"deny"},"drop_*":{"action":"deny"},"d\u0435lete_ok":{}}}"#,
        &[
            (r#""tool":"d\u0435lete""#, "deny", "/tools/delete"),
            (r#""tool":"delete\u200b""#, "deny", "/tools/delete"),
            (r#""tool":"dr\u043ep_all""#, "deny", "/tools/drop_*"),
            (r#""tool":"wip\u0435_all""#, "deny", "/hide/0"),
            (r#""tool":"d\u0435lete_ok""#, "allow", "/tools/d\u{435}lete_ok"),
            (r#""tool":"r\u0435ad""#, "allow", "/default"),
        ],
    ),
    (
        "resources are matched on their URI, however it is spelled",
        r#"{"version":"1","default":"deny","hide":["file:///data/hidden"],"resources":{"whoop://db/*":{},"file:///data/*":{},"file:///data/secret":{"action":"deny"},"file:///data/a%20b":{"action":"deny"}}}"#,
        &[
            (r#""resource":"whoop://db/sleep""#, "allow", "/resources/whoop:~1~1db~1*"),
            (r#""resource":"whoop://db/a/b%2Fc?x=1""#, "allow", "/resources/whoop:~1~1db~1*"),
            (r#""resource":"whoop://other/x""#, "deny", "/default"),
            (
                r#""resource":"file:///data/secret""#,
                "deny",
                "/resources/file:~1~1~1data~1secret/action",
            ),
            (r#""resource":"file:///data/./secret""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (r#""resource":"file:///data//secret""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (
                r#""resource":"file:///data/x/../secret""#,
                "deny",
                "/resources/file:~1~1~1data~1secret",
            ),
            (r#""resource":"file:///data/%73ecret""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (
                r#""resource":"file:///data/%2573ecret""#,
                "deny",
                "/resources/file:~1~1~1data~1secret",
            ),
            (r#""resource":"file:///data\\secret""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (r#""resource":"file:///data/secret#x""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (r#""resource":"FILE:///data/secret""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (r#""resource":"file:///data/../etc/passwd""#, "deny", "/resources/file:~1~1~1data~1*"),
            (
                r#""resource":"file:///data/a%20b""#,
                "deny",
                "/resources/file:~1~1~1data~1a%20b/action",
            ),
            (r#""resource":"file:///data/a b""#, "deny", "/resources/file:~1~1~1data~1a%20b"),
            (r#""resource":"file:///data/x/../hidden""#, "hide", "/hide/0"),
            (
                r#""resource":"file:///data/x%3F/../secret""#,
                "deny",
                "/resources/file:~1~1~1data~1secret",
            ),
            (
                r#""resource":"file:///data/ok?at=../secret""#,
                "allow",
                "/resources/file:~1~1~1data~1*",
            ),
            (r#""resource":"file:/data/secret""#, "deny", "/resources/file:~1~1~1data~1secret"),
            (
                r#""resource":"file://localhost/data/secret""#,
                "deny",
                "/resources/file:~1~1~1data~1secret",
            ),
            (
                r#""resource":"file:///data/?/../secret""#,
                "deny",
                "/resources/file:~1~1~1data~1secret",
            ),
            (
                r#""resource":"file:///data/#/../../etc/passwd""#,
                "deny",
                "/resources/file:~1~1~1data~1*",
            ),
            (r#""resource":"file:///data/?/../hidden""#, "hide", "/hide/0"),
            (r#""resource":"file:///data/ok""#, "allow", "/resources/file:~1~1~1data~1*"),
        ],
    ),
];

#[test]
fn conditions_are_joined_as_described() {
    check(CONDITIONS);
}

const CONDITIONS: &[Row] = &[
    (
        "conditions are ANDed, deny_if rules ORed, require rules all needed",
        r#"{"version":"1","default":"deny","tools":{
                "d":{"deny_if":[{"conditions":[{"path":"args.a","op":"eq","value":1},{"path":"args.b","op":"eq","value":1}]},{"conditions":[{"path":"args.c","op":"eq","value":1}]}]},
                "r":{"require":[{"conditions":[{"path":"args.a","op":"eq","value":1},{"path":"args.b","op":"eq","value":1}]},{"conditions":[{"path":"args.c","op":"eq","value":1}]}]}}}"#,
        &[
            (r#""tool":"d","args":{"a":1,"b":2,"c":2}"#, "allow", "/tools/d"),
            (r#""tool":"d","args":{"a":1,"b":1,"c":2}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"d","args":{"a":2,"b":1,"c":1}"#, "deny", "/tools/d/deny_if/1"),
            (r#""tool":"r","args":{"a":1,"b":1,"c":1}"#, "allow", "/tools/r"),
            (r#""tool":"r","args":{"a":1,"b":2,"c":1}"#, "deny", "/tools/r/require/0"),
            (r#""tool":"r","args":{"a":1,"b":1,"c":2}"#, "deny", "/tools/r/require/1"),
        ],
    ),
    (
        "a star means any element in deny_if and approve_if and every element in require",
        r#"{"version":"1","default":"deny","tools":{
                "d":{"deny_if":[{"conditions":[{"path":"args.items[*].price","op":"gt","value":100}]}]},
                "a":{"approve_if":[{"conditions":[{"path":"args.items[*].price","op":"gt","value":100}]}]},
                "r":{"require":[{"conditions":[{"path":"args.items[*].price","op":"lte","value":100}]}]}}}"#,
        &[
            (
                r#""tool":"d","args":{"items":[{"price":1},{"price":101}]}"#,
                "deny",
                "/tools/d/deny_if/0",
            ),
            (r#""tool":"d","args":{"items":[{"price":1},{"price":2}]}"#, "allow", "/tools/d"),
            (r#""tool":"d","args":{"items":[]}"#, "allow", "/tools/d"),
            (
                r#""tool":"d","args":{"items":[{"price":"101"},{"price":2}]}"#,
                "deny",
                "/tools/d/deny_if/0",
            ),
            (r#""tool":"d","args":{"items":[{"name":"x"},{"price":2}]}"#, "allow", "/tools/d"),
            (r#""tool":"d","args":{"items":{"price":101}}"#, "deny", "/tools/d/deny_if/0"),
            (
                r#""tool":"a","args":{"items":[{"price":1},{"price":101}]}"#,
                "ask",
                "/tools/a/approve_if/0",
            ),
            (r#""tool":"a","args":{"items":[{"price":null}]}"#, "ask", "/tools/a/approve_if/0"),
            (r#""tool":"a","args":{"items":[]}"#, "allow", "/tools/a"),
            (r#""tool":"r","args":{"items":[{"price":1},{"price":100}]}"#, "allow", "/tools/r"),
            (
                r#""tool":"r","args":{"items":[{"price":1},{"price":101}]}"#,
                "deny",
                "/tools/r/require/0",
            ),
            (r#""tool":"r","args":{"items":[{"price":1},{}]}"#, "deny", "/tools/r/require/0"),
            (r#""tool":"r","args":{"items":[]}"#, "deny", "/tools/r/require/0"),
        ],
    ),
    (
        "nothing is dodged by a wrong type",
        r#"{"version":"1","default":"deny","tools":{
                "d":{"deny_if":[{"conditions":[{"path":"args.amount","op":"gt","value":100}]}]},
                "a":{"approve_if":[{"conditions":[{"path":"args.amount","op":"gt","value":100}]}]},
                "r":{"require":[{"conditions":[{"path":"args.amount","op":"lte","value":100}]}]}}}"#,
        &[
            (r#""tool":"d","args":{"amount":"5000"}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"d","args":{"amount":[5]}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"d","args":{"amount":null}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"d","args":{"amount":true}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"d","args":{"amount":{"n":5}}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"a","args":{"amount":"5000"}"#, "ask", "/tools/a/approve_if/0"),
            (r#""tool":"a","args":{"amount":null}"#, "ask", "/tools/a/approve_if/0"),
            (r#""tool":"r","args":{"amount":"50"}"#, "deny", "/tools/r/require/0"),
            (r#""tool":"r","args":{"amount":[50]}"#, "deny", "/tools/r/require/0"),
            (r#""tool":"r","args":{"amount":null}"#, "deny", "/tools/r/require/0"),
        ],
    ),
    (
        "a missing value fails require and does not hold elsewhere, unless missing says match",
        r#"{"version":"1","default":"deny","tools":{
                "d":{"deny_if":[{"conditions":[{"path":"args.x","op":"eq","value":1}]}]},
                "dm":{"deny_if":[{"conditions":[{"path":"args.x","op":"eq","value":1,"missing":"match"}]}]},
                "a":{"approve_if":[{"conditions":[{"path":"args.x","op":"eq","value":1}]}]},
                "am":{"approve_if":[{"conditions":[{"path":"args.x","op":"eq","value":1,"missing":"match"}]}]},
                "r":{"require":[{"conditions":[{"path":"args.x","op":"eq","value":1}]}]},
                "rm":{"require":[{"conditions":[{"path":"args.x","op":"eq","value":1,"missing":"match"}]}]}}}"#,
        &[
            (r#""tool":"d","args":{}"#, "allow", "/tools/d"),
            (r#""tool":"d""#, "allow", "/tools/d"),
            (r#""tool":"dm","args":{}"#, "deny", "/tools/dm/deny_if/0"),
            (r#""tool":"dm""#, "deny", "/tools/dm/deny_if/0"),
            (r#""tool":"dm","args":{"x":2}"#, "allow", "/tools/dm"),
            (r#""tool":"a","args":{}"#, "allow", "/tools/a"),
            (r#""tool":"am","args":{}"#, "ask", "/tools/am/approve_if/0"),
            (r#""tool":"r","args":{}"#, "deny", "/tools/r/require/0"),
            (r#""tool":"r""#, "deny", "/tools/r/require/0"),
            (r#""tool":"rm","args":{}"#, "allow", "/tools/rm"),
            (r#""tool":"rm","args":{"x":2}"#, "deny", "/tools/rm/require/0"),
        ],
    ),
    (
        "a condition that fails settles a rule even with an indeterminate one, in any order",
        r#"{"version":"1","default":"deny","tools":{
                "d":{"deny_if":[{"conditions":[{"path":"args.a","op":"gt","value":1},{"path":"args.b","op":"eq","value":1}]}]},
                "e":{"deny_if":[{"conditions":[{"path":"args.b","op":"eq","value":1},{"path":"args.a","op":"gt","value":1}]}]}}}"#,
        &[
            (r#""tool":"d","args":{"a":"x","b":2}"#, "allow", "/tools/d"),
            (r#""tool":"e","args":{"a":"x","b":2}"#, "allow", "/tools/e"),
            (r#""tool":"d","args":{"a":"x","b":1}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"e","args":{"a":"x","b":1}"#, "deny", "/tools/e/deny_if/0"),
        ],
    ),
    (
        "exists tells missing from present, and null is present",
        r#"{"version":"1","default":"deny","tools":{
                "d":{"deny_if":[{"conditions":[{"path":"args.x","op":"exists"}]}]},
                "n":{"deny_if":[{"conditions":[{"path":"args.x","op":"exists","value":false}]}]},
                "r":{"require":[{"conditions":[{"path":"args.o.x","op":"exists","value":false}]}]}}}"#,
        &[
            (r#""tool":"d","args":{"x":null}"#, "deny", "/tools/d/deny_if/0"),
            (r#""tool":"d","args":{}"#, "allow", "/tools/d"),
            (r#""tool":"n","args":{}"#, "deny", "/tools/n/deny_if/0"),
            (r#""tool":"n","args":{"x":0}"#, "allow", "/tools/n"),
            (r#""tool":"r","args":{"o":{}}"#, "allow", "/tools/r"),
            (r#""tool":"r","args":{"o":{"x":1}}"#, "deny", "/tools/r/require/0"),
            (r#""tool":"r","args":{"o":"{\"x\":1}"}"#, "deny", "/tools/r/require/0"),
        ],
    ),
    (
        "facts of the caller, the tool and the time are paths too",
        r#"{"version":"1","default":"deny","tools":{
                "g":{"require":[{"conditions":[{"path":"caller.grant","op":"starts_with","value":"alice-"}]}]},
                "s":{"deny_if":[{"conditions":[{"path":"caller.session","op":"eq","value":"s9"}]}]},
                "c":{"require":[{"conditions":[{"path":"caller.client","op":"in","value":["claude","cursor"]}]}]},
                "k":{"approve_if":[{"conditions":[{"path":"tool.category","op":"neq","value":"read"}]}]},
                "q":{"deny_if":[{"conditions":[{"path":"tool.risk","op":"eq","value":"high","missing":"match"}]}]},
                "t":{"require":[{"conditions":[{"path":"time.hour","op":"gte","value":9},{"path":"time.hour","op":"lt","value":17}]}],
                     "deny_if":[{"conditions":[{"path":"time.weekday","op":"in","value":["saturday","sunday"]}]}]}}}"#,
        &[
            (r#""tool":"g","caller":{"grant":"alice-laptop"}"#, "allow", "/tools/g"),
            (r#""tool":"g","caller":{"grant":"bob"}"#, "deny", "/tools/g/require/0"),
            (r#""tool":"s","caller":{"session":"s9"}"#, "deny", "/tools/s/deny_if/0"),
            (r#""tool":"s""#, "allow", "/tools/s"),
            (r#""tool":"c","caller":{"client":"claude"}"#, "allow", "/tools/c"),
            (r#""tool":"c""#, "deny", "/tools/c/require/0"),
            (r#""tool":"k","category":"write""#, "ask", "/tools/k/approve_if/0"),
            (r#""tool":"k","category":"read""#, "allow", "/tools/k"),
            (r#""tool":"k""#, "allow", "/tools/k"),
            (r#""tool":"q","risk":"high""#, "deny", "/tools/q/deny_if/0"),
            (r#""tool":"q","risk":"low""#, "allow", "/tools/q"),
            (r#""tool":"q""#, "deny", "/tools/q/deny_if/0"),
            (r#""tool":"t","time":{"hour":9}"#, "allow", "/tools/t"),
            (r#""tool":"t","time":{"hour":17}"#, "deny", "/tools/t/require/0"),
            (r#""tool":"t","time":{"hour":8,"weekday":"friday"}"#, "deny", "/tools/t/require/0"),
            (r#""tool":"t","time":{"hour":12,"weekday":"sunday"}"#, "deny", "/tools/t/deny_if/0"),
        ],
    ),
];

#[test]
fn the_order_is_the_one_described() {
    let everything = r#"{"version":"1","default":"deny","hide":["h"],
        "all_tools":{"require":[{"conditions":[{"path":"args.all_require","op":"exists","value":false}]}],
            "deny_if":[{"conditions":[{"path":"args.all_deny","op":"exists"}]}],
            "approve_if":[{"conditions":[{"path":"args.all_ask","op":"exists"}]}],
            "limits":[{"window":"day","max":9,"increment":"args.all_amount"}]},
        "tools":{"h":{},"t":{
            "require":[{"conditions":[{"path":"args.require","op":"exists","value":false}]}],
            "deny_if":[{"conditions":[{"path":"args.deny","op":"exists"}]}],
            "approve_if":[{"conditions":[{"path":"args.ask","op":"exists"}]}],
            "limits":[{"window":"day","max":9,"increment":"args.amount"}]},
            "human":{"action":"require_approval"}}}"#;
    check(&[(
        "hidden, entry or default, all_tools.require, require, all_tools.deny_if, deny_if, definition, approvals, limits",
        everything,
        &[
            (r#""tool":"h","args":{"all_require":1,"all_deny":1}"#, "hide", "/hide/0"),
            (r#""tool":"nobody","args":{"all_require":1,"all_deny":1}"#, "deny", "/default"),
            (
                r#""tool":"t","args":{"all_require":1,"require":1,"all_deny":1,"deny":1}"#,
                "deny",
                "/all_tools/require/0",
            ),
            (
                r#""tool":"t","args":{"require":1,"all_deny":1,"deny":1}"#,
                "deny",
                "/tools/t/require/0",
            ),
            (
                r#""tool":"t","definition":"changed","args":{"all_deny":1,"deny":1}"#,
                "deny",
                "/all_tools/deny_if/0",
            ),
            (
                r#""tool":"t","definition":"changed","args":{"deny":1,"all_ask":1}"#,
                "deny",
                "/tools/t/deny_if/0",
            ),
            (
                r#""tool":"t","definition":"changed","args":{"all_ask":1,"ask":1}"#,
                "deny",
                "/on_change",
            ),
            (
                r#""tool":"t","args":{"all_ask":1,"ask":1,"amount":1,"all_amount":1}"#,
                "ask",
                "/all_tools/approve_if/0",
            ),
            (
                r#""tool":"t","args":{"ask":1,"amount":1,"all_amount":1}"#,
                "ask",
                "/tools/t/approve_if/0",
            ),
            (r#""tool":"t","args":{"ask":1,"amount":1}"#, "deny", "/all_tools/limits/0"),
            (r#""tool":"t","args":{"amount":-1,"all_amount":1}"#, "deny", "/tools/t/limits/0"),
            (r#""tool":"t","args":{"amount":1,"all_amount":1}"#, "allow", "/tools/t"),
            (
                r#""tool":"human","args":{"all_ask":1,"all_amount":1}"#,
                "ask",
                "/all_tools/approve_if/0",
            ),
            (r#""tool":"human","args":{"all_amount":1}"#, "ask", "/tools/human/action"),
        ],
    )]);
}

#[test]
fn all_tools_speaks_for_tools_and_nothing_else() {
    check(&[(
        "all_tools holds for tools that only the default allows, and not for resources and prompts",
        r#"{"version":"1","default":"allow","all_tools":{"deny_if":[{"conditions":[]}]}}"#,
        &[
            (r#""tool":"x""#, "deny", "/all_tools/deny_if/0"),
            (r#""resource":"x""#, "allow", "/default"),
            (r#""prompt":"x""#, "allow", "/default"),
        ],
    )]);
}

#[test]
fn a_changed_definition_is_refused_unless_the_policy_says_otherwise() {
    check(&[
        (
            "refused unless said",
            r#"{"version":"1","default":"allow","tools":{"w":{"on_change":"warn"},"a":{"on_change":"allow"},"r":{"on_change":"refuse"}}}"#,
            &[
                (r#""tool":"x","definition":"changed""#, "deny", "/on_change"),
                (r#""tool":"x","definition":"new""#, "deny", "/on_change"),
                (r#""tool":"x","definition":"conflict""#, "deny", "/on_change"),
                (r#""tool":"x","definition":"unchanged""#, "allow", "/default"),
                (r#""tool":"w","definition":"changed""#, "allow", "/tools/w"),
                (r#""tool":"a","definition":"conflict""#, "allow", "/tools/a"),
                (r#""tool":"r","definition":"new""#, "deny", "/tools/r/on_change"),
            ],
        ),
        (
            "the entry's own word beats the policy's",
            r#"{"version":"1","default":"allow","on_change":"allow","tools":{"r":{"on_change":"refuse"}}}"#,
            &[
                (r#""tool":"x","definition":"changed""#, "allow", "/default"),
                (r#""tool":"r","definition":"changed""#, "deny", "/tools/r/on_change"),
            ],
        ),
    ]);
}

#[test]
fn resources_prompts_and_skills_have_entries_like_tools() {
    check(&[(
        "rules, limits and approvals work for all of them",
        r#"{"version":"1","default":"deny",
            "resources":{"mem://*":{"deny_if":[{"conditions":[{"path":"caller.grant","op":"eq","value":"eve"}]}]},"mem://ask":{"action":"require_approval"}},
            "prompts":{"weekly_*":{"require":[{"conditions":[{"path":"args.week","op":"regex","value":"^W[0-9]+$"}]}]},"weekly_hidden":{"action":"hide"}},
            "skills":{"acme/*":{},"acme/pay":{"action":"require_approval"},"acme/old":{"action":"hide"},"draft":{"on_change":"allow"}}}"#,
        &[
            (r#""resource":"mem://a""#, "allow", "/resources/mem:~1~1*"),
            (
                r#""resource":"mem://a","caller":{"grant":"eve"}"#,
                "deny",
                "/resources/mem:~1~1*/deny_if/0",
            ),
            (r#""resource":"mem://ask""#, "ask", "/resources/mem:~1~1ask/action"),
            (r#""prompt":"weekly_review","args":{"week":"W12"}"#, "allow", "/prompts/weekly_*"),
            (
                r#""prompt":"weekly_review","args":{"week":"12"}"#,
                "deny",
                "/prompts/weekly_*/require/0",
            ),
            (r#""prompt":"weekly_hidden""#, "hide", "/prompts/weekly_hidden/action"),
            (r#""tool":"weekly_review""#, "deny", "/default"),
            (r#""skill":"acme/refunds""#, "allow", "/skills/acme~1*"),
            (r#""skill":"acme/pay""#, "ask", "/skills/acme~1pay/action"),
            (r#""skill":"acme/old""#, "hide", "/skills/acme~1old/action"),
            (r#""skill":"refunds""#, "deny", "/default"),
            (r#""skill":"acme/refunds","definition":"changed""#, "deny", "/on_change"),
            (r#""skill":"draft","definition":"changed""#, "allow", "/skills/draft"),
            (r#""prompt":"acme/refunds""#, "deny", "/default"),
        ],
    )]);
}

#[test]
fn a_test_that_expects_something_else_stops_the_load() {
    let source = r#"{"version":"1","default":"deny","tools":{"x":{}},
  "tests":[{"name":"x works","tool":"x","expect":"allow"},
           {"name":"x is closed","tool":"x","expect":"deny"},
           {"tool":"y","expect":"deny","rule":"/hide/0"}]}"#;
    let error = Policy::load(source, Format::Json).unwrap_err();
    let found: Vec<_> = error
        .problems
        .iter()
        .map(|problem| {
            (problem.line, problem.column, problem.pointer.as_str(), problem.message.as_str())
        })
        .collect();
    assert_eq!(
        found,
        [
            (3, 12, "/tests/1", "the test `x is closed` expects deny, got allow by `/tools/x`"),
            (
                4,
                12,
                "/tests/2",
                "the test `test 2` expects deny by `/hide/0`, got deny by `/default`"
            ),
        ]
    );
    let policy = Policy::compile(source, Format::Json).unwrap();
    let passed: Vec<bool> = policy.run_tests().iter().map(|outcome| outcome.passed).collect();
    assert_eq!(passed, [true, false, false]);
}

#[test]
fn a_test_may_expect_a_question_by_the_word_of_the_action() {
    let policy = |expect: &str| {
        format!(
            r#"{{"version":"1","default":"deny","tools":{{"x":{{"action":"require_approval"}}}},
            "tests":[{{"tool":"x","expect":"{expect}"}}]}}"#
        )
    };
    for (expect, loads) in [("ask", true), ("require_approval", true), ("allow", false)] {
        assert_eq!(Policy::load(&policy(expect), Format::Json).is_ok(), loads, "{expect}");
    }
}

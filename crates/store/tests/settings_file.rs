//! `tollgate.toml` is read whole or not at all, and what is wrong is said with line and column.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fixture::{DENY_ALL, Fixture, NOW_US};
use store::effective::{Effective, Lookup, MergeProblem};
use store::ledger::Durability;
use store::registry::{EnvValue, ObjectKind, Origin, Prefix, Target, Token, TokenHash};
use store::secret::Secret;
use store::settings::{Limits, LogFormat, LogLevel, Settings, SettingsError};

const SECRET: &str = "s3cret-from-outside";

fn token() -> Token {
    Token::generate(&store::random::Random::seeded(42)).unwrap()
}

fn load(text: &str) -> Result<Settings, SettingsError> {
    let env = |name: &str| match name {
        "SECRET" => Some(SECRET.to_owned()),
        "TOKEN" => Some(token().expose().to_owned()),
        "NOT_A_TOKEN" => Some("hunter2-hunter2".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let file = |path: &Path| match path.to_str() {
        Some("secret.txt") => Ok(format!("{SECRET}\n")),
        Some("token.txt") => Ok(format!("{}\n", token().expose())),
        Some("policies/deny.json") => Ok(DENY_ALL.to_owned()),
        Some("policies/broken.json") => {
            Ok("{\n  \"version\": \"1\", \"default\": \"deny\",\n  \"colour\": 1\n}".to_owned())
        }
        Some("empty.txt") => Ok("\n".to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    };
    Settings::load(text, &env, &file)
}

#[test]
fn an_empty_file_is_the_defaults() {
    let settings = load("").unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:4180");
    assert_eq!(settings.durability, Durability::Process);
    assert_eq!(settings.limits, Limits::default());
    assert!(settings.servers.is_empty() && settings.tls.is_none() && settings.time_zone.is_none());
}

#[test]
fn a_whole_file_is_read() {
    let settings = load(&format!(
        r#"
listen = "0.0.0.0:8443"
hostnames = ["gate.example.com", "Gate.example.com:8443"]
tls_cert_file = "cert.pem"
tls_key_file = "key.pem"
durability = "power"
time_zone = "Europe/Vienna"
units = "imperial"
energy = "kj"
otel_endpoint = "http://127.0.0.1:4318"

[retention]
days_max = 90

[limits]
body_bytes_max = 1_048_576
approval_hold_seconds = 3

[log]
format = "json"
level = "debug"

[servers.files]
command = ["npx", "server-filesystem", "/data"]
cwd = "/data"
env = {{ MODE = "ro", KEY = {{ env = "SECRET" }} }}
call_ms_max = 5000
share = true
map_names = true

[servers.remote]
url = "https://example.com/mcp"
query = {{ file = "secret.txt" }}
pins_fresh_seconds = 60
[servers.remote.headers]
Authorization = {{ env = "SECRET", prefix = "Bearer " }}
X-Key = {{ file = "secret.txt" }}

[servers.demo]
builtin = "demo"

[policies.deny]
file = "policies/deny.json"

[policies.inline]
source = '''{DENY_ALL}'''

[grants.alice-laptop]
servers = {{ demo = "deny", files = false }}
token_env = "TOKEN"
expires = 2027-01-31T00:00:00+01:00
prefix = "never"

[grants."bob@example.com"]
servers.demo = "inline"
token_sha256 = ["{}", "{}"]
"#,
        "ab".repeat(32),
        "cd".repeat(32)
    ))
    .unwrap();
    assert_eq!(settings.listen.port(), 8443);
    assert_eq!(settings.hostnames, ["gate.example.com", "gate.example.com:8443"]);
    assert_eq!(settings.tls.as_ref().unwrap().key_file, Path::new("key.pem"));
    assert_eq!(settings.durability, Durability::Power);
    assert_eq!(settings.retention.age_seconds_max, Some(90 * 86_400));
    assert_eq!(
        (settings.limits.body_bytes_max, settings.limits.approval_hold_seconds),
        (1 << 20, 3)
    );
    assert_eq!((settings.log.format, settings.log.level), (LogFormat::Json, LogLevel::Debug));

    let files = &settings.servers["files"];
    assert_eq!((files.origin, files.options.call_ms_max), (Origin::File, Some(5000)));
    assert!(files.is_shared() && files.options.map_names);
    let Target::Command { argv, env, .. } = &files.target else { unreachable!() };
    assert_eq!(argv.len(), 3);
    assert_eq!(
        env.iter().find(|(name, _)| name == "MODE").unwrap().1,
        EnvValue::Plain("ro".into())
    );
    let held = |text: &str| store::registry::Credential::Held(Secret::new(text));
    let Target::Url { query, headers, .. } = &settings.servers["remote"].target else {
        unreachable!()
    };
    assert_eq!(*query, Some(held(SECRET)));
    let wanted = [
        ("Authorization".to_owned(), held(&format!("Bearer {SECRET}"))),
        ("X-Key".into(), held(SECRET)),
    ];
    assert_eq!(headers, &wanted);

    let alice = &settings.grants["alice-laptop"];
    assert_eq!(alice.id, "file:alice-laptop");
    assert_eq!(alice.tokens[0].hash, token().hash());
    assert_eq!(alice.expires_at_us, Some(1_801_350_000_000_000));
    assert_eq!(alice.prefix, Prefix::Never);
    assert_eq!(settings.grants["bob@example.com"].prefix, Prefix::Always);
    assert_eq!(
        settings.grants["bob@example.com"].tokens[0].hash,
        TokenHash::from_hex(&"ab".repeat(32)).unwrap()
    );
    assert_eq!(settings.policies["deny"].version, 0);
    assert_eq!(settings.policies["inline"].sha256, settings.policies["deny"].sha256);
    assert!(!format!("{settings:?}").contains(SECRET));
    let files: Vec<_> = settings.files.iter().map(|path| path.to_str().unwrap()).collect();
    assert!(files.contains(&"secret.txt") && files.contains(&"policies/deny.json"), "{files:?}");
}

/// A file, the place of its first problem, and words of it.
const WRONG: &[(&str, usize, usize, &str)] = &[
    ("listen = ", 1, 10, "not TOML"),
    ("lisen = 1", 1, 1, "unknown key `lisen`, did you mean `listen`?"),
    ("\n\n  colour = 1", 3, 3, "unknown key `colour`"),
    ("listen = 4180", 1, 10, "`listen` must be a text"),
    ("listen = \"here\"", 1, 10, "`listen` must be an address and a port"),
    ("listen = \"0.0.0.0:80\"", 1, 10, "can be reached from other machines"),
    ("tls_cert_file = \"a\"", 1, 17, "needs both"),
    ("hostnames = \"a\"", 1, 13, "must be a list of texts"),
    ("hostnames = [\"*.example.com\"]", 1, 14, "must be a host name"),
    ("hostnames = [\"https://a\"]", 1, 14, "must be a host name"),
    ("hostnames = [\"ok\", \"a/b\"]", 1, 20, "must be a host name"),
    ("durability = \"never\"", 1, 14, "one of `process`, `power`"),
    ("time_zone = \"Mars/Olympus\"", 1, 13, "must be a time zone"),
    ("units = \"miles\"", 1, 9, "one of `metric`, `imperial`"),
    ("energy = \"joule\"", 1, 10, "one of `kcal`, `kj`"),
    ("otel_endpoint = \"ftp://x\"", 1, 17, "must be an address"),
    ("otel_endpoint = \"http://u:p@x\"", 1, 17, "without a password"),
    ("[retention]\ndays = 1", 2, 1, "did you mean `days_max`?"),
    ("[retention]\ndays_max = 0", 2, 12, "between 1 and"),
    ("[limits]\nbody_bytes_max = -1", 2, 18, "between"),
    ("[limits]\nbody_bytes_max = 1.5", 2, 18, "whole number"),
    ("[limits]\nbody_byte_max = 1", 2, 1, "did you mean `body_bytes_max`?"),
    ("[log]\nformat = \"xml\"", 2, 10, "one of `human`, `json`"),
    ("servers = 1", 1, 11, "must be a table"),
    ("[servers.A]\nbuiltin = \"demo\"", 1, 10, "cannot be the name of a server"),
    ("[servers.a]", 1, 1, "must have one of `command`, `url`, `builtin`"),
    ("[servers.a]\nbuiltin = \"demo\"\nurl = \"https://x\"", 1, 1, "must have one of"),
    ("[servers.a]\ncommand = []", 2, 11, "command is empty"),
    ("[servers.a]\ncommand = \"npx x\"", 2, 11, "must be a list of texts"),
    ("[servers.a]\ncommand = [\"x\"]\ncwd = \"rel\"", 3, 7, "not an absolute path"),
    ("[servers.a]\ncommand = [\"x\"]\nheaders = {}", 3, 11, "does not go with `command`"),
    ("[servers.a]\nurl = \"http://example.com\"", 2, 7, "clear text"),
    ("[servers.a]\nurl = \"https://x.example?key=1\"", 2, 7, "has a query"),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { X = \"plain-secret\" }",
        3,
        17,
        "must not be written in this file",
    ),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { Host = { env = \"SECRET\" } }",
        3,
        11,
        "cannot be set",
    ),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { X = { env = \"UNSET\" } }",
        3,
        25,
        "`UNSET` is not set",
    ),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { X = { env = \"EMPTY\" } }",
        3,
        25,
        "`EMPTY` is not set",
    ),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { X = { file = \"none\" } }",
        3,
        26,
        "cannot read `none`",
    ),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { X = { file = \"empty.txt\" } }",
        3,
        26,
        "is empty",
    ),
    (
        "[servers.a]\nurl = \"https://x.example\"\nheaders = { X = { env = \"A\", file = \"b\" } }",
        3,
        17,
        "one of `env` and `file`",
    ),
    ("[policies.p]\nfile = \"none\"", 2, 8, "cannot read `none`"),
    ("[policies.p]", 1, 1, "one of `file` and `source`"),
    (
        "[policies.p]\nfile = \"policies/broken.json\"",
        2,
        8,
        "`policies/broken.json` line 3, column 3",
    ),
    ("[policies.p]\nsource = \"{\"", 2, 10, "policy `p` does not load"),
    ("[grants.a]\ntoken_env = \"TOKEN\"", 1, 1, "holds no `servers`"),
    ("[grants.a]\nservers = {}", 1, 1, "must have one of `token_sha256`"),
    ("[grants.a]\nservers = {}\ntoken_env = \"NOT_A_TOKEN\"", 3, 13, "not a tollgate token"),
    ("[grants.a]\nservers = {}\ntoken_sha256 = \"abc\"", 3, 16, "64 hexadecimal digits"),
    (
        "[grants.a]\nservers = {}\ntoken_env = \"TOKEN\"\ntoken_file = \"token.txt\"",
        1,
        1,
        "must have one of",
    ),
    (
        "[grants.a]\nservers = { x = true }\ntoken_env = \"TOKEN\"",
        2,
        17,
        "name of a policy, or `false`",
    ),
    (
        "[grants.a]\nservers = {}\ntoken_env = \"TOKEN\"\nexpires = 2027-01-01",
        4,
        11,
        "with its offset",
    ),
    (
        "[grants.a]\nservers = {}\ntoken_env = \"TOKEN\"\nprefix = \"some\"",
        4,
        10,
        "`always` or `never`",
    ),
    (
        "[grants.\"a b\"]\nservers = {}\ntoken_env = \"TOKEN\"",
        1,
        9,
        "cannot be the name of a grant",
    ),
    ("# größe\n[servers.\"ä\"]\nbuiltin = \"demo\"", 2, 10, "cannot be the name"),
];

#[test]
fn mistakes_are_reported_with_their_position() {
    for (text, line, column, words) in WRONG {
        let error = load(text).unwrap_err();
        let first = error.problems.first().unwrap();
        assert!(first.to_string().contains(words), "{text}\n{error}");
        assert_eq!((first.line, first.column), (*line, *column), "{text}\n{error}");
        for never in ["plain-secret", "hunter2-hunter2", SECRET] {
            assert!(!error.to_string().contains(never), "a value is repeated: {error}");
        }
    }
}

#[test]
fn one_run_shows_all_that_is_wrong_up_to_a_bound() {
    let error = load("a = 1\nb = 2\n[servers.x]\n[grants.y]\n").unwrap_err();
    let lines: Vec<_> = error.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 4]);
    let many = (0..80).map(|i| format!("key{i} = 1\n")).collect::<Vec<_>>().concat();
    let error = load(&many).unwrap_err();
    assert_eq!((error.problems.len(), error.unlisted), (50, 30));
    let long = format!("# {}", "x".repeat(1 << 20));
    assert!(load(&long).unwrap_err().to_string().contains("larger than"));
}

#[test]
fn every_limit_can_be_set_and_stays_in_its_range() {
    for row in Limits::TABLE {
        assert!((row.least..=row.most).contains(&row.default), "{}", row.name);
        let set = |value: u64| load(&format!("[limits]\n{} = {value}", row.name));
        assert_ne!(set(row.most).unwrap().limits, Limits::default(), "{}", row.name);
        assert!(set(row.most + 1).is_err(), "{}", row.name);
        let has_unit = ["_max", "_ms", "_seconds"].iter().any(|unit| row.name.contains(unit));
        assert!(has_unit, "{} has no unit", row.name);
    }
}

#[test]
fn the_hold_of_an_approval_is_read_by_its_former_name() {
    let hold = |text: &str| load(text).unwrap().limits.approval_hold_seconds;
    assert_eq!(hold(""), 25);
    assert_eq!(hold("[limits]\napproval_hold_ms = 4500"), 5);
    assert_eq!(hold("[limits]\napproval_hold_ms = 4500\napproval_hold_seconds = 2"), 2);
    assert!(load("[limits]\napproval_hold_ms = 3600001").is_err());
}

#[test]
fn a_service_has_defaults_unless_the_file_sets_others() {
    let usual = load("").unwrap().service("whoop");
    assert_eq!((usual.sync_interval_minutes, usual.webhook), (30, false));
    let settings = load(
        r#"
[services.whoop]
tools = ["main", "classic"]
sync_interval_minutes = 0
webhook = true
api_base_url = "http://127.0.0.1:9000"
client_id = "me"
client_secret = { env = "SECRET" }

[servers.whoop]
builtin = "whoop"
tools = ["get_whoop_profile"]
"#,
    )
    .unwrap();
    let whoop = settings.service("whoop");
    assert_eq!(whoop.tools, ["main", "classic"]);
    assert_eq!((whoop.sync_interval_minutes, whoop.webhook), (0, true));
    assert_eq!(whoop.client_secret, Some(Secret::new(SECRET)));
    assert_eq!(settings.servers["whoop"].options.tools, ["get_whoop_profile"]);
    for (text, words) in [
        ("[services.whoop]\ncolour = 1\n", "colour"),
        ("[services.whoop]\ntools = [\"a b\"]\n", "set of tools"),
        ("[services.whoop]\nsync_interval_minutes = 99999999\n", "sync_interval_minutes"),
        ("[services.whoop]\nclient_secret = \"in the clear\"\n", "client_secret"),
        ("[servers.x]\nurl = \"https://example.com/\"\ntools = [\"main\"]\n", "does not go"),
    ] {
        let error = load(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

fn merged(fixture: &Fixture, text: &str) -> Result<Effective, String> {
    let snapshot = fixture.registry.snapshot().unwrap();
    Effective::merge(snapshot, Arc::new(load(text).unwrap())).map_err(|e| e.to_string())
}

const FILE: &str = "
[servers.demo]
builtin = \"demo\"
[policies.deny]
file = \"policies/deny.json\"
[grants.alice]
servers = { demo = \"deny\" }
token_env = \"TOKEN\"
";

#[test]
fn objects_of_both_places_work_together() {
    let fixture = Fixture::new();
    fixture.add_builtin("stored");
    fixture.put_policy("kept", DENY_ALL).unwrap();
    let (_, stored_token) = fixture.grant("bob", &[("stored", Some("kept"))]);
    let file = FILE.replace("demo = \"deny\"", "demo = \"deny\", stored = \"kept\"");
    let effective = merged(&fixture, &file).unwrap();
    let Lookup::Active(alice) = effective.lookup(token().expose(), NOW_US) else { unreachable!() };
    assert_eq!(alice.origin, Origin::File);
    let policies: Vec<_> = effective.accesses(alice).map(|a| a.policy.unwrap().label()).collect();
    assert!(policies[0].starts_with("deny@") && policies[1] == "kept@1", "{policies:?}");
    assert!(
        matches!(effective.lookup(stored_token.expose(), NOW_US), Lookup::Active(g) if g.label == "bob")
    );
    assert_eq!(effective.servers.keys().collect::<Vec<_>>(), ["demo", "stored"]);
    let names = load(FILE).unwrap().names();
    assert!(names.servers.contains("demo") && names.grants.contains("alice"));
}

#[test]
fn a_name_in_both_places_is_an_error_that_names_both() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    fixture.put_policy("deny", DENY_ALL).unwrap();
    fixture.grant("alice", &[]);
    let error = merged(&fixture, FILE).unwrap_err();
    for words in [
        "server `demo` is defined twice: in tollgate.toml, line 2, and in gate.db",
        "policy `deny`",
        "grant `alice`",
    ] {
        assert!(error.contains(words), "{error}");
    }
    // In a running gate neither of the two is active, and everything else is.
    fixture.add_builtin("other");
    let snapshot = fixture.registry.snapshot().unwrap();
    let closed = Effective::merge_closed(snapshot, Arc::new(load(FILE).unwrap()));
    assert_eq!(closed.servers.keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(closed.lookup(token().expose(), NOW_US), Lookup::Unknown);
    assert_eq!(closed.problems.len(), 3);
}

#[test]
fn a_revocation_counts_whatever_else_does_not_fit() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let (_, token) = fixture.grant("bob", &[("demo", None)]);
    fixture.registry.revoke_grant("bob", NOW_US).unwrap();
    assert!(merged(&fixture, FILE).is_err());
    let snapshot = fixture.registry.snapshot().unwrap();
    let closed = Effective::merge_closed(snapshot, Arc::new(load(FILE).unwrap()));
    assert!(matches!(closed.lookup(token.expose(), NOW_US), Lookup::Ended { .. }));
}

#[test]
fn a_grant_with_an_unknown_name_is_reported_with_its_position() {
    let fixture = Fixture::new();
    fixture.add_builtin("stored");
    fixture.put_policy("kept", DENY_ALL).unwrap();
    let typo = FILE.replace("demo = \"deny\"", "demo = \"denny\"");
    let error = merged(&fixture, &typo).unwrap_err();
    assert!(error.contains("grant `alice` (tollgate.toml, line 6,) refers to the policy `denny`, which does not exist, did you mean `deny`?"), "{error}");

    // What gate.db holds may lose its server when the file drops it; that denies, and is said.
    let names = load(FILE).unwrap().names();
    let access = fixture::holdings_of(&[("demo", Some("kept"))]);
    fixture.grant("bob", &[]);
    fixture.registry.set_server_access("bob", &access, &names, NOW_US).unwrap();
    let effective = merged(&fixture, "").unwrap();
    let [MergeProblem::Dangling { kind: ObjectKind::Server, name, .. }] =
        effective.problems.as_slice()
    else {
        unreachable!("{:?}", effective.problems)
    };
    assert_eq!(name, "demo");
    assert!(effective.access(effective.grant("bob").unwrap(), "demo").is_none());
}

#[test]
fn one_token_in_two_grants_is_valid_for_neither() {
    let fixture = Fixture::new();
    let twice = format!("{FILE}[grants.carol]\nservers = {{}}\ntoken_file = \"token.txt\"\n");
    let error = merged(&fixture, &twice).unwrap_err();
    assert!(error.contains("`alice` and `carol` have the same token"), "{error}");
    let snapshot = fixture.registry.snapshot().unwrap();
    let closed = Effective::merge_closed(snapshot, Arc::new(load(&twice).unwrap()));
    assert_eq!(closed.lookup(token().expose(), NOW_US), Lookup::Unknown);
}

#[test]
fn a_broken_file_never_replaces_a_good_one() {
    let fixture = Fixture::new();
    let good = Arc::new(load(FILE).unwrap());
    let mut current =
        Effective::merge(fixture.registry.snapshot().unwrap(), Arc::clone(&good)).unwrap();
    // Every way to cut the file short or to lose a byte of it: what loads is whole, what is not is refused.
    for cut in 0..FILE.len() {
        let text = FILE.get(..cut).unwrap();
        let Ok(settings) = load(text) else { continue };
        if let Ok(next) = Effective::merge(fixture.registry.snapshot().unwrap(), Arc::new(settings))
        {
            current = next;
        }
        // A grant is only active with its policy.
        if let Lookup::Active(alice) = current.lookup(token().expose(), NOW_US) {
            let access = current.access(alice, "demo").unwrap();
            assert_eq!(access.policy.unwrap().source, DENY_ALL, "cut at {cut}");
        }
    }
    let again = Effective::merge(fixture.registry.snapshot().unwrap(), good).unwrap();
    assert!(matches!(again.lookup(token().expose(), NOW_US), Lookup::Active(_)));
}

#[test]
fn the_issuer_of_a_team_is_read_with_its_roles() {
    let settings = load(
        r#"
[oidc]
issuer = "https://id.example/realms/team"
client_id = "gate"
client_secret = { env = "SECRET" }
scopes = ["groups", "openid"]
[oidc.roles.viewer]
domains = ["Example.com"]
[oidc.roles.admin]
emails = ["Ann@example.com"]
claims = { groups = ["admins"] }
"#,
    )
    .unwrap();
    let oidc = settings.oidc.unwrap();
    assert_eq!(oidc.label, "id.example");
    assert_eq!(oidc.scopes, ["openid", "email", "groups"]);
    assert_eq!(oidc.client_secret.as_ref().unwrap().expose(), SECRET);
    assert!(!format!("{oidc:?}").contains(SECRET));
    let claims = serde_json::json!({ "email": "ann@example.com", "email_verified": true });
    assert_eq!(oidc.role_of(&claims), Some(store::registry::Role::Admin));
}

#[test]
fn an_issuer_that_could_admit_others_is_refused() {
    let with = |lines: &str| {
        format!("[oidc]\nissuer = \"https://id.example\"\nclient_id = \"gate\"\n{lines}\n")
    };
    let table = [
        ("[oidc]\nclient_id = \"gate\"\n".to_owned(), "needs `issuer`"),
        ("[oidc]\nissuer = \"https://id.example\"\n".to_owned(), "needs `client_id`"),
        ("[oidc]\nissuer = \"http://id.example\"\nclient_id = \"g\"\n".to_owned(), "not https"),
        (with("client_secret = \"in clear\""), "must not be written in this file"),
        (with("redirect_uri = \"https://gate.example/other\""), "/sign-in/oidc/callback"),
        (with("scopes = [\"a b\"]"), "the name of a scope"),
        (with("[oidc.roles.root]\nemails = [\"a@b.example\"]"), "a role is one of"),
        (with("[oidc.roles.admin]"), "admits no identity"),
        (with("[oidc.roles.admin]\ndomains = [\"*.example.com\"]"), "a domain"),
        (with("[oidc.roles.admin]\ndomains = [\"com\"]"), "a domain"),
        (with("[oidc.roles.admin]\nemails = [\"@example.com\"]"), "an e-mail address"),
        (with("[oidc.roles.admin]\nclaims = { groups = [] }"), "a list of values"),
        (with("[oidc.roles.admin]\nemail = [\"a@b.example\"]"), "unknown key"),
    ];
    for (text, expected) in table {
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

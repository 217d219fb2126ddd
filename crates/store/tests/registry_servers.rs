//! Servers are kept with their secrets sealed to their rows, and only fit targets are taken.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, NOW_US, held};
use store::registry::{
    EnvValue, FileNames, NewServer, ObjectKind, RegistryError, ServerOptions, Target,
};
use store::secret::redact_known;

fn command(argv: &[&str], env: &[(&str, EnvValue)], cwd: Option<&str>) -> Target {
    Target::Command {
        secret_args: Vec::new(),
        argv: argv.iter().map(|word| (*word).into()).collect(),
        env: env.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
        cwd: cwd.map(Into::into),
    }
}

fn url(address: &str, headers: &[(&str, &str)]) -> Target {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), held(value))).collect();
    Target::Url { url: address.into(), query: None, headers, allow_plain_http: false }
}

#[test]
fn added_servers_are_read_back_with_their_secrets() {
    let fixture = Fixture::new();
    let hidden = EnvValue::Hidden(held("s3cret-env"));
    let plain = EnvValue::Plain("1".into());
    let files =
        command(&["npx", "server", "/tmp"], &[("DEBUG", plain), ("KEY", hidden)], Some("/"));
    let remote = Target::from_url(
        "https://example.com/mcp?api_key=query-secret",
        vec![("Authorization".into(), held("Bearer header-secret"))],
        false,
    );
    let remote = remote.unwrap();
    fixture.add("files", files.clone()).unwrap();
    fixture.add("remote", remote.clone()).unwrap();
    fixture.add_builtin("demo");
    let opened = |name| {
        let server = fixture.registry.server(name).unwrap();
        assert!(!format!("{server:?}").contains("secret-"), "{server:?}");
        server.target.opened(fixture.registry.vault()).unwrap()
    };
    assert_eq!(opened("files"), files);
    assert_eq!(opened("remote"), remote);
    let Target::Url { url, .. } = remote else { unreachable!() };
    assert_eq!(url, "https://example.com/mcp", "the query is not shown with the address");
    let names: Vec<_> = fixture.registry.servers().unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["demo", "files", "remote"]);
}

#[test]
fn planted_secrets_are_nowhere_in_the_files_of_a_home() {
    let fixture = Fixture::new();
    let secrets: Vec<String> = (0..20).map(|i| format!("planted-{i}-4f1c9b")).collect();
    for (i, pair) in secrets.chunks(4).enumerate() {
        let [header, env, query, arguments] = pair else { unreachable!() };
        let remote = Target::Url {
            url: "https://example.com/mcp".into(),
            query: Some(held(query)),
            headers: vec![("X-Key".into(), held(header))],
            allow_plain_http: false,
        };
        fixture.add(&format!("r{i}"), remote).unwrap();
        let local = command(&["server"], &[("KEY", EnvValue::Hidden(held(env)))], None);
        fixture.add(&format!("c{i}"), local).unwrap();
        let id = format!("approval-{i}");
        fixture.registry.put_parked(&id, arguments.as_bytes(), NOW_US).unwrap();
    }
    let (_, token) = fixture.grant("alice", &[("r0", None)]);
    let mut looked_for: Vec<&str> = secrets.iter().map(String::as_str).collect();
    looked_for.push(token.expose());
    looked_for.push(token.expose().get(3..20).unwrap());
    let files = fixture.bytes();
    assert!(
        files.iter().any(|(path, _)| *path == fixture.db().with_extension("db-wal")),
        "the log is looked at, too"
    );
    for (path, bytes) in files {
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(redact_known(&text, &looked_for), text, "{}", path.display());
    }
}

#[test]
fn a_sealed_value_does_not_open_in_another_row() {
    let fixture = Fixture::new();
    fixture
        .add("good", url("https://good.example/mcp", &[("X-Key", "k-good"), ("X-Two", "k-two")]))
        .unwrap();
    fixture.add("evil", url("https://evil.example/mcp", &[("X-Key", "k-evil")])).unwrap();
    fixture.registry.put_parked("a1", b"{\"amount\":1}", NOW_US).unwrap();
    fixture.registry.put_parked("a2", b"{\"amount\":2}", NOW_US).unwrap();
    let moves = [
        "UPDATE credentials SET sealed = (SELECT c.sealed FROM credentials c JOIN servers s
             ON s.id = c.server_id WHERE s.name = 'good' AND c.name = 'x-key')
         WHERE server_id = (SELECT id FROM servers WHERE name = 'evil')",
        "UPDATE credentials SET sealed = (SELECT c.sealed FROM credentials c WHERE c.name = 'x-two')
         WHERE name = 'x-key' AND server_id = (SELECT id FROM servers WHERE name = 'good')",
        "UPDATE parked SET sealed = (SELECT sealed FROM parked WHERE approval = 'a1')
         WHERE approval = 'a2'",
    ];
    let attacker = rusqlite::Connection::open(fixture.db()).unwrap();
    for sql in moves {
        assert_eq!(attacker.execute(sql, []).unwrap(), 1);
    }
    for name in ["good", "evil"] {
        let error = fixture.registry.server(name).unwrap().target.opened(fixture.registry.vault());
        assert!(error.unwrap_err().to_string().contains("cannot be opened"), "{name}");
    }
    assert!(matches!(fixture.registry.parked("a2"), Err(RegistryError::Vault(_))));
    assert_eq!(fixture.registry.parked("a1").unwrap().unwrap().expose(), b"{\"amount\":1}");
}

#[test]
fn names_and_targets_that_do_not_fit_are_refused() {
    let fixture = Fixture::new();
    for name in ["", "A", "-a", "_a", "a.b", "a b", "a/b", "ä", &"a".repeat(65)] {
        let target = Target::Builtin { service: "demo".into() };
        let error = fixture.add(name, target).unwrap_err();
        assert!(matches!(error, RegistryError::Name { kind: ObjectKind::Server, .. }), "{name}");
    }
    let plain = |text: &str| EnvValue::Plain(text.into());
    let table: Vec<(Target, &str)> = vec![
        (url("example.com", &[]), "not a URL"),
        (url("ftp://example.com/", &[]), "not `https` or `http`"),
        (url("http://example.com/mcp", &[]), "clear text"),
        (url("http://127.0.0.1.example.com/", &[]), "clear text"),
        (url("http://192.168.1.2/mcp", &[]), "clear text"),
        (url("https://user:pw@example.com/", &[]), "user name or password"),
        (url("https://example.com/#a", &[]), "after `#`"),
        (url("https://example.com/?key=1", &[]), "has a query"),
        (url("https://exa mple.com/", &[]), "white space"),
        (url("https://example.com\\@evil.example/", &[]), "white space or control"),
        (url(&format!("https://example.com/{}", "a".repeat(3_000)), &[]), "longer than"),
        (url("https://a.example/", &[("bad name", "v")]), "not a header name"),
        (url("https://a.example/", &[("", "v")]), "not a header name"),
        (url("https://a.example/", &[("Host", "v")]), "cannot be set"),
        (url("https://a.example/", &[("content-TYPE", "v")]), "cannot be set"),
        (url("https://a.example/", &[("Mcp-Session-Id", "v")]), "cannot be set"),
        (url("https://a.example/", &[("Transfer-Encoding", "v")]), "cannot be set"),
        (url("https://a.example/", &[("Connection", "v")]), "cannot be set"),
        (url("https://a.example/", &[("X-A", "1"), ("x-a", "2")]), "given twice"),
        (url("https://a.example/", &[("X-A", "a\r\nX-B: b")]), "cannot carry"),
        (url("https://a.example/", &[("X-A", "")]), "cannot carry"),
        (url("https://a.example/", &[("X-A", " a")]), "cannot carry"),
        (command(&[], &[], None), "command is empty"),
        (command(&[""], &[], None), "command is empty"),
        (command(&["a\0b"], &[], None), "NUL"),
        (command(&["a"], &[("", plain("x"))], None), "environment variable"),
        (command(&["a"], &[("A=B", plain("x"))], None), "environment variable"),
        (command(&["a"], &[("A", plain("x\0"))], None), "environment variable"),
        (command(&["a"], &[("A", plain("x")), ("A", plain("y"))], None), "given twice"),
        (command(&["a"], &[], Some("relative")), "not an absolute path"),
        (Target::Builtin { service: "No!".into() }, "built-in service"),
    ];
    for (target, words) in table {
        let error = fixture.add("x", target.clone()).unwrap_err().to_string();
        assert!(error.contains(words), "{target:?}: {error}");
    }
    assert!(fixture.registry.servers().unwrap().is_empty());
}

#[test]
fn valid_targets_are_accepted() {
    let fixture = Fixture::new();
    let addresses = [
        "https://example.com/mcp",
        "https://example.com:8443/a/b",
        "http://127.0.0.1:3000/mcp",
        "http://127.9.9.9/",
        "http://[::1]:3000/mcp",
        "http://localhost:3000/",
        "http://app.localhost/",
    ];
    for (i, address) in addresses.iter().enumerate() {
        fixture.add(&format!("u{i}"), url(address, &[("Authorization", "Bearer x")])).unwrap();
    }
    let on_purpose = Target::Url {
        url: "http://10.0.0.2/mcp".into(),
        query: None,
        headers: Vec::new(),
        allow_plain_http: true,
    };
    fixture.add("lan", on_purpose).unwrap();
}

#[test]
fn a_name_is_taken_once_in_either_place() {
    let fixture = Fixture::new();
    fixture.add_builtin("demo");
    let again = fixture.add("demo", Target::Builtin { service: "demo".into() }).unwrap_err();
    assert!(again.to_string().contains("in gate.db"), "{again}");
    let new = NewServer {
        name: "notes".into(),
        target: Target::Builtin { service: "demo".into() },
        options: ServerOptions::default(),
    };
    let names = FileNames { servers: ["notes".to_owned()].into(), ..FileNames::default() };
    let error = fixture.registry.add_server(&new, &names, NOW_US).unwrap_err();
    assert!(error.to_string().contains("in tollgate.toml"), "{error}");
    let missing = fixture.registry.server("demmo").unwrap_err();
    assert!(missing.to_string().contains("did you mean `demo`?"), "{missing}");
}

#[test]
fn a_replaced_server_keeps_the_credentials_that_are_passed_on() {
    let fixture = Fixture::new();
    fixture.add("x", url("https://a.example/", &[("X-Key", "old"), ("X-Gone", "gone")])).unwrap();
    let Target::Url { mut headers, .. } = fixture.registry.server("x").unwrap().target else {
        unreachable!()
    };
    headers.truncate(1);
    let target = Target::Url {
        url: "https://b.example/".into(),
        query: None,
        headers,
        allow_plain_http: false,
    };
    let options = ServerOptions { call_ms_max: Some(7), ..ServerOptions::default() };
    let new = NewServer { name: "x".into(), target, options };
    fixture.registry.replace_server(&new, NOW_US + 1).unwrap();
    let server = fixture.again().server("x").unwrap();
    assert_eq!(server.options.call_ms_max, Some(7));
    assert_eq!((server.created_at_us, server.updated_at_us), (NOW_US, NOW_US + 1));
    let opened = server.target.opened(fixture.registry.vault()).unwrap();
    assert_eq!(opened, url("https://b.example/", &[("X-Key", "old")]));
}

#[test]
fn a_later_server_of_the_same_name_inherits_nothing() {
    let fixture = Fixture::new();
    fixture.add("x", url("https://a.example/", &[("X-Key", "old")])).unwrap();
    fixture.add_builtin("y");
    fixture.observe("x", r#"[{"name":"t"}]"#).unwrap();
    fixture.grant("alice", &[("x", None), ("y", None)]);
    assert_eq!(fixture.registry.remove_server("x", NOW_US).unwrap(), ["alice"]);
    fixture.add_builtin("x");
    let grant = fixture.registry.grant("alice").unwrap();
    assert_eq!(grant.server_access.iter().map(|h| h.server.as_str()).collect::<Vec<_>>(), ["y"]);
    assert!(fixture.registry.pins("x").unwrap().is_empty());
    assert!(matches!(
        fixture.registry.remove_server("z", NOW_US),
        Err(RegistryError::Missing { .. })
    ));
}

#[test]
fn the_arguments_of_a_parked_call_are_kept_once_and_deleted() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.put_parked("a1", b"one", NOW_US).unwrap();
    assert!(matches!(registry.put_parked("a1", b"two", NOW_US), Err(RegistryError::Exists { .. })));
    assert_eq!(registry.parked("a1").unwrap().unwrap().expose(), b"one");
    assert!(registry.delete_parked("a1").unwrap());
    assert!(!registry.delete_parked("a1").unwrap());
    assert!(registry.parked("a1").unwrap().is_none());
    registry.put_parked("old", b"x", NOW_US - 10).unwrap();
    registry.put_parked("new", b"x", NOW_US).unwrap();
    assert_eq!(registry.delete_parked_before(NOW_US).unwrap(), 1);
    assert!(registry.parked("new").unwrap().is_some());
    assert!(registry.put_parked("", b"x", NOW_US).is_err());
}

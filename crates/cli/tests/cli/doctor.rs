//! `tollgate doctor`: each problem is reported with the command that fixes it.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use insta::assert_snapshot;

use crate::cli_test::{CliTest, set_bits};
use crate::servers::{SHELL_SERVER, TOOLS};

/// A free port, so that other programs do not matter.
fn with_port(test: &CliTest) -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fs::create_dir_all(test.home()).unwrap();
    set_bits(&test.home(), 0o700);
    // Few connections, so that the limit on open files does not matter either.
    let text = format!("listen = \"127.0.0.1:{port}\"\n[limits]\nconnections_max = 10\n");
    fs::write(test.home().join("tollgate.toml"), text).unwrap();
    port
}

#[test]
fn a_missing_home_is_good() {
    let test = CliTest::new();
    let output = test.run(&["doctor", "--json"]);
    let findings = output.json();
    let home =
        findings.as_array().unwrap().iter().find(|finding| finding["about"] == "home").unwrap();
    assert_eq!(home["health"], "good");
    assert!(!test.home().exists(), "a check creates nothing");
}

#[test]
fn a_healthy_home_is_all_good() {
    let test = CliTest::new();
    with_port(&test);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/up/demo/policy.json");
    test.succeed(&["policy", "set", "demo", policy]);
    test.grant("alice");
    assert_snapshot!(test.transcript(&["doctor", "--thorough"]));
}

#[test]
fn each_problem_is_reported_with_its_fix() {
    let test = CliTest::new();
    let port = with_port(&test);
    let (script, tools) = (test.write("server.sh", SHELL_SERVER), test.write("tools.json", TOOLS));
    fs::create_dir(test.path("work")).unwrap();
    test.succeed(&["server", "add", "book", "--", "sh", &script, &tools]);
    test.succeed(&["server", "add", "gone", "--no-connect", "--", "no-such-program-here"]);
    test.succeed(&["server", "add", "lost", "--no-connect", "--cwd", "work", "--", "sh"]);
    test.succeed(&["server", "add", "far", "--no-connect", "--url", "http://127.0.0.1:9/mcp"]);
    fs::remove_dir(test.path("work")).unwrap();
    test.succeed(&["grant", "create", "alice", "--server", "book"]);
    test.write("tools.json", &TOOLS.replace("Tears", "Gently tears"));
    assert_eq!(test.run(&["server", "pins", "book", "--look"]).code, 1);
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let told = test.transcript(&["doctor"]).replace(&format!("sport = :{port}"), "sport = :[PORT]");
    assert_snapshot!(told);
}

#[test]
fn wrong_modes_are_reported_and_not_changed() {
    let test = CliTest::new();
    with_port(&test);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let (home, key) = (test.home(), test.home().join("vault.key"));
    set_bits(&home, 0o755);
    set_bits(&key, 0o644);
    assert_snapshot!(test.transcript(&["doctor"]));
    assert_eq!(platform::private::bits(&fs::metadata(&key).unwrap()), 0o644);
    // The suggested command fixes it.
    for finding in test.run(&["doctor", "--json"]).json().as_array().unwrap() {
        if let Some(mend) = finding["mend"].as_str() {
            let mend = mend.trim_matches('`');
            assert!(
                std::process::Command::new("sh").args(["-c", mend]).status().unwrap().success()
            );
        }
    }
    assert_eq!(test.run(&["doctor"]).code, 0);
}

#[test]
fn broken_settings_are_shown_with_their_line() {
    let test = CliTest::new();
    let port = with_port(&test);
    // Another program has the default port, but the broken settings may name another one.
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let text = format!("listen = \"127.0.0.1:{port}\"\ndurabilty = \"power\"\n");
    fs::write(test.home().join("tollgate.toml"), text).unwrap();
    let output = test.run(&["doctor", "--json"]);
    assert_eq!(output.code, 1);
    let findings = output.json();
    let wrong: Vec<_> =
        findings.as_array().unwrap().iter().filter(|f| f["health"] == "wrong").collect();
    assert_eq!(wrong.len(), 1, "nothing else is reported: {wrong:?}");
    assert_eq!(wrong[0]["about"], "settings");
    assert!(wrong[0]["words"].as_str().unwrap().contains("line 2, column 1"), "{wrong:?}");
}

#[test]
fn a_damaged_database_a_lost_key_and_an_edited_log_are_found() {
    let test = CliTest::new();
    with_port(&test);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let about = |name: &str| {
        let output = test.run(&["doctor", "--json"]);
        let wrong: Vec<String> = output
            .json()
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["about"] == name && f["health"] == "wrong")
            .map(|f| f["words"].as_str().unwrap().to_owned())
            .collect();
        (output.code, wrong.join("; "))
    };
    let log = test.home().join("audit");
    let log = fs::read_dir(log)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "log"))
        .unwrap();
    let whole = fs::read_to_string(&log).unwrap();
    fs::write(&log, whole.replacen("server_added", "server_adder", 1)).unwrap();
    let (code, words) = about("audit");
    assert!(code == 1 && words.contains("not as it was written"), "{words}");
    fs::write(&log, whole).unwrap();

    let key = fs::read(test.home().join("vault.key")).unwrap();
    fs::remove_file(test.home().join("vault.key")).unwrap();
    let (code, words) = about("key");
    assert!(code == 1 && words.contains("is missing"), "{words}");
    fs::write(test.home().join("vault.key"), key).unwrap();
    set_bits(&test.home().join("vault.key"), 0o600);

    for file in ["gate.db-wal", "gate.db-shm"] {
        let _ = fs::remove_file(test.home().join(file));
    }
    fs::write(test.home().join("gate.db"), "this is no database at all, is it? ".repeat(99))
        .unwrap();
    let (code, words) = about("database");
    assert!(code == 1 && words.contains("damaged"), "{words}");
}

/// The problems that `doctor` reports, and their fixes.
fn wrong(test: &CliTest, arguments: &[&str]) -> Vec<(String, String)> {
    let output = test.run(&[&["doctor", "--json"][..], arguments].concat());
    let findings = output.json();
    let wrong = findings.as_array().unwrap().iter().filter(|f| {
        // Whether another program has the default port does not matter here.
        f["health"] == "wrong" && f["about"] != "port"
    });
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let wrong: Vec<_> = wrong.map(|f| (text(&f["words"]), text(&f["mend"]))).collect();
    wrong
}

#[test]
fn an_impossible_home_is_reported() {
    let test = CliTest::new();
    let file = test.write("file", "");
    for (home, words) in
        [(file.clone(), "is not a folder"), (format!("{file}/below"), "cannot be created")]
    {
        let found = wrong(&test, &["--home", &home]);
        assert!(matches!(&found[..], [(output, _)] if output.contains(words)), "{found:?}");
        assert!(found[0].1.contains("TOLLGATE_HOME"), "{found:?}");
    }
}

/// A home whose settings name a certificate and a key that do not exist yet.
fn with_tls() -> CliTest {
    let test = CliTest::new();
    with_port(&test);
    let settings = test.home().join("tollgate.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let tls = "tls_cert_file = \"cert.pem\"\ntls_key_file = \"key.pem\"\n";
    fs::write(&settings, format!("{tls}{text}")).unwrap();
    test
}

#[test]
fn tls_files_that_do_not_match_are_reported() {
    let test = with_tls();
    fs::write(test.home().join("cert.pem"), "junk").unwrap();
    let found = wrong(&test, &[]);
    assert!(matches!(&found[..], [(output, _)] if output.contains("cert.pem")), "{found:?}");
    assert!(found[0].1.contains("PEM"), "{found:?}");
}

#[test]
fn expiring_and_expired_certificates_are_reported() {
    let test = with_tls();
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |days: i64| {
        let date = today.checked_add(jiff::Span::new().days(days)).unwrap();
        rcgen::date_time_ymd(
            date.year().into(),
            date.month().try_into().unwrap(),
            date.day().try_into().unwrap(),
        )
    };
    let cases = [
        (-90, -1, "wrong", "expired at"),
        (-80, 10, "careful", "expires at"),
        (-60, 30, "good", "is valid until"),
        // Valid for a week: half of it is left.
        (-3, 4, "good", "is valid until"),
        (2, 90, "wrong", "is valid only from"),
    ];
    for (from, until, health, words) in cases {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (day(from), day(until));
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(test.home().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(test.home().join("key.pem"), key.serialize_pem()).unwrap();
        let output = test.run(&["doctor", "--json"]);
        let findings = output.json();
        let mut found = findings.as_array().unwrap().iter();
        let found = found.find(|f| f["words"].as_str().unwrap().contains("the certificate in"));
        let found = found.unwrap_or_else(|| panic!("{}", output.all_output()));
        assert_eq!(found["health"], health, "{found}");
        assert!(found["words"].as_str().unwrap().contains(words), "{found}");
    }
}

#[test]
fn a_key_readable_by_others_is_reported_with_its_fix() {
    let test = with_tls();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(test.home().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let file = test.home().join("key.pem");
    fs::write(&file, key.serialize_pem()).unwrap();
    for (mode, told) in [
        (0o600, false),
        (0o400, false),
        (0o640, false),
        (0o644, true),
        (0o660, true),
        (0o604, true),
    ] {
        set_bits(&file, mode);
        let mend = || {
            let findings = test.run(&["doctor", "--json"]).json();
            let found = findings.as_array().unwrap().iter();
            let mut found =
                found.filter(|f| f["words"].as_str().unwrap().contains("can access the key"));
            found.next().map(|found| found["mend"].as_str().unwrap().replace('`', ""))
        };
        let output = mend();
        assert_eq!(output.is_some(), told, "{mode:o}: {output:?}");
        let up = test.up(&[]).stop();
        assert_eq!(
            up.stderr.contains("others can access the key"),
            told,
            "{mode:o}: {}",
            up.stderr
        );
        if let Some(command) = output {
            assert!(up.stderr.contains(&command), "{}", up.stderr);
            assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
            assert_eq!(mend(), None, "{mode:o}: the command fixes it");
        }
    }
}

#[test]
fn a_damaged_database_is_restored_from_the_newest_copy() {
    let test = CliTest::new();
    with_port(&test);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let (gate, copy) =
        (test.home().join("gate.db"), test.home().join("backups").join("gate-schema1-x.db"));
    let whole = fs::read(&gate).unwrap();
    fs::write(&gate, "no database ".repeat(99)).unwrap();
    let found = wrong(&test, &[]);
    assert!(matches!(&found[..], [(_, mend)] if mend.contains("no copy in")), "{found:?}");
    fs::write(&copy, whole).unwrap();
    set_bits(&copy, 0o600);
    let found = wrong(&test, &[]);
    let command = format!("`cp {} {}`", copy.display(), gate.display());
    assert!(found[0].1.contains(&command), "{found:?}");
    fs::copy(&copy, &gate).unwrap();
    assert!(wrong(&test, &[]).is_empty(), "the command fixes it");
}

#[test]
fn a_missing_database_is_reported_and_not_recreated() {
    let test = CliTest::new();
    with_port(&test);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let gate = test.home().join("gate.db");
    let copy = test.home().join("backups").join("gate-schema1-x.db");
    fs::rename(&gate, &copy).unwrap();
    for _ in 0..2 {
        let found = wrong(&test, &[]);
        assert!(matches!(&found[..], [(output, _)] if output.contains("is gone")), "{found:?}");
    }
    // The write-ahead log of a killed process belongs to the removed file.
    let left = test.home().join("gate.db-wal");
    fs::write(&left, "left behind").unwrap();
    set_bits(&left, 0o600);
    let mend = wrong(&test, &[]).remove(0).1;
    let command = mend.split('`').nth(1).unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
    assert!(!left.exists(), "{mend}");
    assert!(wrong(&test, &[]).is_empty(), "the command fixes it");
    assert!(test.succeed(&["server", "list"]).stdout.contains("demo"));
}

#[test]
fn duplicate_definitions_are_reported_and_the_command_removes_one() {
    let test = CliTest::new();
    with_port(&test);
    let open = test.write("open.json", r#"{"version":"1","default":"allow"}"#);
    test.succeed(&["policy", "set", "open", &open]);
    test.succeed(&["server", "add", "twice", "--builtin", "demo"]);
    test.succeed(&["server", "add", "once", "--builtin", "demo"]);
    test.succeed(&["grant", "create", "bob", "--server", "once=open"]);
    let settings = test.home().join("tollgate.toml");
    let port = fs::read_to_string(&settings).unwrap();
    let hash = "1".repeat(64);
    let cases = [
        ("[servers.twice]\nbuiltin = \"demo\"\n", "`tollgate server remove twice`"),
        (
            &format!("[grants.bob]\ntoken_sha256 = \"{hash}\"\nservers = {{}}\n"),
            "`tollgate grant revoke bob`",
        ),
        ("[policies.open]\nsource = '{\"version\":\"1\",\"default\":\"deny\"}'\n", ""),
    ];
    for (twice, command) in cases {
        fs::write(&settings, format!("{port}{twice}")).unwrap();
        let found = wrong(&test, &[]);
        assert!(
            matches!(&found[..], [(output, _)] if output.contains("defined twice")),
            "{found:?}"
        );
        assert!(found[0].1.contains("rename it in the file"), "{found:?}");
        for list in [&["server", "list"][..], &["grant", "list"], &["policy", "list"]] {
            let said = test.run(list).stderr;
            assert_eq!(said.matches("defined twice").count(), 1, "{list:?}: {said}");
        }
        let named = found[0].1.split_once("or run ").map(|(_, command)| command);
        assert_eq!(named.unwrap_or_default(), command);
        if named.is_some() {
            let words: Vec<&str> = command.trim_matches('`').split(' ').skip(1).collect();
            test.succeed(&words);
            assert!(wrong(&test, &[]).is_empty(), "`{command}` mends it");
        }
    }
}

#[test]
fn files_that_a_gate_cannot_write_are_reported() {
    // File modes do not stop root.
    if platform::private::is_administrator() {
        return;
    }
    let test = CliTest::new();
    with_port(&test);
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    for (path, mode) in [(test.home().join("gate.db"), 0o400), (test.home().join("audit"), 0o500)] {
        let right = fs::metadata(&path).unwrap().permissions();
        set_bits(&path, mode);
        let found = wrong(&test, &[]);
        assert!(found[0].1.starts_with("`chmod u+rw"), "{found:?}");
        fs::set_permissions(&path, right).unwrap();
        assert!(wrong(&test, &[]).is_empty(), "the command fixes it");
    }
}

/// A damage of a home.
type Damage = dyn Fn(&std::path::Path);

#[test]
fn an_emptied_database_and_files_of_the_wrong_kind_are_reported() {
    let lost = |home: &std::path::Path| fs::write(home.join("gate.db"), "").unwrap();
    let folder = |home: &std::path::Path| {
        fs::remove_file(home.join("gate.db")).unwrap();
        fs::create_dir(home.join("gate.db")).unwrap();
    };
    let file = |home: &std::path::Path| {
        fs::remove_dir_all(home.join("audit")).unwrap();
        fs::write(home.join("audit"), "").unwrap();
    };
    let segment = |home: &std::path::Path| {
        fs::remove_file(home.join("audit/00000001.log")).unwrap();
        fs::create_dir(home.join("audit/00000001.log")).unwrap();
    };
    let cases: [(&str, &Damage); 4] = [
        ("`gate.db` is empty: all servers, policies and grants are lost", &lost),
        ("gate.db` is not a file", &folder),
        ("audit` is not a folder", &file),
        ("00000001.log` is not a file", &segment),
    ];
    for (words, damage) in cases {
        let test = CliTest::new();
        with_port(&test);
        test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
        damage(&test.home());
        let output = test.run(&["doctor"]);
        assert_eq!(output.code, 1, "{}", output.all_output());
        assert!(output.stdout.contains(words), "{words}: {}", output.all_output());
        assert!(!output.stdout.contains("tollgate doctor"), "{}", output.all_output());
    }
    let test = CliTest::new();
    test.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    lost(&test.home());
    let output = test.run(&["server", "list"]);
    assert!(
        output.stderr.contains("`gate.db` is empty although this home was used"),
        "{}",
        output.stderr
    );
}

/// Runs the suggested commands of each finding as they are printed.
#[cfg(unix)]
#[test]
fn every_suggested_command_fixes_its_finding() {
    type Home<'a> = &'a std::path::Path;
    let readable = |home: Home| {
        set_bits(&home.join("vault.key"), 0o644);
    };
    let open = |home: Home| {
        set_bits(&home.join("audit"), 0o755);
    };
    let link = |home: Home| {
        let (at, elsewhere) = (home.join("vault.key"), home.join("../the key"));
        fs::rename(&at, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &at).unwrap();
    };
    let folder_link = |home: Home| {
        let (at, elsewhere) = (home.join("audit"), home.join("../the log"));
        fs::rename(&at, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &at).unwrap();
    };
    let no_folder = |home: Home| fs::remove_dir(home.join("../its folder")).unwrap();
    let damaged = |home: Home| fs::write(home.join("gate.db"), "no database ".repeat(9)).unwrap();
    let misplaced = |home: Home| {
        fs::remove_dir_all(home.join("backups")).unwrap();
        fs::write(home.join("backups"), "").unwrap();
    };
    let changed = |home: Home| {
        let file = home.join("../tools.json");
        fs::write(&file, TOOLS.replace("Tears", "Gently tears")).unwrap();
    };
    let cases: [(&str, &Damage); 8] = [
        ("others can access", &readable),
        ("others can access", &open),
        ("is a symbolic link", &link),
        ("is a symbolic link", &folder_link),
        ("its folder", &no_folder),
        ("is damaged", &damaged),
        ("is not a folder", &misplaced),
        ("from what you accepted", &changed),
    ];
    for (words, damage) in cases {
        let test = CliTest::new();
        let home = test.path("a 'home' of $mine");
        let named = home.display().to_string();
        let run = |more: &[&str]| test.run(&[&["--home", &named][..], more].concat());
        fs::create_dir(test.path("its folder")).unwrap();
        let (script, tools) =
            (test.write("server.sh", SHELL_SERVER), test.write("tools.json", TOOLS));
        let add = ["server", "add", "book", "--cwd", "its folder", "--", "sh", &script, &tools];
        assert_eq!(run(&add).code, 0);
        damage(&home);
        if words == "from what you accepted" {
            run(&["server", "pins", "book", "--look"]);
        }
        let found = || {
            let findings = run(&["doctor", "--json"]).json();
            let mut found = findings.as_array().unwrap().clone().into_iter();
            found.find(|f| f["words"].as_str().unwrap().contains(words) && f["health"] != "good")
        };
        let finding = found().unwrap_or_else(|| panic!("{words}: {}", run(&["doctor"]).stdout));
        let mend = finding["mend"].as_str().unwrap();
        let commands = mend.split('`').skip(1).step_by(2).filter(|text| text.contains(' '));
        for command in commands {
            let ours = format!("{} ", env!("CARGO_BIN_EXE_tollgate"));
            let command = match command.strip_prefix("tollgate ") {
                Some(rest) => format!("{ours}{rest}"),
                None => command.to_owned(),
            };
            let status = Command::new("sh").args(["-c", &command]).status().unwrap();
            assert!(status.code().is_some_and(|code| code < 2), "{command}");
        }
        assert!(found().is_none(), "{words}: {mend}: {}", run(&["doctor"]).stdout);
    }
}

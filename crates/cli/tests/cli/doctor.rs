//! `tollgate doctor`: each thing that can be wrong is named with the command that mends it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use insta::assert_snapshot;

use crate::servers::{SHELL_SERVER, TOOLS};
use crate::stage::Stage;

/// A free port, so that no other program of the machine plays a part.
fn with_port(stage: &Stage) -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fs::create_dir_all(stage.home()).unwrap();
    fs::set_permissions(stage.home(), fs::Permissions::from_mode(0o700)).unwrap();
    // Few connections, so that the limit on open files plays no part either.
    let text = format!("listen = \"127.0.0.1:{port}\"\n[limits]\nconnections_max = 10\n");
    fs::write(stage.home().join("tollgate.toml"), text).unwrap();
    port
}

#[test]
fn a_home_that_is_not_there_yet_is_fine() {
    let stage = Stage::new();
    let said = stage.run(&["doctor", "--json"]);
    let findings = said.json();
    let home =
        findings.as_array().unwrap().iter().find(|finding| finding["about"] == "home").unwrap();
    assert_eq!(home["health"], "good");
    assert!(!stage.home().exists(), "looking makes nothing");
}

#[test]
fn a_healthy_home_is_all_good() {
    let stage = Stage::new();
    with_port(&stage);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/src/run/demo/policy.json");
    stage.fine(&["policy", "set", "demo", policy]);
    stage.grant("alice");
    assert_snapshot!(stage.told(&["doctor", "--thorough"]));
}

#[test]
fn each_trouble_is_named_with_what_mends_it() {
    let stage = Stage::new();
    let port = with_port(&stage);
    let (script, tools) =
        (stage.write("server.sh", SHELL_SERVER), stage.write("tools.json", TOOLS));
    fs::create_dir(stage.path("work")).unwrap();
    stage.fine(&["server", "add", "book", "--", "sh", &script, &tools]);
    stage.fine(&["server", "add", "gone", "--no-connect", "--", "no-such-program-here"]);
    stage.fine(&["server", "add", "lost", "--no-connect", "--cwd", "work", "--", "sh"]);
    stage.fine(&["server", "add", "far", "--no-connect", "--url", "http://127.0.0.1:9/mcp"]);
    fs::remove_dir(stage.path("work")).unwrap();
    stage.fine(&["grant", "create", "alice", "--server", "book"]);
    stage.write("tools.json", &TOOLS.replace("Tears", "Gently tears"));
    assert_eq!(stage.run(&["server", "pins", "book", "--look"]).code, 1);
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let told = stage.told(&["doctor"]).replace(&format!("sport = :{port}"), "sport = :[PORT]");
    assert_snapshot!(told);
}

#[test]
fn wrong_modes_are_named_and_not_touched() {
    let stage = Stage::new();
    with_port(&stage);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let (home, key) = (stage.home(), stage.home().join("vault.key"));
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_snapshot!(stage.told(&["doctor"]));
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o644);
    // What it says mends it does.
    for finding in stage.run(&["doctor", "--json"]).json().as_array().unwrap() {
        if let Some(mend) = finding["mend"].as_str() {
            let mend = mend.trim_matches('`');
            assert!(
                std::process::Command::new("sh").args(["-c", mend]).status().unwrap().success()
            );
        }
    }
    assert_eq!(stage.run(&["doctor"]).code, 0);
}

#[test]
fn broken_settings_are_shown_with_their_line() {
    let stage = Stage::new();
    let port = with_port(&stage);
    // Somebody else has the port, and nobody knows whether it is the one that is meant.
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let text = format!("listen = \"127.0.0.1:{port}\"\ndurabilty = \"power\"\n");
    fs::write(stage.home().join("tollgate.toml"), text).unwrap();
    let said = stage.run(&["doctor", "--json"]);
    assert_eq!(said.code, 1);
    let findings = said.json();
    let wrong: Vec<_> =
        findings.as_array().unwrap().iter().filter(|f| f["health"] == "wrong").collect();
    assert_eq!(wrong.len(), 1, "nothing else is blamed: {wrong:?}");
    assert_eq!(wrong[0]["about"], "settings");
    assert!(wrong[0]["words"].as_str().unwrap().contains("line 2, column 1"), "{wrong:?}");
}

#[test]
fn a_damaged_database_a_lost_key_and_an_edited_log_are_found() {
    let stage = Stage::new();
    with_port(&stage);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let about = |name: &str| {
        let said = stage.run(&["doctor", "--json"]);
        let wrong: Vec<String> = said
            .json()
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["about"] == name && f["health"] == "wrong")
            .map(|f| f["words"].as_str().unwrap().to_owned())
            .collect();
        (said.code, wrong.join("; "))
    };
    let log = stage.home().join("audit");
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

    let key = fs::read(stage.home().join("vault.key")).unwrap();
    fs::remove_file(stage.home().join("vault.key")).unwrap();
    let (code, words) = about("key");
    assert!(code == 1 && words.contains("has gone"), "{words}");
    fs::write(stage.home().join("vault.key"), key).unwrap();
    fs::set_permissions(stage.home().join("vault.key"), fs::Permissions::from_mode(0o600)).unwrap();

    for file in ["gate.db-wal", "gate.db-shm"] {
        let _ = fs::remove_file(stage.home().join(file));
    }
    fs::write(stage.home().join("gate.db"), "this is no database at all, is it? ".repeat(99))
        .unwrap();
    let (code, words) = about("database");
    assert!(code == 1 && words.contains("damaged"), "{words}");
}

/// What is wrong in the eyes of `doctor`, and what mends it.
fn wrong(stage: &Stage, arguments: &[&str]) -> Vec<(String, String)> {
    let said = stage.run(&[&["doctor", "--json"][..], arguments].concat());
    let findings = said.json();
    let wrong = findings.as_array().unwrap().iter().filter(|f| {
        // Whoever else has the usual port is not what these are about.
        f["health"] == "wrong" && f["about"] != "port"
    });
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let wrong: Vec<_> = wrong.map(|f| (text(&f["words"]), text(&f["mend"]))).collect();
    wrong
}

#[test]
fn a_home_that_cannot_be_one_is_found() {
    let stage = Stage::new();
    let file = stage.write("file", "");
    for (home, words) in
        [(file.clone(), "is not a folder"), (format!("{file}/below"), "cannot be made")]
    {
        let found = wrong(&stage, &["--home", &home]);
        assert!(matches!(&found[..], [(said, _)] if said.contains(words)), "{found:?}");
        assert!(found[0].1.contains("TOLLGATE_HOME"), "{found:?}");
    }
}

/// A home whose settings name a certificate and a key, which are not there yet.
fn with_tls() -> Stage {
    let stage = Stage::new();
    with_port(&stage);
    let settings = stage.home().join("tollgate.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let tls = "tls_cert_file = \"cert.pem\"\ntls_key_file = \"key.pem\"\n";
    fs::write(&settings, format!("{tls}{text}")).unwrap();
    stage
}

#[test]
fn tls_files_that_are_no_pair_are_found() {
    let stage = with_tls();
    fs::write(stage.home().join("cert.pem"), "junk").unwrap();
    let found = wrong(&stage, &[]);
    assert!(matches!(&found[..], [(said, _)] if said.contains("cert.pem")), "{found:?}");
    assert!(found[0].1.contains("PEM"), "{found:?}");
}

#[test]
fn a_certificate_that_ends_is_found_before_and_after() {
    let stage = with_tls();
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
        (-90, -1, "wrong", "ended at"),
        (-80, 10, "careful", "ends at"),
        (-60, 30, "good", "holds until"),
        // Made for a week: half of it is left.
        (-3, 4, "good", "holds until"),
        (2, 90, "wrong", "holds only from"),
    ];
    for (from, until, health, words) in cases {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (day(from), day(until));
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(stage.home().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(stage.home().join("key.pem"), key.serialize_pem()).unwrap();
        let said = stage.run(&["doctor", "--json"]);
        let findings = said.json();
        let mut found = findings.as_array().unwrap().iter();
        let found = found.find(|f| f["words"].as_str().unwrap().contains("the certificate in"));
        let found = found.unwrap_or_else(|| panic!("{}", said.everything()));
        assert_eq!(found["health"], health, "{found}");
        assert!(found["words"].as_str().unwrap().contains(words), "{found}");
    }
}

#[test]
fn a_key_that_others_may_read_is_told_with_the_command_that_mends_it() {
    let stage = with_tls();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(stage.home().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let file = stage.home().join("key.pem");
    fs::write(&file, key.serialize_pem()).unwrap();
    for (mode, told) in [
        (0o600, false),
        (0o400, false),
        (0o640, false),
        (0o644, true),
        (0o660, true),
        (0o604, true),
    ] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mend = || {
            let findings = stage.run(&["doctor", "--json"]).json();
            let found = findings.as_array().unwrap().iter();
            let mut found = found.filter(|f| f["words"].as_str().unwrap().contains("at the key"));
            found.next().map(|found| found["mend"].as_str().unwrap().replace('`', ""))
        };
        let said = mend();
        assert_eq!(said.is_some(), told, "{mode:o}: {said:?}");
        let up = stage.up(&[]).stop();
        assert_eq!(
            up.stderr.contains("others may get at the key"),
            told,
            "{mode:o}: {}",
            up.stderr
        );
        if let Some(command) = said {
            assert!(up.stderr.contains(&command), "{}", up.stderr);
            assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
            assert_eq!(mend(), None, "{mode:o}: the command mends it");
        }
    }
}

#[test]
fn a_damaged_database_is_put_back_from_the_newest_copy() {
    let stage = Stage::new();
    with_port(&stage);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let (gate, copy) =
        (stage.home().join("gate.db"), stage.home().join("backups").join("gate-schema1-x.db"));
    let whole = fs::read(&gate).unwrap();
    fs::write(&gate, "no database ".repeat(99)).unwrap();
    let found = wrong(&stage, &[]);
    assert!(matches!(&found[..], [(_, mend)] if mend.contains("no copy in")), "{found:?}");
    fs::write(&copy, whole).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    let found = wrong(&stage, &[]);
    let command = format!("`cp {} {}`", copy.display(), gate.display());
    assert!(found[0].1.contains(&command), "{found:?}");
    fs::copy(&copy, &gate).unwrap();
    assert!(wrong(&stage, &[]).is_empty(), "the command mends it");
}

#[test]
fn a_database_that_is_gone_is_found_and_not_made_anew() {
    let stage = Stage::new();
    with_port(&stage);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let gate = stage.home().join("gate.db");
    let copy = stage.home().join("backups").join("gate-schema1-x.db");
    fs::rename(&gate, &copy).unwrap();
    for _ in 0..2 {
        let found = wrong(&stage, &[]);
        assert!(matches!(&found[..], [(said, _)] if said.contains("is gone")), "{found:?}");
    }
    // What a killed process left behind belongs to the file that is gone.
    let left = stage.home().join("gate.db-wal");
    fs::write(&left, "left behind").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
    let mend = wrong(&stage, &[]).remove(0).1;
    let command = mend.split('`').nth(1).unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
    assert!(!left.exists(), "{mend}");
    assert!(wrong(&stage, &[]).is_empty(), "the command mends it");
    assert!(stage.fine(&["server", "list"]).stdout.contains("demo"));
}

#[test]
fn what_is_defined_twice_is_found_and_the_command_takes_one_out() {
    let stage = Stage::new();
    with_port(&stage);
    let open = stage.write("open.json", r#"{"version":"1","default":"allow"}"#);
    stage.fine(&["policy", "set", "open", &open]);
    stage.fine(&["server", "add", "twice", "--builtin", "demo"]);
    stage.fine(&["server", "add", "once", "--builtin", "demo"]);
    stage.fine(&["grant", "create", "bob", "--server", "once=open"]);
    let settings = stage.home().join("tollgate.toml");
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
        let found = wrong(&stage, &[]);
        assert!(matches!(&found[..], [(said, _)] if said.contains("defined twice")), "{found:?}");
        assert!(found[0].1.contains("rename it in the file"), "{found:?}");
        let named = found[0].1.split_once("or run ").map(|(_, command)| command);
        assert_eq!(named.unwrap_or_default(), command);
        if named.is_some() {
            let words: Vec<&str> = command.trim_matches('`').split(' ').skip(1).collect();
            stage.fine(&words);
            assert!(wrong(&stage, &[]).is_empty(), "`{command}` mends it");
        }
    }
}

#[test]
fn what_a_gate_cannot_write_is_found() {
    // The modes of a file stop nobody who may do everything.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let stage = Stage::new();
    with_port(&stage);
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    for (path, mode) in [(stage.home().join("gate.db"), 0o400), (stage.home().join("audit"), 0o500)]
    {
        let right = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let found = wrong(&stage, &[]);
        assert!(found[0].1.starts_with("`chmod u+rw"), "{found:?}");
        fs::set_permissions(&path, right).unwrap();
        assert!(wrong(&stage, &[]).is_empty(), "the command mends it");
    }
}

/// Something that happens to a home.
type Harm = dyn Fn(&std::path::Path);

#[test]
fn a_database_that_lost_all_and_things_of_the_wrong_kind_are_named() {
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
    let cases: [(&str, &Harm); 4] = [
        ("`gate.db` is empty: all servers, policies and grants are lost", &lost),
        ("gate.db` is not a file", &folder),
        ("audit` is not a folder", &file),
        ("00000001.log` is not a file", &segment),
    ];
    for (words, harm) in cases {
        let stage = Stage::new();
        with_port(&stage);
        stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
        harm(&stage.home());
        let said = stage.run(&["doctor"]);
        assert_eq!(said.code, 1, "{}", said.everything());
        assert!(said.stdout.contains(words), "{words}: {}", said.everything());
        assert!(!said.stdout.contains("tollgate doctor"), "{}", said.everything());
    }
    let stage = Stage::new();
    stage.fine(&["server", "add", "demo", "--builtin", "demo"]);
    lost(&stage.home());
    let said = stage.run(&["server", "list"]);
    assert!(
        said.stderr.contains("`gate.db` is empty although this home was used"),
        "{}",
        said.stderr
    );
}

/// Each finding, and what it takes: the commands in its mend are run as they stand.
#[test]
fn every_command_that_is_named_mends_what_it_is_named_for() {
    type Place<'a> = &'a std::path::Path;
    let readable = |home: Place| {
        fs::set_permissions(home.join("vault.key"), fs::Permissions::from_mode(0o644)).unwrap();
    };
    let open = |home: Place| {
        fs::set_permissions(home.join("audit"), fs::Permissions::from_mode(0o755)).unwrap();
    };
    let link = |home: Place| {
        let (at, elsewhere) = (home.join("vault.key"), home.join("../the key"));
        fs::rename(&at, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &at).unwrap();
    };
    let folder_link = |home: Place| {
        let (at, elsewhere) = (home.join("audit"), home.join("../the log"));
        fs::rename(&at, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &at).unwrap();
    };
    let no_folder = |home: Place| fs::remove_dir(home.join("../its folder")).unwrap();
    let damaged = |home: Place| fs::write(home.join("gate.db"), "no database ".repeat(9)).unwrap();
    let misplaced = |home: Place| {
        fs::remove_dir_all(home.join("backups")).unwrap();
        fs::write(home.join("backups"), "").unwrap();
    };
    let changed = |home: Place| {
        let file = home.join("../tools.json");
        fs::write(&file, TOOLS.replace("Tears", "Gently tears")).unwrap();
    };
    let cases: [(&str, &Harm); 8] = [
        ("others may get at", &readable),
        ("others may get at", &open),
        ("is a symbolic link", &link),
        ("is a symbolic link", &folder_link),
        ("its folder", &no_folder),
        ("is damaged", &damaged),
        ("is not a folder", &misplaced),
        ("from what you accepted", &changed),
    ];
    for (words, harm) in cases {
        let stage = Stage::new();
        let home = stage.path("a 'home' of $mine");
        let named = home.display().to_string();
        let run = |more: &[&str]| stage.run(&[&["--home", &named][..], more].concat());
        fs::create_dir(stage.path("its folder")).unwrap();
        let (script, tools) =
            (stage.write("server.sh", SHELL_SERVER), stage.write("tools.json", TOOLS));
        let add = ["server", "add", "book", "--cwd", "its folder", "--", "sh", &script, &tools];
        assert_eq!(run(&add).code, 0);
        harm(&home);
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

//! The vault key outside its file. The keyring is imitated by a script on the `PATH` that stores values in a
//! folder; no test uses the keyring of this machine.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::cli_test::{CliTest, files_below};
use crate::http;

/// Imitates `secret-tool` and its failures: the file `mood` says which.
const SECRET_TOOL: &str = r#"#!/bin/sh
cd "$(dirname "$0")/../keyring" || exit 9
case "$(cat mood 2> /dev/null)" in
locked) exit 1 ;;
talking) echo "secret-tool: Cannot autolaunch D-Bus without X11 \$DISPLAY" >&2; exit 1 ;;
slow) sleep 30 ;;
garbage) echo "not a key"; exit 0 ;;
forgetful) cat > /dev/null; exit 0 ;;
other) printf 'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd'; exit 0 ;;
esac
case "$1" in
lookup) test "$2 $3 $4 $#" = "service tollgate key 5" || exit 9
    cat "item-$5" 2> /dev/null || exit 1 ;;
store) test "$2 $4 $5 $6 $#" = "--label service tollgate key 7" || exit 9
    cat > "draft-$$" && mv "draft-$$" "item-$7" ;;
*) exit 9 ;;
esac
"#;

/// A test with a server and a stand-in for the keyring.
fn set_up() -> CliTest {
    let mut test = CliTest::with_demo();
    for folder in ["bin", "keyring"] {
        fs::create_dir(test.path(folder)).unwrap();
    }
    let tool = test.write("bin/secret-tool", SECRET_TOOL);
    fs::set_permissions(tool, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", test.path("bin").display());
    test.set("PATH", &path);
    test
}

fn mood(test: &CliTest, word: &str) {
    test.write("keyring/mood", word);
}

fn key_file(test: &CliTest) -> String {
    fs::read_to_string(test.home().join("vault.key")).unwrap()
}

/// The digits of the key, to search for it.
fn key_digits(line: &str) -> &str {
    line.split('_').nth(1).unwrap()
}

fn told(test: &CliTest, arguments: &[&str]) -> String {
    let text = test.transcript(arguments);
    regex::Regex::new(r"\b[0-9a-f]{16}\b").unwrap().replace_all(&text, "[KEY ID]").into_owned()
}

fn id(test: &CliTest) -> String {
    test.succeed(&["vault", "status", "--json"]).json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_key_moves_to_the_keyring_and_back() {
    let test = set_up();
    let line = key_file(&test);
    let steps: &[&[&str]] = &[
        &["vault", "status"],
        &["vault", "move", "--to", "keyring"],
        &["vault", "status"],
        &["vault", "status", "--json"],
        &["vault", "move", "--to", "keyring"],
        &["server", "list"],
        &["vault", "move", "--to", "file"],
        &["vault", "move", "--to", "file", "--json"],
        &["audit", "search", "vault_moved"],
    ];
    let story: Vec<String> = steps.iter().map(|step| told(&test, step)).collect();
    assert_snapshot!(story.join("\n"));
    assert_eq!(key_file(&test), line);
    assert_eq!(fs::metadata(test.home().join("vault.key")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_key_in_the_keyring_is_in_no_file_of_the_home_and_in_no_output() {
    let test = set_up();
    let line = key_file(&test);
    let moved = test.succeed(&["--log", "trace", "vault", "move", "--to", "keyring"]);
    let digits = key_digits(&line);
    assert!(!moved.all_output().contains(digits));
    for command in [&["--log", "trace", "vault", "status"][..], &["doctor"], &["status", "--json"]]
    {
        assert!(!test.run(command).all_output().contains(digits), "{command:?}");
    }
    for (path, bytes) in files_below(&test.home()) {
        let found = bytes.windows(digits.len()).any(|part| part == digits.as_bytes());
        assert!(!found, "{}", path.display());
    }
    assert_eq!(fs::metadata(test.home().join("vault.key")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_gate_keeps_serving_when_the_keyring_is_locked() {
    let test = set_up();
    test.succeed(&["vault", "move", "--to", "keyring"]);
    let token = test.grant("alice");
    let up = test.up(&[]);
    let url = format!("{}/demo", up.url());
    mood(&test, "locked");
    let answer = http::call(&url, &token, "read", &serde_json::json!({ "page": 1 }));
    assert_eq!(answer.status, 200);
    assert_eq!(up.stop().code, 0);
}

#[test]
fn a_keyring_that_does_not_return_the_key_is_an_error_and_never_a_new_key() {
    let test = set_up();
    test.succeed(&["vault", "move", "--to", "keyring", "--wait", "1"]);
    let words = key_file(&test);
    let mut story = Vec::new();
    for word in ["locked", "talking", "slow", "garbage", "other"] {
        mood(&test, word);
        story.push(format!("# {word}\n{}", told(&test, &["server", "list"])));
        assert_eq!(key_file(&test), words);
    }
    story.push(told(&test, &["vault", "status"]));
    story.push(told(&test, &["vault", "move", "--to", "file"]));
    fs::remove_file(test.path("bin/secret-tool")).unwrap();
    let mut bare = test;
    bare.set("PATH", &bare.path("bin").display().to_string());
    story.push(format!("# no program\n{}", told(&bare, &["server", "list"])));
    story.push(doctor(&bare));
    assert_snapshot!(story.join("\n"));
    assert_eq!(key_file(&bare), words);
}

/// The doctor's findings about the key.
fn doctor(test: &CliTest) -> String {
    let output = told(test, &["doctor"]);
    let lines: Vec<&str> = output.lines().collect();
    let at = lines.iter().position(|line| line.contains(" key  ")).unwrap();
    lines[at..(at + 2).min(lines.len())].join("\n")
}

#[test]
fn a_keyring_that_does_not_store_the_key_leaves_it_in_the_file() {
    let test = set_up();
    let line = key_file(&test);
    let mut story = Vec::new();
    for word in ["locked", "slow", "garbage", "other", "forgetful"] {
        mood(&test, word);
        let step = ["vault", "move", "--to", "keyring", "--wait", "1"];
        story.push(format!("# {word}\n{}", told(&test, &step)));
        assert_eq!(key_file(&test), line, "{word}");
        test.succeed(&["server", "list"]);
    }
    assert_snapshot!(story.join("\n"));
}

/// A command that prints the key file only until the key has been moved there.
fn own_file(test: &CliTest) -> String {
    test.home().join("vault.key").display().to_string()
}

#[test]
fn a_program_of_the_owner_may_provide_the_key() {
    let test = set_up();
    let line = key_file(&test);
    let safe = test.write("safe.txt", &line);
    let to_safe = ["vault", "move", "--to", "command", "--", "cat", &safe];
    let mut story = vec![
        told(&test, &["vault", "move", "--to", "command"]),
        told(&test, &["vault", "move", "--to", "keyring", "--", "cat"]),
        told(&test, &["vault", "move", "--to", "command", "--", "./cat", &safe]),
        told(&test, &["vault", "move", "--to", "command", "--", "echo", "hello"]),
        told(&test, &["vault", "move", "--to", "command", "--", "cat", &own_file(&test)]),
        told(&test, &["vault", "status"]),
        told(&test, &to_safe),
        told(&test, &["server", "list"]),
        doctor(&test),
    ];
    fs::remove_file(&safe).unwrap();
    story.push(told(&test, &["server", "list"]));
    assert_snapshot!(story.join("\n"));
}

#[test]
fn a_home_is_repaired_by_hand_as_the_guide_says() {
    let mut test = set_up();
    let line = key_file(&test);
    test.succeed(&["vault", "move", "--to", "keyring"]);
    let (item, file) = (id(&test), test.home().join("vault.key"));
    let words = key_file(&test);
    // The file with the source is lost: written again, as in the guide.
    fs::remove_file(&file).unwrap();
    let output = test.run(&["server", "list"]);
    assert!(output.stderr.contains("is missing"), "{}", output.stderr);
    let rewritten = format!(
        "keeper = \"keyring\"\nkey = \"{item}\"\ncommand = [\"secret-tool\", \"lookup\", \"service\", \"tollgate\", \"key\", \"{item}\"]\n"
    );
    fs::write(&file, rewritten).unwrap();
    test.succeed(&["server", "list"]);
    // A truncated file.
    fs::write(&file, "keeper = \"keyring\"\n").unwrap();
    assert_snapshot!(told(&test, &["server", "list"]));
    // The keyring is lost: the line of the key from a copy.
    fs::remove_file(test.path(&format!("keyring/item-{item}"))).unwrap();
    fs::write(&file, &words).unwrap();
    assert_eq!(test.run(&["server", "list"]).code, 2);
    fs::write(&file, &line).unwrap();
    test.succeed(&["server", "list"]);
    // From the environment, whatever the file says.
    fs::write(&file, &words).unwrap();
    test.set("TOLLGATE_VAULT_KEY", line.trim_end());
    test.succeed(&["server", "list"]);
    assert_snapshot!("handed_in", told(&test, &["vault", "move", "--to", "file"]));
}

#[test]
fn a_copy_next_to_the_file_is_reported() {
    let test = set_up();
    fs::write(test.home().join("vault.key.old"), key_file(&test)).unwrap();
    let moved = told(&test, &["vault", "move", "--to", "keyring"]);
    let story = [moved, told(&test, &["vault", "status"]), told(&test, &["doctor"])];
    let lines = story.iter().flat_map(|text| text.lines());
    let lines: Vec<&str> = lines.filter(|line| line.contains("vault.key.old")).collect();
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn purge_reports_that_the_keyring_keeps_the_key() {
    let test = set_up();
    test.succeed(&["vault", "move", "--to", "keyring"]);
    let output = test.succeed(&["purge", "--yes"]);
    let item = fs::read_dir(test.path("keyring")).unwrap().next().unwrap().unwrap();
    let item = item.file_name().to_string_lossy().replace("item-", "");
    let words = format!("`secret-tool clear service tollgate key {item}` removes it");
    assert!(output.stderr.contains(&words), "{}", output.stderr);
}

#[cfg(feature = "demo")]
#[test]
fn the_demo_uses_no_keyring() {
    let test = set_up();
    test.succeed(&["vault", "move", "--to", "keyring"]);
    fs::remove_file(test.path("bin/secret-tool")).unwrap();
    let up = test.up(&["--demo"]);
    assert_eq!(up.stop().code, 0);
    let file = test.path("home-demo/vault.key");
    assert!(fs::read_to_string(&file).unwrap().starts_with("tgvk1_"), "its key is a file");
    fs::copy(test.home().join("vault.key"), &file).unwrap();
    let output = test.run(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("no program is run for the key"), "{}", output.stderr);
}

/// The number of rounds; a longer run sets more.
fn rounds(usual: u64) -> u64 {
    std::env::var("TOLLGATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn the_key_is_never_lost_to_a_kill_while_it_is_moved() {
    let test = set_up();
    let before = id(&test);
    let (mut place, usual) = ("file", usual_move(&test));
    let (rounds, mut moved) = (rounds(40), 0);
    for round in 0..rounds {
        let to = if place == "file" { "keyring" } else { "file" };
        let mut command = test.command(&["vault", "move", "--to", to]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // From the start to a little after the usual end.
        std::thread::sleep(usual * u32::try_from(round * 7 % 24).unwrap() / 20);
        let _ = child.kill();
        let _ = child.wait();
        let now = test.succeed(&["vault", "status", "--json"]).json();
        assert_eq!(now["id"], before.as_str(), "round {round}");
        if now["vault_key"]["place"] == to {
            (place, moved) = (to, moved + 1);
        }
    }
    println!("P27: {rounds} kills, {moved} of them after the key had moved, 0 keys lost");
}

/// How long the slower of both moves takes here when warm. The key is in the file again afterwards.
fn usual_move(test: &CliTest) -> Duration {
    let timed = |to: &&str| {
        let begin = Instant::now();
        test.succeed(&["vault", "move", "--to", to]);
        begin.elapsed()
    };
    ["keyring", "file", "keyring", "file"].iter().map(timed).skip(2).max().unwrap()
}

#[test]
fn processes_that_move_and_read_at_once_agree_on_the_key() {
    let test = set_up();
    let before = id(&test);
    std::thread::scope(|scope| {
        for to in ["keyring", "file"] {
            scope.spawn(|| {
                for _ in 0..rounds(6) {
                    test.succeed(&["vault", "move", "--to", to]);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds(12) {
                    assert_eq!(id(&test), before);
                }
            });
        }
    });
    assert_eq!(id(&test), before);
}

/// `vault.key` is in the home, so a copied home may name any program.
#[test]
fn the_program_of_a_copied_home_is_not_run_before_it_is_confirmed() {
    let test = set_up();
    let safe = test.write("safe.key", &key_file(&test));
    let script = format!("#!/bin/sh\necho run >> {}\ncat {safe}\n", test.path("ran").display());
    let program = test.write("bin/print-key", &script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    test.succeed(&["vault", "move", "--to", "command", "--", &program]);
    test.succeed(&["grant", "list"]);
    let copy = test.path("copy").display().to_string();
    let home = test.home().display().to_string();
    assert!(
        std::process::Command::new("cp").args(["-a", &home, &copy]).status().unwrap().success()
    );
    let ran = || fs::read_to_string(test.path("ran")).unwrap().lines().count();
    let before = ran();
    for command in [
        &["grant", "list"][..],
        &["doctor"],
        &["vault", "status"],
        &["audit", "verify"],
        &["up", "--listen", "127.0.0.1:0"],
    ] {
        let output = test.run(&[&["--home", &copy], command].concat());
        let expected = if command == ["audit", "verify"] { 0 } else { output.code.max(1) };
        assert_eq!(output.code, expected, "{command:?}: {}", output.all_output());
        assert_eq!(ran(), before, "{command:?}: {}", output.all_output());
        if command != ["audit", "verify"] {
            assert!(output.all_output().contains("vault confirm"), "{}", output.all_output());
        }
    }
    // Nor another program in the confirmed home.
    let named = key_file(&test).replace("print-key", "other-key");
    let words = key_file(&test);
    fs::write(test.home().join("vault.key"), named).unwrap();
    let output = test.run(&["grant", "list"]);
    assert!(output.stderr.contains("was not run"), "{}", output.all_output());
    fs::write(test.home().join("vault.key"), words).unwrap();

    let output = test.succeed(&["--home", &copy, "vault", "confirm"]);
    assert!(output.stdout.starts_with("confirmed: `"), "{}", output.stdout);
    test.succeed(&["--home", &copy, "grant", "list"]);
    assert!(ran() > before);
}

//! The vault key in another place than its file. The keyring is a stand-in on the `PATH`, a script that
//! keeps what it is given in a folder; no test asks the keyring of this machine.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::http;
use crate::stage::{Stage, files_below};

/// What `secret-tool` does with the words we give it, and how keyrings fail: the file `mood` says how.
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

/// A stage with a server and a stand-in for the keyring.
fn stage() -> Stage {
    let mut stage = Stage::with_demo();
    for folder in ["bin", "keyring"] {
        fs::create_dir(stage.path(folder)).unwrap();
    }
    let tool = stage.write("bin/secret-tool", SECRET_TOOL);
    fs::set_permissions(tool, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin:/bin", stage.path("bin").display());
    stage.set("PATH", &path);
    stage
}

fn mood(stage: &Stage, word: &str) {
    stage.write("keyring/mood", word);
}

fn key_file(stage: &Stage) -> String {
    fs::read_to_string(stage.home().join("vault.key")).unwrap()
}

/// The key without the words around it, for looking whether it stands somewhere.
fn key_digits(line: &str) -> &str {
    line.split('_').nth(1).unwrap()
}

fn told(stage: &Stage, arguments: &[&str]) -> String {
    let text = stage.told(arguments);
    regex::Regex::new(r"\b[0-9a-f]{16}\b").unwrap().replace_all(&text, "[KEY ID]").into_owned()
}

fn id(stage: &Stage) -> String {
    stage.fine(&["vault", "status", "--json"]).json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_key_goes_to_the_keyring_and_comes_back() {
    let stage = stage();
    let line = key_file(&stage);
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
    let story: Vec<String> = steps.iter().map(|step| told(&stage, step)).collect();
    assert_snapshot!(story.join("\n"));
    assert_eq!(key_file(&stage), line);
    assert_eq!(fs::metadata(stage.home().join("vault.key")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_key_in_the_keyring_is_in_no_file_of_the_home_and_in_no_output() {
    let stage = stage();
    let line = key_file(&stage);
    let moved = stage.fine(&["--log", "trace", "vault", "move", "--to", "keyring"]);
    let digits = key_digits(&line);
    assert!(!moved.everything().contains(digits));
    for command in [&["--log", "trace", "vault", "status"][..], &["doctor"], &["status", "--json"]]
    {
        assert!(!stage.run(command).everything().contains(digits), "{command:?}");
    }
    for (path, bytes) in files_below(&stage.home()) {
        let found = bytes.windows(digits.len()).any(|part| part == digits.as_bytes());
        assert!(!found, "{}", path.display());
    }
    assert_eq!(fs::metadata(stage.home().join("vault.key")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_gate_serves_with_its_key_in_the_keyring_and_goes_on_when_that_is_locked() {
    let stage = stage();
    stage.fine(&["vault", "move", "--to", "keyring"]);
    let token = stage.grant("alice");
    let up = stage.up(&[]);
    let url = format!("{}/demo", up.url());
    mood(&stage, "locked");
    let answer = http::call(&url, &token, "read", &serde_json::json!({ "page": 1 }));
    assert_eq!(answer.status, 200);
    assert_eq!(up.stop().code, 0);
}

#[test]
fn a_keyring_that_does_not_hand_the_key_out_is_an_error_and_never_a_new_key() {
    let stage = stage();
    stage.fine(&["vault", "move", "--to", "keyring", "--wait", "1"]);
    let words = key_file(&stage);
    let mut story = Vec::new();
    for word in ["locked", "talking", "slow", "garbage", "other"] {
        mood(&stage, word);
        story.push(format!("# {word}\n{}", told(&stage, &["server", "list"])));
        assert_eq!(key_file(&stage), words);
    }
    story.push(told(&stage, &["vault", "status"]));
    story.push(told(&stage, &["vault", "move", "--to", "file"]));
    fs::remove_file(stage.path("bin/secret-tool")).unwrap();
    let mut bare = stage;
    bare.set("PATH", &bare.path("bin").display().to_string());
    story.push(format!("# no program\n{}", told(&bare, &["server", "list"])));
    story.push(doctor(&bare));
    assert_snapshot!(story.join("\n"));
    assert_eq!(key_file(&bare), words);
}

/// What the doctor says of the key.
fn doctor(stage: &Stage) -> String {
    let said = told(stage, &["doctor"]);
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.contains(" key  ")).unwrap();
    lines[at..(at + 2).min(lines.len())].join("\n")
}

#[test]
fn a_keyring_that_does_not_keep_the_key_leaves_it_in_the_file() {
    let stage = stage();
    let line = key_file(&stage);
    let mut story = Vec::new();
    for word in ["locked", "slow", "garbage", "other", "forgetful"] {
        mood(&stage, word);
        let step = ["vault", "move", "--to", "keyring", "--wait", "1"];
        story.push(format!("# {word}\n{}", told(&stage, &step)));
        assert_eq!(key_file(&stage), line, "{word}");
        stage.fine(&["server", "list"]);
    }
    assert_snapshot!(story.join("\n"));
}

/// The one place that hands the key out only until it has been moved there.
fn own_file(stage: &Stage) -> String {
    stage.home().join("vault.key").display().to_string()
}

#[test]
fn a_program_of_the_owner_may_hand_the_key_out() {
    let stage = stage();
    let line = key_file(&stage);
    let safe = stage.write("safe.txt", &line);
    let to_safe = ["vault", "move", "--to", "command", "--", "cat", &safe];
    let mut story = vec![
        told(&stage, &["vault", "move", "--to", "command"]),
        told(&stage, &["vault", "move", "--to", "keyring", "--", "cat"]),
        told(&stage, &["vault", "move", "--to", "command", "--", "./cat", &safe]),
        told(&stage, &["vault", "move", "--to", "command", "--", "echo", "hello"]),
        told(&stage, &["vault", "move", "--to", "command", "--", "cat", &own_file(&stage)]),
        told(&stage, &["vault", "status"]),
        told(&stage, &to_safe),
        told(&stage, &["server", "list"]),
        doctor(&stage),
    ];
    fs::remove_file(&safe).unwrap();
    story.push(told(&stage, &["server", "list"]));
    assert_snapshot!(story.join("\n"));
}

#[test]
fn a_home_is_mended_by_hand_with_the_words_of_the_guide() {
    let mut stage = stage();
    let line = key_file(&stage);
    stage.fine(&["vault", "move", "--to", "keyring"]);
    let (item, file) = (id(&stage), stage.home().join("vault.key"));
    let words = key_file(&stage);
    // The file that names the place has gone: written anew, as the guide has it.
    fs::remove_file(&file).unwrap();
    let said = stage.run(&["server", "list"]);
    assert!(said.stderr.contains("has gone"), "{}", said.stderr);
    let anew = format!(
        "keeper = \"keyring\"\nkey = \"{item}\"\ncommand = [\"secret-tool\", \"lookup\", \"service\", \"tollgate\", \"key\", \"{item}\"]\n"
    );
    fs::write(&file, anew).unwrap();
    stage.fine(&["server", "list"]);
    // Half of its words.
    fs::write(&file, "keeper = \"keyring\"\n").unwrap();
    assert_snapshot!(told(&stage, &["server", "list"]));
    // The keyring has gone: the line of the key from a copy.
    fs::remove_file(stage.path(&format!("keyring/item-{item}"))).unwrap();
    fs::write(&file, &words).unwrap();
    assert_eq!(stage.run(&["server", "list"]).code, 2);
    fs::write(&file, &line).unwrap();
    stage.fine(&["server", "list"]);
    // Handed in, whatever the file says.
    fs::write(&file, &words).unwrap();
    stage.set("TOLLGATE_VAULT_KEY", line.trim_end());
    stage.fine(&["server", "list"]);
    assert_snapshot!("handed_in", told(&stage, &["vault", "move", "--to", "file"]));
}

#[test]
fn a_copy_beside_the_file_is_named() {
    let stage = stage();
    fs::write(stage.home().join("vault.key.old"), key_file(&stage)).unwrap();
    let moved = told(&stage, &["vault", "move", "--to", "keyring"]);
    let story = [moved, told(&stage, &["vault", "status"]), told(&stage, &["doctor"])];
    let lines = story.iter().flat_map(|text| text.lines());
    let lines: Vec<&str> = lines.filter(|line| line.contains("vault.key.old")).collect();
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn purge_says_that_the_keyring_keeps_the_key() {
    let stage = stage();
    stage.fine(&["vault", "move", "--to", "keyring"]);
    let said = stage.fine(&["purge", "--yes"]);
    let item = fs::read_dir(stage.path("keyring")).unwrap().next().unwrap().unwrap();
    let item = item.file_name().to_string_lossy().replace("item-", "");
    let words = format!("`secret-tool clear service tollgate key {item}` takes it out");
    assert!(said.stderr.contains(&words), "{}", said.stderr);
}

#[test]
fn a_demonstration_asks_no_keyring() {
    let stage = stage();
    stage.fine(&["vault", "move", "--to", "keyring"]);
    fs::remove_file(stage.path("bin/secret-tool")).unwrap();
    let up = stage.up(&["--demo"]);
    assert_eq!(up.stop().code, 0);
    let file = stage.path("home-demo/vault.key");
    assert!(fs::read_to_string(&file).unwrap().starts_with("tgvk1_"), "its key is a file");
    fs::copy(stage.home().join("vault.key"), &file).unwrap();
    let said = stage.run(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("programs are not asked"), "{}", said.stderr);
}

/// A number that a longer run raises.
fn rounds(usual: u64) -> u64 {
    std::env::var("TOLLGATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn the_key_is_never_lost_to_a_kill_while_it_is_moved() {
    let stage = stage();
    let before = id(&stage);
    let (mut place, usual) = ("file", usual_move(&stage));
    let (rounds, mut moved) = (rounds(40), 0);
    for round in 0..rounds {
        let to = if place == "file" { "keyring" } else { "file" };
        let mut command = stage.command(&["vault", "move", "--to", to]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // From the first moment to a little after the usual end.
        std::thread::sleep(usual * u32::try_from(round * 7 % 24).unwrap() / 20);
        let _ = child.kill();
        let _ = child.wait();
        let now = stage.fine(&["vault", "status", "--json"]).json();
        assert_eq!(now["id"], before.as_str(), "round {round}");
        if now["vault_key"]["place"] == to {
            (place, moved) = (to, moved + 1);
        }
    }
    println!("P27: {rounds} kills, {moved} of them after the key had moved, 0 keys lost");
}

/// How long the longer of both moves takes here, once it is warm. The key is in the file again then.
fn usual_move(stage: &Stage) -> Duration {
    let timed = |to: &&str| {
        let begin = Instant::now();
        stage.fine(&["vault", "move", "--to", to]);
        begin.elapsed()
    };
    ["keyring", "file", "keyring", "file"].iter().map(timed).skip(2).max().unwrap()
}

#[test]
fn processes_that_move_and_read_at_once_agree_on_the_key() {
    let stage = stage();
    let before = id(&stage);
    std::thread::scope(|scope| {
        for to in ["keyring", "file"] {
            scope.spawn(|| {
                for _ in 0..rounds(6) {
                    stage.fine(&["vault", "move", "--to", to]);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds(12) {
                    assert_eq!(id(&stage), before);
                }
            });
        }
    });
    assert_eq!(id(&stage), before);
}

/// `vault.key` lies in the home, so a home that came from elsewhere may name any program.
#[test]
fn the_program_of_a_copied_home_is_not_run_before_it_is_confirmed() {
    let stage = stage();
    let safe = stage.write("safe.key", &key_file(&stage));
    let script = format!("#!/bin/sh\necho run >> {}\ncat {safe}\n", stage.path("ran").display());
    let program = stage.write("bin/print-key", &script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    stage.fine(&["vault", "move", "--to", "command", "--", &program]);
    stage.fine(&["grant", "list"]);
    let copy = stage.path("copy").display().to_string();
    let home = stage.home().display().to_string();
    assert!(
        std::process::Command::new("cp").args(["-a", &home, &copy]).status().unwrap().success()
    );
    let ran = || fs::read_to_string(stage.path("ran")).unwrap().lines().count();
    let before = ran();
    for command in [
        &["grant", "list"][..],
        &["doctor"],
        &["vault", "status"],
        &["audit", "verify"],
        &["up", "--listen", "127.0.0.1:0"],
    ] {
        let said = stage.run(&[&["--home", &copy], command].concat());
        let expected = if command == ["audit", "verify"] { 0 } else { said.code.max(1) };
        assert_eq!(said.code, expected, "{command:?}: {}", said.everything());
        assert_eq!(ran(), before, "{command:?}: {}", said.everything());
        if command != ["audit", "verify"] {
            assert!(said.everything().contains("vault confirm"), "{}", said.everything());
        }
    }
    // Nor another program in the home it was confirmed for.
    let named = key_file(&stage).replace("print-key", "other-key");
    let words = key_file(&stage);
    fs::write(stage.home().join("vault.key"), named).unwrap();
    let said = stage.run(&["grant", "list"]);
    assert!(said.stderr.contains("was not run"), "{}", said.everything());
    fs::write(stage.home().join("vault.key"), words).unwrap();

    let said = stage.fine(&["--home", &copy, "vault", "confirm"]);
    assert!(said.stdout.starts_with("confirmed: `"), "{}", said.stdout);
    stage.fine(&["--home", &copy, "grant", "list"]);
    assert!(ran() > before);
}

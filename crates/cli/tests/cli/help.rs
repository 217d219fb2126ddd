//! Help, completions, the manual page, and how wrong words are answered.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::stage::Stage;

#[test]
fn the_first_screen_is_grouped_by_intent() {
    assert_snapshot!(Stage::new().told(&["--help"]));
}

#[test]
fn a_command_that_is_not_finished_is_answered_with_help_whatever_the_environment() {
    // The home of a stage is named by a variable.
    let stage = Stage::new();
    for words in [&[][..], &["server"]] {
        let said = stage.run(words);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains("Usage: tollgate"), "{}", said.stderr);
        assert!(!said.stderr.contains("requires a subcommand"), "{}", said.stderr);
        assert!(!said.stderr.contains("__re"), "hidden words: {}", said.stderr);
    }
}

#[test]
fn help_is_a_command() {
    let stage = Stage::new();
    assert_eq!(stage.fine(&["help"]).stdout, stage.fine(&["--help"]).stdout);
    for words in [&["server"][..], &["server", "add"], &["approvals", "watch"]] {
        let asked = [words, &["--help"]].concat();
        let named = [&["help"], words].concat();
        assert_eq!(stage.fine(&named).stdout, stage.fine(&asked).stdout, "{words:?}");
    }
    let said = stage.run(&["help", "server", "nonsense"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("there is no command `server nonsense`"), "{}", said.stderr);
}

#[test]
fn an_unknown_command_is_could_not_and_names_the_nearest() {
    assert_snapshot!(Stage::new().told(&["polcy"]));
}

#[test]
fn completions_know_every_command() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stage.fine(&["completions", shell]).stdout;
        for command in ["approvals", "checkpoint", "rotate"] {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
        for hidden in ["__reference", "__refresh"] {
            assert!(!script.contains(hidden), "{shell} offers {hidden}");
        }
    }
}

#[test]
fn the_manual_page_has_every_command_with_its_options() {
    let page = Stage::new().fine(&["man"]).stdout;
    assert!(page.contains(".TH TOLLGATE 1"), "{page}");
    for words in [
        "tollgate up",
        "policy explain",
        "grant rotate",
        "audit verify",
        r"\fB\-\-overlap <SPAN>\fR",
        r"\fB\-f, \-\-follow\fR",
        r"\fB\-\-secret\-env <NAME[=SOURCE]>\fR",
        ".SH EXIT STATUS",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("__reference"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let stage = Stage::new();
    let mut command = stage.command(&["__reference", "cli"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn colour_is_used_when_it_is_asked_for_and_only_then() {
    let stage = Stage::with_demo();
    let plain = stage.fine(&["server", "list"]).stdout;
    assert!(!plain.contains('\u{1b}'));
    let coloured = stage.fine(&["--color", "always", "server", "list"]).stdout;
    assert!(coloured.contains("\u{1b}[2mNAME"));
}

#[test]
fn errors_are_json_when_json_is_asked_for() {
    let said = Stage::new().run(&["--json", "grant", "show", "nobody"]);
    assert_eq!(said.code, 2);
    assert_eq!(said.stdout, "");
    let error: serde_json::Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!(error["error"], "there is no grant `nobody`");
    assert_eq!(error["hints"][0], "`tollgate grant list` shows those there are");
}

#[test]
fn a_wrong_log_level_is_said_with_the_right_ones() {
    assert_snapshot!(Stage::new().told(&["--log", "loud!!", "status"]));
}

/// As with the variables of XDG, an empty one is one that is not set.
#[test]
fn an_empty_variable_is_none() {
    let mut stage = Stage::new();
    for name in ["TOLLGATE_HOME", "TOLLGATE_CONFIG", "TOLLGATE_LOG", "TOLLGATE_LOG_FORMAT"] {
        stage.set(name, "");
    }
    let said = stage.fine(&["grant", "list", "--json"]);
    assert_eq!(said.stdout, "[]\n");
    assert!(stage.path(".local/share/tollgate/gate.db").exists(), "in the usual place");
    // Whoever names a folder means one.
    let said = stage.run(&["--home", "", "grant", "list"]);
    assert_eq!(said.code, 2, "{}", said.everything());
}

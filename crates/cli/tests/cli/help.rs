//! Help, completions, the manual page, and errors for wrong arguments.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::cli_test::CliTest;

#[test]
fn the_first_screen_is_grouped_by_intent() {
    assert_snapshot!(CliTest::new().transcript(&["--help"]));
}

#[test]
fn an_incomplete_command_prints_help_in_any_environment() {
    // The home of these tests is set by a variable.
    let test = CliTest::new();
    for words in [&[][..], &["server"]] {
        let printed = test.run(words);
        assert_eq!(printed.code, 2);
        assert!(printed.stderr.contains("Usage: tollgate"), "{}", printed.stderr);
        assert!(!printed.stderr.contains("requires a subcommand"), "{}", printed.stderr);
        assert!(!printed.stderr.contains("__re"), "hidden words: {}", printed.stderr);
    }
}

#[test]
fn help_is_a_command() {
    let test = CliTest::new();
    assert_eq!(test.succeed(&["help"]).stdout, test.succeed(&["--help"]).stdout);
    for words in [&["server"][..], &["server", "add"], &["approvals", "watch"]] {
        let asked = [words, &["--help"]].concat();
        let named = [&["help"], words].concat();
        assert_eq!(test.succeed(&named).stdout, test.succeed(&asked).stdout, "{words:?}");
    }
    let printed = test.run(&["help", "server", "nonsense"]);
    assert_eq!(printed.code, 2);
    assert!(printed.stderr.contains("there is no command `server nonsense`"), "{}", printed.stderr);
}

#[test]
fn an_unknown_command_exits_with_2_and_suggests_a_similar_one() {
    assert_snapshot!(CliTest::new().transcript(&["polcy"]));
}

#[test]
fn completions_know_every_command() {
    let test = CliTest::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = test.succeed(&["completions", shell]).stdout;
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
    let page = CliTest::new().succeed(&["man"]).stdout;
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
fn a_closed_output_pipe_is_not_an_error() {
    let test = CliTest::new();
    let mut command = test.command(&["__reference", "cli"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn colour_is_used_only_on_request() {
    let test = CliTest::with_demo();
    let plain = test.succeed(&["server", "list"]).stdout;
    assert!(!plain.contains('\u{1b}'));
    let coloured = test.succeed(&["--color", "always", "server", "list"]).stdout;
    assert!(coloured.contains("\u{1b}[2mNAME"));
}

#[test]
fn errors_are_json_with_the_json_option() {
    let printed = CliTest::new().run(&["--json", "grant", "show", "unknown"]);
    assert_eq!(printed.code, 2);
    assert_eq!(printed.stdout, "");
    let error: serde_json::Value = serde_json::from_str(&printed.stderr).unwrap();
    assert_eq!(error["error"], "there is no grant `unknown`");
    assert_eq!(error["hints"][0], "`tollgate grant list` shows the known ones");
}

#[test]
fn a_wrong_log_level_is_reported_with_the_valid_ones() {
    assert_snapshot!(CliTest::new().transcript(&["--log", "loud!!", "status"]));
}

/// As in XDG, an empty variable counts as unset.
#[test]
fn an_empty_variable_counts_as_unset() {
    let mut test = CliTest::new();
    for name in ["TOLLGATE_HOME", "TOLLGATE_CONFIG", "TOLLGATE_LOG", "TOLLGATE_LOG_FORMAT"] {
        test.set(name, "");
    }
    let printed = test.succeed(&["grant", "list", "--json"]);
    assert_eq!(printed.stdout, "[]\n");
    assert!(test.path(".local/share/tollgate/gate.db").exists(), "in the default home");
    // A given folder is used as it is.
    let printed = test.run(&["--home", "", "grant", "list"]);
    assert_eq!(printed.code, 2, "{}", printed.all_output());
}

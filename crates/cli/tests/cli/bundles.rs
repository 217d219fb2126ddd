//! `server add FILE.mcpb`: a bundle is unpacked into the home and run with its settings; one that could do anything
//! else is refused and leaves nothing behind.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::cli_test::{CliTest, files_below};
use crate::http;

const WRITER: &str = include_str!("bundles.py");

fn bundle(test: &CliTest, kind: &str) -> String {
    let script = test.write("bundles.py", WRITER);
    let path = test.path(&format!("{kind}.mcpb")).display().to_string();
    assert!(Command::new("python3").args([&script, kind, &path]).status().unwrap().success());
    path
}

#[test]
fn a_bundle_is_unpacked_run_with_its_settings_and_removed() {
    let mut test = CliTest::new();
    test.set("BUNDLE_KEY", "sk-bundle-123456789");
    let path = bundle(&test, "good");
    let refused = test.run(&["server", "add", &path]);
    assert_eq!(refused.code, 2, "{}", refused.all_output());
    assert!(refused.stderr.contains("--set key=@FILE"), "{}", refused.all_output());
    let key = ["--set", "key=env:BUNDLE_KEY"];
    let unasked = test.run(&[&["server", "add", &path][..], &key].concat());
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.all_output());
    assert!(unasked.stderr.contains("A. Author") && unasked.stderr.contains("main.py"));
    assert!(!test.home().join("bundles").exists(), "nothing was unpacked without a yes");
    let all = [&["server", "add", &path, "--yes", "--set", "max=7"][..], &key].concat();
    let added = test.succeed(&all);
    assert!(added.stdout.contains("`my-bundle` added, 1 tool"), "{}", added.all_output());
    let tools = test.succeed(&["--json", "server", "tools", "my-bundle"]).stdout;
    assert!(tools.contains("/a ") && tools.contains("/b --max=7"), "{tools}");
    assert!(tools.contains("key:19") && tools.contains("cwd:my-bundle"), "{tools}");
    // The secret is sealed: in no file, and in nothing that is shown.
    let secret = b"sk-bundle-123456789";
    for (path, bytes) in files_below(&test.home()) {
        assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{}", path.display());
    }
    let folder = test.home().join("bundles/my-bundle");
    let mode = |path: &str| platform::private::bits(&fs::metadata(folder.join(path)).unwrap());
    assert_eq!((mode(""), mode("server"), mode("server/main.py")), (0o700, 0o700, 0o600));
    assert!(test.run(&all).stderr.contains("exists already"));
    test.succeed(&["server", "remove", "my-bundle"]);
    assert!(!folder.exists());
}

#[test]
fn a_client_is_served_by_a_binary_bundle() {
    for (kind, expected) in [("binary", "binary "), ("binary-command", "binary-command 10")] {
        let test = CliTest::new();
        let path = bundle(&test, kind);
        let added = test.succeed(&["server", "add", &path, "--yes"]);
        assert!(added.stdout.contains(", 1 tool"), "{}", added.all_output());
        let folder = test.home().join("bundles").join(kind);
        let mode = |path: &str| platform::private::bits(&fs::metadata(folder.join(path)).unwrap());
        assert_eq!(
            (mode("bin/server"), mode("bin/other")),
            (0o700, 0o600),
            "only the program runs"
        );
        let policy = test.write("all.json", r#"{ "version": "1", "default": "allow" }"#);
        test.succeed(&["policy", "set", "all", &policy]);
        let server = format!("{kind}=all");
        let grant = test.succeed(&["grant", "create", "agent", "--server", &server, "--json"]);
        let up = test.up(&[]);
        let (url, token) = (format!("{}/{kind}", up.url()), grant.json()["token"].clone());
        let answer = http::call(&url, token.as_str().unwrap(), "where", &json!({})).json();
        assert_eq!(answer["result"]["content"][0]["text"], expected, "{answer}");
        drop(up);
        test.succeed(&["server", "remove", kind]);
        assert!(!folder.exists());
    }
}

#[test]
fn hostile_and_broken_bundles_are_refused_and_leave_nothing() {
    for (kind, words) in [
        ("not_a_zip", "not a ZIP"),
        ("no_manifest", "no `manifest.json`"),
        ("bad_json", "manifest"),
        ("version", "`9.0`"),
        ("platform", "win32"),
        ("no_entry_point", "entry point"),
        ("entry_point_outside", "leads out"),
        ("command_outside", "leads out"),
        ("unknown_variable", "has no value"),
        ("secret_in_argument_text", "has no value"),
        ("dot_dot", "leads out"),
        ("inner_dot_dot", "leads out"),
        ("absolute", "leads out"),
        ("backslash", "`\\`"),
        ("twice", "twice"),
        ("same_name", "a name is in it twice"),
        ("two_manifests", "a name is in it twice"),
        ("drive", "`:`"),
        ("below_a_link", "link or a special file"),
        ("deep", "folders deep"),
        ("long_name", "too long"),
        ("many_settings", "100 settings"),
        ("below_a_file", "below a file"),
        ("many", "50000 files"),
        ("huge_manifest", "manifest"),
        ("link", "link or a special file"),
        ("pipe", "link or a special file"),
        ("bomb", "times its size"),
        ("lying_bomb", ""),
    ] {
        let mut test = CliTest::new();
        test.set("BUNDLE_KEY", "sk-bundle-123456789");
        let path = bundle(&test, kind);
        let config = ["--set", "key=env:BUNDLE_KEY", "--name", "evil"];
        let printed = test.run(&[&["server", "add", &path, "--yes"][..], &config].concat());
        assert_eq!(printed.code, 2, "{kind}: {}", printed.all_output());
        assert!(printed.stderr.contains(words), "{kind}: {}", printed.all_output());
        let left = test.home().join("bundles/evil");
        assert!(!left.exists(), "{kind} left files behind");
        assert!(!test.path("evil.txt").exists() && !test.home().join("evil.txt").exists());
        assert!(!test.succeed(&["server", "list"]).all_output().contains("evil"), "{kind}");
    }
}

#[cfg(unix)]
#[test]
fn the_skill_is_installed_as_files_and_undone() {
    let test = CliTest::new();
    let at = |path: &str| test.path(path);
    let printed = test.succeed(&["clients", "install", "claude-code", "--skill"]);
    let folder = printed.stdout.lines().next().unwrap().split('`').nth(1).unwrap().to_owned();
    assert!(folder.ends_with(".claude/skills/tollgate-insights/SKILL.md"), "{folder}");
    let skill = fs::read_to_string(&folder).unwrap();
    assert!(skill.starts_with("---\nname: tollgate-insights\n"), "{skill}");
    let again = test.succeed(&["clients", "install", "claude-code", "--skill"]);
    assert!(again.stderr.contains("already"), "{}", again.all_output());
    test.succeed(&["clients", "import", "--undo"]);
    let root = std::path::Path::new(&folder).parent().unwrap();
    assert!(!root.exists(), "{}", root.display());
    // A file that another program wrote stays.
    fs::create_dir_all(root).unwrap();
    fs::write(&folder, "mine").unwrap();
    let refused = test.run(&["clients", "install", "claude-code", "--skill"]);
    assert!(refused.code == 2 && refused.stderr.contains("did not write it"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&folder).unwrap(), "mine");
    fs::remove_file(&folder).unwrap();
    std::os::unix::fs::symlink(at("elsewhere"), &folder).unwrap();
    let linked = test.run(&["clients", "install", "claude-code", "--skill"]);
    assert!(linked.stderr.contains("is a link"), "{}", linked.all_output());
    assert!(!at("elsewhere").exists());
    let unknown = test.run(&["clients", "install", "zed", "--skill"]);
    assert!(unknown.stderr.contains("claude-code, codex, opencode"), "{}", unknown.all_output());
}

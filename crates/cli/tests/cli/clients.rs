//! Configurations of ten of the clients in realistic formats, imported and undone: not a byte may differ.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli_test::{CliTest, files_below, set_bits};
use crate::servers::{SHELL_SERVER, TOOLS};

/// The files of ten clients and more: comments, CRLF, tabs, trailing commas, a byte order mark, no final line
/// end, many scripts, and unrelated settings.
const FILES: &[(&str, &str)] = &[
    (
        ".config/Claude/claude_desktop_config.json",
        "{\"globalShortcut\":\"Ctrl+Space\",\"mcpServers\":{\"files\":{\"command\":\"npx\",\"args\":[\"-y\",\"@modelcontextprotocol/server-filesystem\",\"/srv/日本\"]},\"off\":{\"command\":\"x\",\"disabled\":true}}}",
    ),
    (
        ".claude.json",
        "{\n  \"numStartups\": 41,\n  \"mcpServers\": {\n    \"sentry\": { \"type\": \"http\", \"url\": \"https://mcp.sentry.example/mcp\", \"headers\": { \"Authorization\": \"Bearer SECRET-sentry\" } }\n  },\n  \"projects\": {\n    \"/srv/app\": {\n      \"history\": [{ \"display\": \"mcpServers {\" }],\n      \"mcpServers\": {\n        \"db\": { \"type\": \"stdio\", \"command\": \"db-mcp\", \"args\": [], \"env\": { \"DSN\": \"SECRET-dsn\" } }\n      }\n    }\n  },\n  \"tipsHistory\": { \"a\": 1.50 }\n}\n",
    ),
    (
        ".cursor/mcp.json",
        "{\r\n  \"mcpServers\": {\r\n    \"github\": {\r\n      \"command\": \"npx\",\r\n      \"args\": [\r\n        \"-y\",\r\n        \"server-github\"\r\n      ],\r\n      \"env\": {\r\n        \"GITHUB_TOKEN\": \"SECRET-github\"\r\n      }\r\n    }\r\n  }\r\n}\r\n",
    ),
    (
        ".config/Code/User/mcp.json",
        "// servers of VS Code\n{\n\t\"servers\": {\n\t\t/* the browser */\n\t\t\"playwright\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"npx\", // with npm\n\t\t\t\"args\": [\"@playwright/mcp@latest\",],\n\t\t\t\"gallery\": true,\n\t\t},\n\t\t\"asks\": { \"command\": \"x\", \"env\": { \"K\": \"${input:key}\" } },\n\t},\n\t\"inputs\": [{ \"type\": \"promptString\", \"id\": \"key\", \"password\": true }],\n}\n",
    ),
    (
        ".config/Code/User/settings.json",
        "{\n    \"editor.fontSize\": 14, // mine\n    \"mcp\": {\n        \"servers\": {\n            \"time\": { \"command\": \"uvx\", \"args\": [\"mcp-server-time\"] }\n        }\n    },\n    \"files.eol\": \"\\n\",\n}",
    ),
    (
        ".codeium/windsurf/mcp_config.json",
        "\u{feff}{\n  \"mcpServers\": {\n    \"figma\": {\n      \"serverUrl\": \"https://figma.example/mcp?key=SECRET-query\",\n      \"disabledTools\": [\"a\"]\n    }\n  }\n}\n",
    ),
    (
        ".codex/config.toml",
        "# Codex — mine\nmodel = \"gpt\"\n\n[mcp_servers.docs] # documentation\ncommand = \"npx\"   # by npm\nargs = [\n  \"-y\", # yes\n  \"docs-mcp\",\n]\nstartup_timeout_sec = 20\n\n  [mcp_servers.docs.env]\n  # a key\n  DOCS_KEY = \"SECRET-docs\"\n\n[mcp_servers.\"odd name\"]\nurl = 'https://odd.example/mcp'\nhttp_headers = { \"X-Key\" = \"SECRET-odd\" }\n\n[profiles.fast]\nmodel = \"mini\"\n",
    ),
    (
        ".gemini/settings.json",
        "{\n  \"theme\": \"Default\",\n  \"mcpServers\": {\n    \"maps\": { \"httpUrl\": \"https://maps.example/mcp\", \"headers\": { \"X-Goog-Api-Key\": \"$MAPS_KEY\" }, \"timeout\": 5000, \"trust\": false }\n  }\n}\n",
    ),
    (
        ".config/zed/settings.json",
        "// Zed\r\n{\r\n  \"context_servers\": {\r\n    \"linear\": {\r\n      \"source\": \"custom\",\r\n      \"command\": { \"path\": \"linear-mcp\", \"args\": [\"--stdio\"], \"env\": { \"LINEAR\": \"SECRET-linear\" } },\r\n    },\r\n    \"extension\": { \"settings\": {} },\r\n  },\r\n  \"vim_mode\": true,\r\n}\r\n",
    ),
    (
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "{ \"mcpServers\": { \"weather\": { \"autoApprove\": [\"get\"], \"disabled\": false, \"timeout\": 60, \"type\": \"sse\", \"url\": \"http://127.0.0.1:9/sse\" } } }\n",
    ),
    (
        ".config/opencode/opencode.json",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"ctx\": { \"type\": \"local\", \"command\": [\"bun\", \"x\", \"ctx\"], \"environment\": { \"A\": \"{env:CTX_KEY}\" }, \"enabled\": true }\n  }\n}\n",
    ),
    (
        ".kiro/settings/mcp.json",
        "{\n\n\n  \"mcpServers\" : {\n    \"aws\" : {   \"command\" : \"uvx\" , \"args\" : [ \"aws-mcp@latest\" ] , \"autoApprove\" : [ ]   }\n  }\n\n}",
    ),
    (
        "project/.mcp.json",
        "{ \"mcpServers\": { \"shared\": { \"command\": \"./tools/server\", \"args\": [\"${TEAM:-all}\"] } } }\n",
    ),
];

struct UserFiles {
    test: CliTest,
}

impl UserFiles {
    fn new() -> UserFiles {
        let mut test = CliTest::new();
        test.set("MAPS_KEY", "SECRET-maps");
        test.set("CTX_KEY", "SECRET-ctx");
        for (path, text) in FILES {
            let path = test.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        UserFiles { test }
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = self.test.command(arguments);
        let output = command.current_dir(self.test.path("project")).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let (code, printed) = self.run(arguments);
        assert_eq!(code, 0, "{printed}");
        printed
    }

    /// All files of the user except tollgate's.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let home = self.test.home();
        let all = files_below(home.parent().unwrap());
        all.into_iter().filter(|(path, _)| !path.starts_with(&home)).collect()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.test.path(path)).unwrap()
    }
}

#[test]
fn the_files_of_ten_clients_are_restored_byte_for_byte() {
    let desk = UserFiles::new();
    let before = desk.files();
    desk.succeed(&["clients", "import", "--yes", "--no-connect"]);
    assert_ne!(desk.files(), before);
    for (path, text) in FILES {
        assert_ne!(desk.read(path), *text, "{path} still goes past the gate");
    }
    desk.succeed(&["clients", "import", "--undo"]);
    let after = desk.files();
    for (path, text) in &before {
        assert_eq!(after.get(path), Some(text), "{}", path.display());
    }
    assert_eq!(after.len(), before.len(), "something was left behind");
    let (code, printed) = desk.run(&["server", "list", "--json"]);
    assert_eq!((code, printed.trim()), (0, "[]"));
}

#[test]
fn unrelated_settings_stay_in_every_file() {
    let desk = UserFiles::new();
    desk.succeed(&["clients", "import", "--yes", "--no-connect"]);
    for (path, kept) in [
        (
            ".config/Code/User/mcp.json",
            &[
                "// servers of VS Code\n",
                "/* the browser */",
                "// with npm",
                "\"gallery\": true",
                "\"asks\": { \"command\": \"x\", \"env\": { \"K\": \"${input:key}\" } }",
                "\"password\": true }],\n}\n",
            ][..],
        ),
        (
            ".codex/config.toml",
            &[
                "# Codex — mine\n",
                "# documentation",
                "# by npm",
                "startup_timeout_sec = 20\n",
                "# a key",
                "[profiles.fast]\nmodel = \"mini\"\n",
            ],
        ),
        (
            ".config/zed/settings.json",
            &[
                "// Zed\r\n",
                "\"extension\": { \"settings\": {} },\r\n",
                "\"vim_mode\": true,\r\n}\r\n",
            ],
        ),
        (
            ".claude.json",
            &[
                "\"history\": [{ \"display\": \"mcpServers {\" }]",
                "\"tipsHistory\": { \"a\": 1.50 }",
            ],
        ),
        (
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            &["\"autoApprove\": [\"get\"]", "\"timeout\": 60", "\"type\": \"streamableHttp\""],
        ),
    ] {
        let text = desk.read(path);
        for part in kept {
            assert!(text.contains(part), "`{part}` is gone from {path}:\n{text}");
        }
    }
}

#[test]
fn secrets_are_removed_from_the_files_and_stored_sealed() {
    let desk = UserFiles::new();
    let printed =
        desk.succeed(&["clients", "list"]) + &desk.succeed(&["clients", "list", "--json"]);
    let printed = printed + &desk.succeed(&["clients", "import", "--dry-run"]);
    assert!(!printed.contains("SECRET"), "{printed}");
    let printed = desk.succeed(&["clients", "import", "--yes", "--no-connect", "--json"]);
    assert!(!printed.contains("SECRET") && !printed.contains("tg_"), "{printed}");
    for (path, _) in FILES {
        assert!(!desk.read(path).contains("SECRET"), "{path}");
    }
    assert!(!desk.read("project/.mcp.json").contains("tg_"), "a token in a shared file");
    for (path, bytes) in files_below(&desk.test.home()) {
        assert!(!holds(&bytes, b"SECRET"), "{}", path.display());
    }
    for (path, _) in desk.files() {
        let mode = platform::private::bits(&fs::metadata(&path).unwrap());
        let is_copy = path.display().to_string().contains(".before-tollgate");
        assert!(!is_copy || mode == 0o600, "{}: {mode:o}", path.display());
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn several_imports_are_undone_together() {
    let desk = UserFiles::new();
    let path = desk.test.path(".cursor/mcp.json");
    let before = fs::read(&path).unwrap();
    desk.succeed(&["clients", "import", "cursor", "--yes", "--no-connect"]);
    desk.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    desk.succeed(&["clients", "install", "cursor", "--server", "demo"]);
    let again = desk.succeed(&["clients", "import", "cursor", "--yes", "--no-connect"]);
    assert!(again.contains("nothing to import"), "{again}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("/mcp/github") && text.contains("/mcp/demo"), "{text}");
    assert!(!text.replace("\r\n", "").contains('\n'), "an end of line of another kind");
    desk.succeed(&["clients", "import", "--undo"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_became_unreadable_is_not_changed() {
    let desk = UserFiles::new();
    let path = desk.test.path(".kiro/settings/mcp.json");
    desk.succeed(&["clients", "import", "kiro", "cursor", "--yes", "--no-connect"]);
    let changed = fs::read_to_string(&path).unwrap() + "\n]\n";
    fs::write(&path, &changed).unwrap();
    let (code, printed) = desk.run(&["clients", "import", "--undo"]);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("was changed since the import"), "{printed}");
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
    assert_eq!(desk.read(".cursor/mcp.json"), text_of(".cursor/mcp.json"));
}

/// A client rewrites its file: other order, other layout, its own settings.
fn rewritten(path: &Path) {
    let old = fs::read_to_string(path).unwrap();
    let value: Value = serde_json::from_str(&old).unwrap();
    let mut new = serde_json::json!({ "lastOpened": "today" });
    for (key, value) in value.as_object().unwrap().iter().rev() {
        new[key] = value.clone();
    }
    new["mcpServers"]["mine"] = serde_json::json!({ "command": "mine" });
    fs::write(path, new.to_string()).unwrap();
}

#[test]
fn undo_works_after_the_client_has_rewritten_its_file() {
    let desk = UserFiles::new();
    desk.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    desk.succeed(&["clients", "import", "claude-code", "codex", "--yes", "--no-connect"]);
    desk.succeed(&["clients", "install", "claude-code", "--server", "demo"]);
    let path = desk.test.path(".claude.json");
    rewritten(&path);
    let codex = desk.test.path(".codex/config.toml");
    let toml = fs::read_to_string(&codex).unwrap();
    fs::write(&codex, format!("approval = \"never\"\n{toml}\n[projects.x]\ntrusted = true\n"))
        .unwrap();
    let printed = desk.succeed(&["clients", "import", "--undo"]);
    assert!(printed.contains("only the gate's entries"), "{printed}");

    let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let old: Value = serde_json::from_str(text_of(".claude.json")).unwrap();
    assert_eq!(now["mcpServers"]["sentry"], old["mcpServers"]["sentry"]);
    assert_eq!(now["projects"], old["projects"]);
    assert_eq!(now["mcpServers"].get("demo"), None, "what install added is taken out");
    assert_eq!(
        (&now["lastOpened"], &now["mcpServers"]["mine"]["command"]),
        (&"today".into(), &"mine".into())
    );
    let now: toml::Table = fs::read_to_string(&codex).unwrap().parse().unwrap();
    let old: toml::Table = text_of(".codex/config.toml").parse().unwrap();
    assert_eq!(now["mcp_servers"], old["mcp_servers"]);
    assert_eq!(now["projects"]["x"]["trusted"].as_bool(), Some(true));
    let left: Vec<PathBuf> = desk.files().into_keys().collect();
    assert!(!left.iter().any(|path| path.display().to_string().contains("before-tollgate")));
    let (code, printed) = desk.run(&["clients", "import", "--undo"]);
    assert_eq!(code, 2, "nothing is left to undo: {printed}");
    assert!(desk.succeed(&["grant", "list", "--json"]).matches("\"revoked\"").count() >= 2);
}

#[test]
fn an_entry_of_another_grant_stays_at_undo() {
    let test = CliTest::with_demo();
    test.succeed(&["clients", "install", "cursor", "--server", "demo"]);
    let path = test.path(".cursor/mcp.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let own =
        serde_json::json!({ "command": "tollgate", "args": ["stdio", "demo", "--grant", "me"] });
    value["mcpServers"]["own"] = own.clone();
    fs::write(&path, value.to_string()).unwrap();
    test.succeed(&["clients", "import", "--undo"]);
    let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(now["mcpServers"], serde_json::json!({ "own": own }));
}

fn mode(path: &Path) -> u32 {
    platform::private::bits(&fs::metadata(path).unwrap())
}

#[test]
fn a_file_that_gets_a_token_becomes_private_and_its_copy_is_named() {
    let desk = UserFiles::new();
    desk.succeed(&["server", "add", "demo", "--builtin", "demo"]);
    let path = desk.test.path(".cursor/mcp.json");
    let (kiro, shared) =
        (desk.test.path(".kiro/settings/mcp.json"), desk.test.path("project/.mcp.json"));
    for file in [&path, &kiro, &shared] {
        set_bits(file, 0o644);
    }
    let printed = desk.succeed(&["clients", "install", "cursor", "--server", "demo"]);
    assert_eq!(mode(&path), 0o600, "the file holds a token");
    assert!(printed.contains("changed from 0644 to 0600"), "{printed}");
    let copy = desk.test.path(".cursor/mcp.json.before-tollgate");
    assert!(
        printed.contains(copy.to_str().unwrap()) && printed.contains("clients copies --remove"),
        "{printed}"
    );
    let printed =
        desk.succeed(&["clients", "import", "kiro", "claude-code", "--yes", "--no-connect"]);
    assert!(printed.contains("mcp.json.before-tollgate"), "{printed}");
    assert_eq!(
        mode(&kiro),
        if desk.read(".kiro/settings/mcp.json").contains("tg_") { 0o600 } else { 0o644 }
    );
    assert_eq!(mode(&shared), 0o644, "no token goes into a shared file");

    let listed = desk.succeed(&["clients", "copies"]);
    assert!(listed.contains(copy.to_str().unwrap()), "{listed}");
    desk.succeed(&["clients", "copies", "--remove"]);
    assert!(!copy.exists());
    desk.succeed(&["clients", "import", "--undo"]);
    assert_eq!(
        desk.read(".cursor/mcp.json"),
        text_of(".cursor/mcp.json"),
        "the sealed copy is enough"
    );
    assert_eq!(mode(&path), 0o644, "as it was");
}

#[test]
fn a_versioned_project_file_stays_without_project_files() {
    let desk = UserFiles::new();
    fs::create_dir_all(desk.test.path("project/.git")).unwrap();
    let plan = desk.succeed(&["clients", "import", "--dry-run"]);
    assert!(plan.contains("under version control; `--project-files` changes it, too"), "{plan}");
    desk.succeed(&["clients", "import", "--yes", "--no-connect"]);
    assert_eq!(desk.read("project/.mcp.json"), text_of("project/.mcp.json"));
    desk.succeed(&["clients", "import", "--yes", "--no-connect", "--project-files"]);
    assert!(desk.read("project/.mcp.json").contains("stdio"));
    desk.succeed(&["clients", "import", "--undo"]);
    assert_eq!(desk.read("project/.mcp.json"), text_of("project/.mcp.json"));
}

#[test]
fn the_warning_to_close_clients_comes_before_any_change() {
    let desk = UserFiles::new();
    // Without confirmation nothing is changed, but the warning was printed.
    let (code, printed) = desk.run(&["clients", "import", "claude-desktop", "cursor"]);
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains("close Claude Desktop, Cursor first"), "{printed}");
    let printed = desk.succeed(&["clients", "import", "cursor", "--yes", "--no-connect"]);
    assert!(printed.contains("close Cursor first"), "{printed}");
    assert!(!printed.contains("quit it before"), "{printed}");
}

fn text_of(path: &str) -> &'static str {
    FILES.iter().find(|(known, _)| *known == path).unwrap().1
}

#[test]
fn nothing_changes_without_confirmation() {
    let desk = UserFiles::new();
    let before = desk.files();
    let (code, printed) = desk.run(&["clients", "import"]);
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains("--yes"), "{printed}");
    desk.succeed(&["clients", "import", "--dry-run"]);
    assert_eq!(desk.files(), before);
    let (code, printed) = desk.run(&["clients", "import", "--undo"]);
    assert_eq!(code, 2, "{printed}");
    let (code, printed) = desk.run(&["clients", "import", "emacs"]);
    assert_eq!(code, 2);
    assert!(printed.contains("claude-desktop"), "{printed}");
}

#[test]
fn an_imported_server_answers_through_the_gate_under_the_recommended_policy() {
    let test = CliTest::new();
    let script = test.write("server.sh", SHELL_SERVER);
    let tools = test.write("tools.json", TOOLS);
    fs::create_dir_all(test.path(".cursor")).unwrap();
    let file = serde_json::json!({ "mcpServers": { "Book": { "command": "sh", "args": [script, tools] } } });
    test.write(".cursor/mcp.json", &file.to_string());
    test.succeed(&["clients", "import", "--yes"]);
    let pins = test.succeed(&["server", "tools", "book", "--json"]).json();
    assert_eq!(pins.as_array().unwrap().len(), 2);
    let policy = test.succeed(&["policy", "show", "recommended-book"]).stdout;
    assert!(policy.contains("\"read\""), "{policy}");
    let entry: Value =
        serde_json::from_str(&fs::read_to_string(test.path(".cursor/mcp.json")).unwrap()).unwrap();
    let url = entry["mcpServers"]["Book"]["url"].as_str().unwrap();
    assert!(url.ends_with("/mcp/book"), "{url}");
    let stack = test.succeed(&["catalog", "stack", "--json"]).json();
    let names: Vec<&str> = stack["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["tool"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"read"), "{stack}");
}

#[cfg(unix)]
#[test]
fn a_linked_file_stays_a_link() {
    let test = CliTest::new();
    fs::create_dir_all(test.path(".cursor")).unwrap();
    fs::create_dir_all(test.path("dotfiles")).unwrap();
    let real = test.write("dotfiles/mcp.json", text_of(".cursor/mcp.json"));
    let link = test.path(".cursor/mcp.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    test.succeed(&["clients", "import", "--yes", "--no-connect"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(Path::new(&real)).unwrap().contains("/mcp/github"));
    test.succeed(&["clients", "import", "--undo"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), text_of(".cursor/mcp.json"));
}

#[test]
fn an_existing_entry_creates_no_grant() {
    let test = CliTest::with_demo();
    let install = ["clients", "install", "cursor", "--server", "demo"];
    test.succeed(&install);
    let grants = test.succeed(&["grant", "list"]).stdout;
    let printed = test.run(&install);
    assert_eq!(printed.code, 2, "{}", printed.all_output());
    assert!(printed.stderr.contains("hint: remove it from"), "{}", printed.stderr);
    assert_eq!(test.succeed(&["grant", "list"]).stdout, grants, "nothing is made for nothing");
}

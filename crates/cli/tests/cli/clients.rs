//! Configurations of ten clients, in the shapes people keep them in, brought behind the gate and
//! taken back: not a byte may differ.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::servers::{SHELL_SERVER, TOOLS};
use crate::stage::{Stage, files_below};

/// The files of ten clients and more: comments, CRLF, tabs, trailing commas, a byte order mark, no end
/// of the last line, characters from everywhere, and things that are none of our business.
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

struct Desk {
    stage: Stage,
}

impl Desk {
    fn new() -> Desk {
        let mut stage = Stage::new();
        stage.set("MAPS_KEY", "SECRET-maps");
        stage.set("CTX_KEY", "SECRET-ctx");
        for (path, text) in FILES {
            let path = stage.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Desk { stage }
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = self.stage.command(arguments);
        let output = command.current_dir(self.stage.path("project")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    fn fine(&self, arguments: &[&str]) -> String {
        let (code, said) = self.run(arguments);
        assert_eq!(code, 0, "{said}");
        said
    }

    /// Everything a person has, without what is tollgate's.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let home = self.stage.home();
        let all = files_below(home.parent().unwrap());
        all.into_iter().filter(|(path, _)| !path.starts_with(&home)).collect()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.stage.path(path)).unwrap()
    }
}

#[test]
fn the_files_of_ten_clients_come_back_byte_for_byte() {
    let desk = Desk::new();
    let before = desk.files();
    desk.fine(&["clients", "import", "--yes", "--no-connect"]);
    assert_ne!(desk.files(), before);
    for (path, text) in FILES {
        assert_ne!(desk.read(path), *text, "{path} still goes past the gate");
    }
    desk.fine(&["clients", "import", "--undo"]);
    let after = desk.files();
    for (path, text) in &before {
        assert_eq!(after.get(path), Some(text), "{}", path.display());
    }
    assert_eq!(after.len(), before.len(), "something was left behind");
    let (code, said) = desk.run(&["server", "list", "--json"]);
    assert_eq!((code, said.trim()), (0, "[]"));
}

#[test]
fn what_is_not_about_the_server_stays_in_every_file() {
    let desk = Desk::new();
    desk.fine(&["clients", "import", "--yes", "--no-connect"]);
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
fn secrets_leave_the_files_and_are_nowhere_in_the_clear() {
    let desk = Desk::new();
    let said = desk.fine(&["clients", "list"]) + &desk.fine(&["clients", "list", "--json"]);
    let said = said + &desk.fine(&["clients", "import", "--dry-run"]);
    assert!(!said.contains("SECRET"), "{said}");
    let said = desk.fine(&["clients", "import", "--yes", "--no-connect", "--json"]);
    assert!(!said.contains("SECRET") && !said.contains("tg_"), "{said}");
    for (path, _) in FILES {
        assert!(!desk.read(path).contains("SECRET"), "{path}");
    }
    assert!(!desk.read("project/.mcp.json").contains("tg_"), "a token in a shared file");
    for (path, bytes) in files_below(&desk.stage.home()) {
        assert!(!holds(&bytes, b"SECRET"), "{}", path.display());
    }
    for (path, _) in desk.files() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let is_copy = path.display().to_string().contains(".before-tollgate");
        assert!(!is_copy || mode == 0o600, "{}: {mode:o}", path.display());
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn several_imports_are_taken_back_together() {
    let desk = Desk::new();
    let path = desk.stage.path(".cursor/mcp.json");
    let before = fs::read(&path).unwrap();
    desk.fine(&["clients", "import", "cursor", "--yes", "--no-connect"]);
    desk.fine(&["server", "add", "demo", "--builtin", "demo"]);
    desk.fine(&["clients", "install", "cursor", "--server", "demo"]);
    let again = desk.fine(&["clients", "import", "cursor", "--yes", "--no-connect"]);
    assert!(again.contains("nothing to import"), "{again}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("/mcp/github") && text.contains("/mcp/demo"), "{text}");
    assert!(!text.replace("\r\n", "").contains('\n'), "an end of line of another kind");
    desk.fine(&["clients", "import", "--undo"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_cannot_be_read_any_more_is_not_touched() {
    let desk = Desk::new();
    let path = desk.stage.path(".kiro/settings/mcp.json");
    desk.fine(&["clients", "import", "kiro", "cursor", "--yes", "--no-connect"]);
    let changed = fs::read_to_string(&path).unwrap() + "\n]\n";
    fs::write(&path, &changed).unwrap();
    let (code, said) = desk.run(&["clients", "import", "--undo"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("was changed since the import"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
    assert_eq!(desk.read(".cursor/mcp.json"), text_of(".cursor/mcp.json"));
}

/// A client reads its file and writes it again: other order, other layout, settings of its own.
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
    let desk = Desk::new();
    desk.fine(&["server", "add", "demo", "--builtin", "demo"]);
    desk.fine(&["clients", "import", "claude-code", "codex", "--yes", "--no-connect"]);
    desk.fine(&["clients", "install", "claude-code", "--server", "demo"]);
    let path = desk.stage.path(".claude.json");
    rewritten(&path);
    let codex = desk.stage.path(".codex/config.toml");
    let toml = fs::read_to_string(&codex).unwrap();
    fs::write(&codex, format!("approval = \"never\"\n{toml}\n[projects.x]\ntrusted = true\n"))
        .unwrap();
    let said = desk.fine(&["clients", "import", "--undo"]);
    assert!(said.contains("only the gate's entries"), "{said}");

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
    let (code, said) = desk.run(&["clients", "import", "--undo"]);
    assert_eq!(code, 2, "nothing is left to undo: {said}");
    assert!(desk.fine(&["grant", "list", "--json"]).matches("\"revoked\"").count() >= 2);
}

#[test]
fn an_entry_that_somebody_else_pointed_at_the_gate_stays_at_undo() {
    let stage = Stage::with_demo();
    stage.fine(&["clients", "install", "cursor", "--server", "demo"]);
    let path = stage.path(".cursor/mcp.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let own =
        serde_json::json!({ "command": "tollgate", "args": ["stdio", "demo", "--grant", "me"] });
    value["mcpServers"]["own"] = own.clone();
    fs::write(&path, value.to_string()).unwrap();
    stage.fine(&["clients", "import", "--undo"]);
    let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(now["mcpServers"], serde_json::json!({ "own": own }));
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_that_gets_a_token_becomes_private_and_its_copy_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    desk.fine(&["server", "add", "demo", "--builtin", "demo"]);
    let path = desk.stage.path(".cursor/mcp.json");
    let (kiro, shared) =
        (desk.stage.path(".kiro/settings/mcp.json"), desk.stage.path("project/.mcp.json"));
    for file in [&path, &kiro, &shared] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let said = desk.fine(&["clients", "install", "cursor", "--server", "demo"]);
    assert_eq!(mode(&path), 0o600, "the file holds a token");
    assert!(said.contains("changed from 0644 to 0600"), "{said}");
    let copy = desk.stage.path(".cursor/mcp.json.before-tollgate");
    assert!(
        said.contains(copy.to_str().unwrap()) && said.contains("clients copies --remove"),
        "{said}"
    );
    let said = desk.fine(&["clients", "import", "kiro", "claude-code", "--yes", "--no-connect"]);
    assert!(said.contains("mcp.json.before-tollgate"), "{said}");
    assert_eq!(
        mode(&kiro),
        if desk.read(".kiro/settings/mcp.json").contains("tg_") { 0o600 } else { 0o644 }
    );
    assert_eq!(mode(&shared), 0o644, "no token goes into a shared file");

    let listed = desk.fine(&["clients", "copies"]);
    assert!(listed.contains(copy.to_str().unwrap()), "{listed}");
    desk.fine(&["clients", "copies", "--remove"]);
    assert!(!copy.exists());
    desk.fine(&["clients", "import", "--undo"]);
    assert_eq!(
        desk.read(".cursor/mcp.json"),
        text_of(".cursor/mcp.json"),
        "the sealed copy is enough"
    );
    assert_eq!(mode(&path), 0o644, "as it was");
}

#[test]
fn a_project_file_under_version_control_stays_unless_it_is_asked_for() {
    let desk = Desk::new();
    fs::create_dir_all(desk.stage.path("project/.git")).unwrap();
    let plan = desk.fine(&["clients", "import", "--dry-run"]);
    assert!(plan.contains("under version control; `--project-files` changes it, too"), "{plan}");
    desk.fine(&["clients", "import", "--yes", "--no-connect"]);
    assert_eq!(desk.read("project/.mcp.json"), text_of("project/.mcp.json"));
    desk.fine(&["clients", "import", "--yes", "--no-connect", "--project-files"]);
    assert!(desk.read("project/.mcp.json").contains("stdio"));
    desk.fine(&["clients", "import", "--undo"]);
    assert_eq!(desk.read("project/.mcp.json"), text_of("project/.mcp.json"));
}

#[test]
fn that_a_client_must_be_closed_is_said_before_anything_changes() {
    let desk = Desk::new();
    // Nobody agrees, so nothing is changed, and it was said already.
    let (code, said) = desk.run(&["clients", "import", "claude-desktop", "cursor"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("close Claude Desktop, Cursor first"), "{said}");
    let said = desk.fine(&["clients", "import", "cursor", "--yes", "--no-connect"]);
    assert!(said.contains("close Cursor first"), "{said}");
    assert!(!said.contains("quit it before"), "{said}");
}

fn text_of(path: &str) -> &'static str {
    FILES.iter().find(|(known, _)| *known == path).unwrap().1
}

#[test]
fn nothing_happens_without_a_word() {
    let desk = Desk::new();
    let before = desk.files();
    let (code, said) = desk.run(&["clients", "import"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--yes"), "{said}");
    desk.fine(&["clients", "import", "--dry-run"]);
    assert_eq!(desk.files(), before);
    let (code, said) = desk.run(&["clients", "import", "--undo"]);
    assert_eq!(code, 2, "{said}");
    let (code, said) = desk.run(&["clients", "import", "emacs"]);
    assert_eq!(code, 2);
    assert!(said.contains("claude-desktop"), "{said}");
}

#[test]
fn an_imported_server_answers_through_the_gate_under_the_recommended_policy() {
    let stage = Stage::new();
    let script = stage.write("server.sh", SHELL_SERVER);
    let tools = stage.write("tools.json", TOOLS);
    fs::create_dir_all(stage.path(".cursor")).unwrap();
    let file = serde_json::json!({ "mcpServers": { "Book": { "command": "sh", "args": [script, tools] } } });
    stage.write(".cursor/mcp.json", &file.to_string());
    stage.fine(&["clients", "import", "--yes"]);
    let pins = stage.fine(&["server", "tools", "book", "--json"]).json();
    assert_eq!(pins.as_array().unwrap().len(), 2);
    let policy = stage.fine(&["policy", "show", "recommended-book"]).stdout;
    assert!(policy.contains("\"read\""), "{policy}");
    let entry: Value =
        serde_json::from_str(&fs::read_to_string(stage.path(".cursor/mcp.json")).unwrap()).unwrap();
    let url = entry["mcpServers"]["Book"]["url"].as_str().unwrap();
    assert!(url.ends_with("/mcp/book"), "{url}");
    let stack = stage.fine(&["catalog", "stack", "--json"]).json();
    let names: Vec<&str> = stack["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["tool"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"read"), "{stack}");
}

#[test]
fn a_linked_file_stays_a_link() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path(".cursor")).unwrap();
    fs::create_dir_all(stage.path("dotfiles")).unwrap();
    let real = stage.write("dotfiles/mcp.json", text_of(".cursor/mcp.json"));
    let link = stage.path(".cursor/mcp.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    stage.fine(&["clients", "import", "--yes", "--no-connect"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(Path::new(&real)).unwrap().contains("/mcp/github"));
    stage.fine(&["clients", "import", "--undo"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), text_of(".cursor/mcp.json"));
}

#[test]
fn an_entry_that_is_there_already_costs_no_grant() {
    let stage = Stage::with_demo();
    let install = ["clients", "install", "cursor", "--server", "demo"];
    stage.fine(&install);
    let grants = stage.fine(&["grant", "list"]).stdout;
    let said = stage.run(&install);
    assert_eq!(said.code, 2, "{}", said.everything());
    assert!(said.stderr.contains("hint: take it out of"), "{}", said.stderr);
    assert_eq!(stage.fine(&["grant", "list"]).stdout, grants, "nothing is made for nothing");
}

//! The catalogue through the binary: dumps in every format, searches, pages, and the site.

use std::fs;

use serde_json::json;

use crate::cli_test::{CliTest, files_below};
use crate::servers::{SHELL_SERVER, TOOLS};

const EVIL: &str = "</title><script>alert(1)</script>";

/// A page of the official registry, and lines of servers and tools.
fn dumps(test: &CliTest) -> [String; 2] {
    let server = |name: &str, version: &str, latest: bool| {
        json!({
            "server": { "name": name, "title": EVIL, "description": "Mail for everybody", "version": version,
                "repository": { "url": "javascript:alert(1)", "source": "github" },
                "packages": [{ "registryType": "npm", "identifier": "@a/mail", "version": version }],
                "remotes": [{ "type": "streamable-http", "url": "https://mail.example/mcp" }] },
            "_meta": { "io.modelcontextprotocol.registry/official": { "status": "active", "isLatest": latest, "updatedAt": "2026-10-01T00:00:00Z" } },
        })
    };
    let page = json!({
        "servers": [server("io.github.a/mail", "1.0.0", false), server("io.github.a/mail", "1.1.0", true)],
        "metadata": { "count": 2, "nextCursor": "x" },
    });
    let tool = json!({ "name": "send_mail", "description": format!("Sends a mail. {EVIL}"),
        "inputSchema": { "type": "object", "properties": { "to": { "type": "string", "description": "who" } }, "required": ["to"] } });
    let lines = [
        json!({ "server": "files", "tools": [
            { "name": "deleteFile", "description": "Deletes a file for good.", "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } } } },
            { "name": "deletefile", "description": "The same in small letters." },
            { "name": "read_file", "description": "Reads a file.", "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } } } },
        ] }),
        json!({ "server": "io.github.a/mail", "tool": tool }),
        json!({ "not": "a server" }),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    [test.write("page.json", &page.to_string()), test.write("more.jsonl", &lines)]
}

fn set_up() -> CliTest {
    let test = CliTest::new();
    let [page, lines] = dumps(&test);
    let output = test.succeed(&["catalog", "import", &page, &lines, "--json"]).json();
    assert_eq!((&output["servers"], &output["tools"]), (&json!(2), &json!(4)), "{output}");
    assert_eq!((&output["superseded"], &output["unreadable"]), (&json!(1), &json!(1)), "{output}");
    test
}

#[test]
fn dumps_are_imported_and_searchable() {
    let test = set_up();
    let slugs = |arguments: &[&str]| -> Vec<String> {
        let mut all = vec!["catalog", "search", "--json"];
        all.extend(arguments);
        let hits = test.run(&all).json()["hits"].clone();
        hits.as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["slug"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(slugs(&["delete", "files"]).len(), 1, "one word in small letters is one word");
    assert_eq!(slugs(&["deletefile"]), ["files/deletefile"]);
    assert_eq!(slugs(&["send", "mail"]).first().unwrap(), "io.github.a--mail/send_mail");
    assert_eq!(slugs(&["mail", "--limit", "1"]).len(), 1);
    assert!(slugs(&["file", "--category", "read"]).iter().all(|slug| slug == "files/read_file"));
    assert!(slugs(&["file", "--risk", "critical"]).iter().all(|slug| !slug.contains("read")));
    assert_eq!(test.run(&["catalog", "search", "nothing-like-it"]).code, 1);
    for hostile in ["\" OR 1", "a* b^ NEAR(", "name:x", "'; DROP TABLE tools; --"] {
        assert!(test.run(&["catalog", "search", "--", hostile]).code < 2, "{hostile}");
    }
}

#[test]
fn importing_a_dump_again_replaces_its_entries() {
    let test = set_up();
    let [page, lines] = dumps(&test);
    test.succeed(&["catalog", "import", &lines]);
    let again = test.write(
        "again.json",
        &json!({ "server": "files", "tools": [{ "name": "list_files", "description": "Lists." }] })
            .to_string(),
    );
    test.succeed(&["catalog", "import", &again]);
    let hits = test.run(&["catalog", "search", "file", "--json"]).json();
    let text = hits.to_string();
    assert!(text.contains("list_files") && !text.contains("read_file"), "{text}");
    assert_eq!(test.run(&["catalog", "search", "deletes"]).code, 1, "the old words are gone");
    test.succeed(&["catalog", "import", "--fresh", &page]);
    assert_eq!(test.run(&["catalog", "search", "file"]).code, 1);
    let broken = test.write("broken.json", "{\"servers\":[{\"name\":\"x\"");
    let output = test.run(&["catalog", "import", "--fresh", &broken]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("ends in the middle"), "{}", output.stderr);
    assert_eq!(
        test.run(&["catalog", "search", "mail"]).code,
        0,
        "the catalogue from before stands"
    );
}

#[test]
fn a_page_shows_the_class_and_the_policy_of_a_tool() {
    let test = set_up();
    let page = test.succeed(&["catalog", "show", "files/deletefile"]).stdout;
    assert!(page.starts_with("# deletefile"), "{page}");
    let page = test.succeed(&["catalog", "show", "io.github.a/mail"]).stdout;
    assert!(page.contains("npm @a/mail 1.1.0") && !page.contains("javascript:"), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    let page = test.succeed(&["catalog", "show", "io.github.a--mail/send_mail", "--json"]).json();
    for question in page["questions"].as_array().unwrap() {
        if let Some(policy) = question["policy"].as_object() {
            let file = test.write("policy.json", &serde_json::to_string(policy).unwrap());
            test.succeed(&["policy", "check", &file]);
            test.succeed(&["policy", "test", &file]);
        }
    }
    let output = test.run(&["catalog", "show", "unknown/nothing"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("catalog search"), "{}", output.stderr);
}

#[test]
fn the_site_is_complete_escaped_and_self_contained() {
    let test = set_up();
    let folder = test.path("site").display().to_string();
    test.succeed(&["catalog", "export", "--html", &folder]);
    let files = files_below(&test.path("site"));
    let pages: Vec<_> =
        files.iter().filter(|(path, _)| path.extension().unwrap() == "html").collect();
    assert_eq!(pages.len(), 1 + 2 + 2 + 4, "index, letters, servers, tools");
    for (path, bytes) in &pages {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let shown = path.display();
        assert!(!text.contains("<script>") && !text.contains("javascript:"), "{shown}");
        assert!(text.contains("default-src 'none'"), "{shown}");
        assert!(!text.contains(" style=") && !text.contains(" onclick"), "{shown}");
        for (_, rest) in text.match_indices("href=\"").map(|(at, m)| text.split_at(at + m.len())) {
            let target = rest.split('"').next().unwrap();
            if !target.starts_with("https://") {
                let file = path.parent().unwrap().join(target);
                assert!(file.exists(), "{shown} links to {target}, which is not there");
            }
        }
    }
    let output = test.run(&["catalog", "export", "--html", &folder]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("not empty"), "{}", output.stderr);
    assert!(fs::read_to_string(test.path("site/search/se.js")).unwrap().contains("send_mail"));
}

#[test]
fn the_stack_shows_direct_servers_with_probe() {
    let test = CliTest::new();
    let script = test.write("server.sh", SHELL_SERVER);
    let tools = test.write("tools.json", TOOLS);
    fs::create_dir(test.path(".cursor")).unwrap();
    let settings = json!({ "mcpServers": {
        "book": { "command": "sh", "args": [script, tools] },
        "dead": { "command": "true" },
    } });
    test.write(".cursor/mcp.json", &settings.to_string());
    let found = test.succeed(&["catalog", "stack", "--json"]).json();
    assert_eq!(found["tools"], json!([]));
    assert_eq!(found["not_seen"], json!(["book (cursor)", "dead (cursor)"]));
    let output = test.succeed(&["catalog", "stack", "--probe", "--json"]);
    assert!(output.stderr.contains("`dead` did not answer"), "{}", output.stderr);
    let found = output.json();
    let rows = found["tools"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names.contains(&"read") && names.contains(&"tear"), "{names:?}");
    assert!(
        rows.iter().all(|row| row["behind_gate"] == false && row["callers"] == json!(["cursor"]))
    );
    assert_eq!(found["not_seen"], json!(["dead (cursor)"]));
    let listed = test.succeed(&["server", "list", "--json"]).json();
    assert_eq!(listed, json!([]), "a look registers nothing");
}

#[test]
fn the_stack_applies_built_in_policies() {
    let test = CliTest::new();
    test.succeed(&["server", "add", "whoop", "--builtin", "whoop"]);
    test.succeed(&["grant", "create", "alice", "--server", "whoop"]);
    let stack = test.succeed(&["catalog", "stack", "--json"]).json();
    let mut tools = stack["tools"].as_array().unwrap().iter();
    let found = tools.find(|tool| tool["tool"] == "get_whoop_daily_summary");
    assert_eq!(found.unwrap()["callers"], serde_json::json!(["alice"]), "{stack}");
}

#[test]
fn the_stack_omits_denied_tools_and_marks_those_that_need_approval() {
    let test = CliTest::new();
    let script = test.write("server.sh", SHELL_SERVER);
    let tools = test.write("tools.json", TOOLS);
    test.succeed(&["server", "add", "book", "--", "sh", &script, &tools]);
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"action":"require_approval","deny_if":[{"conditions":[{"path":"args.path","op":"eq","value":"x"}]}]},"tear":{"action":"deny"}}}"#;
    let file = test.write("rules.json", rules);
    test.succeed(&["policy", "set", "rules", &file]);
    test.succeed(&["grant", "create", "alice", "--server", "book=rules"]);
    let stack = test.succeed(&["catalog", "stack", "--json"]).json();
    let rows = stack["tools"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert_eq!(names, ["read"], "{stack}");
    assert_eq!(rows[0]["callers"], json!(["alice"]));
    assert_eq!(rows[0]["asks"], json!(["alice"]));
}

#[test]
fn an_export_has_pages_of_registered_servers_even_without_a_catalogue() {
    let test = CliTest::new();
    let script = test.write("server.sh", SHELL_SERVER);
    let tools = test.write("tools.json", TOOLS);
    test.succeed(&["server", "add", "book", "--", "sh", &script, &tools]);
    let folder = test.path("site").display().to_string();
    let output = test.succeed(&["catalog", "export", "--html", &folder, "--json"]).json();
    assert_eq!((&output["servers"], &output["tools"]), (&json!(1), &json!(2)), "{output}");
    assert!(test.path("site/servers/book/index.html").exists());
}

//! The classifier through the public API: categories and risks of made-up tools, hints compared with
//! definitions, and what must hold for every tool.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its figures are for people"
)]

use catalog::classify::Category::{Destructive, Execute, Financial, Read, Write};
use catalog::classify::Risk::{Critical, High, Low, Medium};
use catalog::classify::{Category, Classification, Risk, SignalKind, classify};
use policy::json::{Bounds, Doc};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::{Value, json};

/// The lessons the table was trained with, as data.
const LESSONS: &str = include_str!("../train/lessons.tsv");

fn classify_in(server: &str, tool: &Value) -> Classification {
    let text = tool.to_string();
    classify(server, Doc::read(text.as_bytes(), &Bounds::ANSWER).unwrap().root())
}

fn of(tool: &Value) -> Classification {
    classify_in("example", tool)
}

/// A tool whose parameters are strings, the ones with `*` required.
fn tool(name: &str, description: &str, parameters: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> = parameters
        .iter()
        .map(|p| (p.trim_end_matches('*').to_owned(), json!({"type": "string"})))
        .collect();
    let required: Vec<&str> = parameters.iter().filter_map(|p| p.strip_suffix('*')).collect();
    json!({"name": name, "description": description,
           "inputSchema": {"type": "object", "properties": properties, "required": required}})
}

#[test]
fn plain_tools_get_their_obvious_category() {
    let cases: &[(&str, &str, &[&str], Category, Risk)] = &[
        ("get_weather", "Get the weather of a city", &["city*"], Read, Low),
        ("read_file", "Read a file", &["path*"], Read, Medium),
        ("create_issue", "Create an issue", &["title*", "body"], Write, Medium),
        ("send_email", "Send an email", &["to*", "subject", "body"], Write, High),
        ("delete_page", "Delete a page", &["page_id*"], Destructive, High),
        (
            "purge_everything",
            "Permanently deletes all data. This cannot be undone.",
            &[],
            Destructive,
            Critical,
        ),
        ("run_command", "Run a shell command", &["command*"], Execute, Critical),
        ("restart_service", "Restart a service", &["name*"], Execute, High),
        ("create_refund", "Refund a payment", &["payment_id*", "amount"], Financial, Critical),
        (
            "transfer_funds",
            "Transfer money to another account",
            &["to*", "amount*"],
            Financial,
            Critical,
        ),
    ];
    for (name, description, parameters, category, risk) in cases {
        let found = of(&tool(name, description, parameters));
        assert_eq!((found.category, found.risk), (*category, *risk), "{name}: {found:#?}");
    }
}

#[test]
fn the_worst_operation_on_the_list_decides() {
    let manage = |operations: Value| {
        json!({"name": "manage_records", "description": "Manage records.", "inputSchema": {"type": "object",
            "properties": {"operation": {"type": "string", "enum": operations}, "id": {"type": "string"}}}})
    };
    assert_eq!(of(&manage(json!(["list", "create", "delete"]))).category, Destructive);
    assert_eq!(of(&manage(json!(["create", "rename"]))).category, Write);
    let job = of(
        &json!({"name": "job_tool", "description": "Work with jobs", "inputSchema": {"type": "object",
        "properties": {"action": {"enum": ["get", "start", "stop"]}}}}),
    );
    assert_eq!(job.category, Execute);
}

#[test]
fn a_raw_request_is_never_a_read() {
    let any = tool("api_get", "Get anything from the API", &["method*", "path*", "body"]);
    assert_ne!(of(&any).category, Read);
    let mut only_get = any;
    only_get["inputSchema"]["properties"]["method"] = json!({"enum": ["GET", "HEAD"]});
    assert_eq!(of(&only_get).category, Read);
}

#[test]
fn tools_that_renew_a_credential_share_a_category() {
    let whoop = classify_in(
        "whoop",
        &tool("whoop-refresh-token", "Refresh the access token", &["refreshToken*"]),
    );
    let spotify = classify_in(
        "spotify",
        &tool("refresh_spotify_token", "Refresh the Spotify access token", &[]),
    );
    let bare = of(&tool("refresh_token", "", &[]));
    for found in [&whoop, &spotify, &bare] {
        assert_eq!((found.category, found.risk), (Write, High), "{found:#?}");
        assert!(found.signals.iter().any(|s| s.kind == SignalKind::Credentials));
    }
}

#[test]
fn a_tool_that_shows_credentials_is_not_low() {
    for name in ["get_api_token", "list_credentials", "read_secret"] {
        assert!(of(&tool(name, "", &[])).risk > Low, "{name}");
    }
    let paged = of(&tool("list_items", "List items", &["page_token", "limit"]));
    assert_eq!((paged.category, paged.risk), (Read, Low), "a page token is no credential");
}

#[test]
fn a_read_only_claim_on_a_tool_that_deletes_is_a_contradiction() {
    let mut lying = tool("delete_everything", "Deletes all records", &[]);
    lying["annotations"] = json!({"readOnlyHint": true, "destructiveHint": false});
    let found = of(&lying);
    assert_eq!(found.category, Destructive);
    let claims: Vec<&str> = found.contradictions.iter().map(|c| c.claim.as_str()).collect();
    assert_eq!(claims, ["readOnlyHint: true", "destructiveHint: false"]);
    assert!(of(&tool("get_page", "Get a page", &["id"])).contradictions.is_empty());
}

type Row = (&'static str, &'static str, &'static [&'static str], Option<bool>, Category, Risk);

/// Shapes of the reference servers and of two browser servers, in our own words: name, description,
/// parameters, read-only hint, category, least risk. None of their hints is wrong.
#[rustfmt::skip]
const REFERENCE: &[Row] = &[
    ("open_nodes", "Open some nodes of the knowledge graph", &["names*"], Some(true), Read, Low),
    ("browser_drop", "Drop files onto an element, as if dragged", &["target*", "paths"], Some(false), Execute, High),
    ("browser_network_request", "Returns the details of one network request", &["index*", "part"], Some(true), Read, Low),
    ("read_query", "Execute a SELECT query on the SQLite database", &["query*"], None, Read, Medium),
    ("navigate_page", "Go to a URL, or back, or reload", &["type", "url", "initScript"], Some(false), Execute, High),
    ("evaluate_script", "Evaluate JavaScript inside the page", &["function*", "args"], Some(false), Execute, Critical),
    ("browser_click", "Perform a click on a page", &["element", "target*"], Some(false), Execute, High),
    ("get-env", "Returns all environment variables, for debugging", &[], Some(true), Read, High),
    ("browser_start_tracing", "Start trace recording", &[], Some(true), Execute, High),
    ("browser_pdf_save", "Save the page as PDF", &["filename"], Some(true), Write, Medium),
    ("read_text_file", "Read the contents of a file as text", &["path*"], Some(true), Read, Medium),
    ("git_checkout", "Switches branches", &["repo_path*", "branch_name*"], Some(false), Write, Medium),
];

#[test]
fn tools_of_the_reference_servers_agree_with_their_hints() {
    for (name, description, parameters, read_only, category, risk) in REFERENCE {
        let mut made = tool(name, description, parameters);
        if let Some(read_only) = read_only {
            made["annotations"] = json!({"readOnlyHint": read_only, "destructiveHint": false});
        }
        let found = of(&made);
        assert_eq!(found.category, *category, "{name}: {found:#?}");
        assert!(found.contradictions.is_empty(), "{name}: {found:#?}");
        assert!(found.risk >= *risk, "{name}: {found:#?}");
        assert!(*risk != Low || found.risk <= Medium, "{name}: {found:#?}");
        assert!(*name != "navigate_page" || found.risk < Critical, "{name}: {found:#?}");
    }
}

#[test]
fn a_plain_lie_is_still_a_contradiction() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("run_kubectl", "Run any kubectl command", &["command*"]),
        ("update_record", "Update a record", &["id*", "fields*"]),
        ("remove_user", "Remove a user", &["user_id*"]),
        ("create_refund", "Refund a payment", &["payment_id*", "amount"]),
    ];
    for (name, description, parameters) in cases {
        let mut made = tool(name, description, parameters);
        made["annotations"] = json!({"readOnlyHint": true});
        let found = of(&made);
        assert_eq!(found.contradictions.len(), 1, "{name}: {found:#?}");
    }
}

#[test]
fn tools_that_show_the_environment_are_high() {
    for name in ["get-env", "print_env", "list_environment_variables", "getEnvVars", "printenv"] {
        let found = of(&tool(name, "Returns the environment of the server", &[]));
        assert!(found.risk >= High, "{name}: {found:#?}");
    }
}

#[test]
fn a_tool_without_known_words_is_a_write() {
    for (name, description) in
        [("xyzzy", ""), ("", ""), ("zorp", "Zorps the quux."), ("工具", "一个工具")]
    {
        let found = of(&json!({"name": name, "description": description}));
        assert_eq!(found.category, Write, "{name}: {found:#?}");
        assert!(!found.evidence.is_empty());
    }
}

#[test]
fn signals_name_the_parameter_that_shows_them() {
    let cases: &[(SignalKind, &str, &str)] = &[
        (SignalKind::Path, "file_path", "accepts a path"),
        (SignalKind::Url, "webhook_url", "accepts a URL"),
        (SignalKind::Command, "shell_command", "accepts a command or code"),
        (SignalKind::Sql, "sql", "accepts a query or statement"),
        (SignalKind::Amount, "amount", "accepts an amount"),
        (SignalKind::Recipient, "recipient", "accepts a recipient"),
        (SignalKind::Credentials, "client_secret", "handles credentials"),
    ];
    for (kind, parameter, words) in cases {
        let found = of(&tool("update_thing", "Update a thing", &[parameter]));
        let signal = found.signals.iter().find(|s| s.kind == *kind).expect(parameter);
        assert_eq!(signal.location, format!("parameter `{parameter}`"));
        assert_eq!(kind.describe(), *words);
    }
    let bulk = of(&tool("bulk_update_contacts", "Update contacts", &[]));
    assert!(bulk.signals.iter().any(|s| s.kind == SignalKind::Bulk));
    let web = of(&tool("web_search", "Search the web", &["query"]));
    assert!(web.signals.iter().any(|s| s.kind == SignalKind::OpenWorld));
}

#[test]
fn a_schema_that_holds_addresses_accepts_a_url_whatever_its_name_is() {
    let web = json!("https://example.com/a");
    for (schema, expected) in [
        (json!({"type": "string", "format": "uri"}), true),
        (json!({"type": "string", "format": "url"}), true),
        (json!({"type": "string", "default": web}), true),
        (json!({"type": "string", "examples": ["README.md", web]}), true),
        (json!({"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]}), true),
        (json!({"type": "array", "items": {"type": "string", "format": "uri"}}), true),
        (json!({"type": "string", "format": "uuid", "default": "README.md"}), false),
        (json!({"type": "string", "description": "URL-friendly name"}), false),
    ] {
        let found = of(&json!({"name": "update_thing", "description": "Update a thing",
            "inputSchema": {"type": "object", "properties": {"data": schema}}}));
        let accepts = found.signals.iter().any(|s| s.kind == SignalKind::Url);
        assert_eq!(accepts, expected, "{schema}");
    }
}

#[test]
fn names_of_categories_and_risks_read_back() {
    for category in Category::ALL {
        assert_eq!(Category::parse(category.as_str()), Some(category));
    }
    for risk in Risk::ALL {
        assert_eq!(Risk::parse(&risk.to_string().to_uppercase()), Some(risk));
    }
    assert_eq!(Category::parse("harmless"), None);
}

struct Lesson {
    label: Category,
    tool: Value,
}

fn lessons() -> Vec<Lesson> {
    let lines = LESSONS.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(lesson).collect()
}

fn lesson(line: &str) -> Lesson {
    let mut columns = line.split('\t');
    let mut next = || columns.next().unwrap();
    let label = Category::parse(next()).unwrap();
    let (name, description) = (next(), next());
    let parameters = next().split(',').filter(|p| !p.is_empty());
    let mut properties = serde_json::Map::new();
    for parameter in parameters {
        let (name, values) = parameter.split_once(':').unwrap_or((parameter, ""));
        let schema = if values.is_empty() {
            json!({})
        } else {
            json!({"enum": values.split('|').collect::<Vec<_>>()})
        };
        properties.insert(name.trim_end_matches('*').to_owned(), schema);
    }
    let tool = json!({"name": name, "description": description,
        "inputSchema": {"type": "object", "properties": properties}});
    Lesson { label, tool }
}

#[test]
fn the_weight_table_matches_its_training_rows() {
    let lessons = lessons();
    let answers: Vec<Category> = lessons.iter().map(|l| of(&l.tool).category).collect();
    let pairs = || lessons.iter().zip(&answers);
    let right = pairs().filter(|(l, a)| l.label == **a).count();
    let missed = pairs().filter(|(l, a)| l.label != Read && **a == Read).count();
    println!("P37: {right} of {} lessons known, {missed} changes called read", lessons.len());
    assert!(right * 100 >= lessons.len() * 94, "{right} of {}", lessons.len());
    assert!(missed * 200 <= lessons.len(), "{missed} changes called Read");
}

#[test]
fn evidence_quotes_the_definition() {
    for lesson in lessons() {
        let found = of(&lesson.tool);
        let source = [&lesson.tool["name"], &lesson.tool["description"]]
            .map(|v| v.as_str().unwrap().to_owned())
            .join("\n")
            + &lesson.tool["inputSchema"].to_string();
        assert!((1..=4).contains(&found.evidence.len()));
        for evidence in &found.evidence {
            for word in evidence.text.split(" … ").flat_map(|w| w.split(", ")) {
                assert!(source.contains(word), "{word:?} is not in {source}");
            }
            assert!(!evidence.meaning.is_empty() && !evidence.location.is_empty());
        }
    }
}

fn hint() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), Just(json!(true)), Just(json!(false))]
}

fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn hints_never_lower_anything(at in 0_usize..1000, read in hint(), destroys in hint(), open in hint()) {
        let lessons = lessons();
        let mut hinted = lessons[at % lessons.len()].tool.clone();
        let plain = of(&hinted);
        hinted["annotations"] = json!({"readOnlyHint": read, "destructiveHint": destroys, "openWorldHint": open});
        let found = of(&hinted);
        assert!(found.category == plain.category || plain.category == Read, "{hinted}");
        assert!(found.risk >= plain.risk, "{hinted}");
    }

    #[test]
    fn the_order_of_members_does_not_matter(at in 0_usize..1000) {
        let lessons = lessons();
        let tool = &lessons[at % lessons.len()].tool;
        let (plain, turned) = (of(tool), of(&reversed(tool)));
        assert_eq!((plain.category, plain.risk), (turned.category, turned.risk));
    }

    #[test]
    fn any_text_is_classified(name in any::<String>(), description in any::<String>(), parameter in any::<String>()) {
        let found = of(&json!({"name": name, "description": description,
            "inputSchema": {"properties": {parameter: {"enum": [name, 1, null]}}}}));
        assert!(!found.evidence.is_empty());
        for evidence in &found.evidence {
            let shown = format!("{}{}", evidence.location, evidence.text);
            assert!(!shown.chars().any(char::is_control), "{shown:?}");
        }
    }
}

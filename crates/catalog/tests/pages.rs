//! Pages of real definitions: every policy on them loads and matches its answer, and no text of a server
//! becomes markup.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use catalog::view::{About, Pages};
use catalog::{html, markdown};
use policy::json::{Bounds, Doc, Value};
use policy::{Format, Policy};

const TOOLS: &str = r#"[
  { "name": "read_file", "description": "Reads a file.\nMore.", "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] } },
  { "name": "fetch_url", "description": "Fetches a page from the web.", "inputSchema": { "type": "object", "properties": { "url": { "type": "string" } } } },
  { "name": "create_payment", "description": "Makes a payment.", "inputSchema": { "type": "object", "properties": { "amount": { "type": "number" }, "recipient": { "type": "string" } } } },
  { "name": "run_command", "description": "Runs a shell command.", "inputSchema": { "type": "object", "properties": { "command": { "type": "string" } } } },
  { "name": "deleteAll", "description": "Deletes every record for good." },
  { "name": "deleteall", "description": "<b onmouseover=x>&\"'`|[a](javascript:b)\u202e" },
  { "name": "refresh_spotify_token", "description": "Refreshes the token." },
  { "name": "index", "description": "" },
  { "no": "name" }
]"#;

fn with_pages(check: impl FnOnce(&Pages<'_>)) {
    let doc = Doc::read(TOOLS.as_bytes(), &Bounds::ANSWER).unwrap();
    let tools: Vec<Value<'_>> = doc.root().items().collect();
    let about = About {
        name: "io.github.a/b",
        title: "<i>",
        website: "javascript:alert(1)",
        repository: "https://example.com/a",
        source: r#"{"packages":[{"registryType":"npm","identifier":"@a/b","version":"1"}],"remotes":[{"url":"https://b.example"}]}"#,
        ..About::default()
    };
    check(&Pages::new(about, tools.into_iter()));
}

#[test]
fn every_policy_on_a_page_loads_and_passes_the_tests_that_say_what_the_page_says() {
    with_pages(|pages| {
        let check = |what: &str, policy: &serde_json::Value| {
            let text = policy.to_string();
            if let Err(error) = Policy::load(&text, Format::Json) {
                panic!("{what}: {:?}\n{text}", error.problems);
            }
        };
        check("server", &pages.server().policy);
        let mut asked = 0;
        for page in pages.tools() {
            check(&page.name, &page.rule.policy);
            for question in &page.questions {
                asked += 1;
                if let Some(policy) = &question.policy {
                    assert!(policy.get("tests").is_some(), "{}", question.question);
                    check(&question.question, policy);
                }
            }
        }
        assert!(asked > 30, "{asked} questions");
    });
}

#[test]
fn questions_depend_on_the_parameters_of_a_tool() {
    with_pages(|pages| {
        let asks = |tool: &str, word: &str| {
            let page = pages.tool(tool).unwrap();
            page.questions.iter().any(|q| q.question.contains(word))
        };
        assert!(asks("read_file", "one folder"));
        assert!(asks("fetch_url", "hosts I know"));
        assert!(asks("create_payment", "spends in a day"));
        assert!(!asks("run_command", "one folder") && !asks("read_file", "spends"));
    });
}

#[test]
fn pages_have_unique_paths_and_no_foreign_markup() {
    with_pages(|pages| {
        let slugs: std::collections::BTreeSet<String> =
            pages.tools().map(|page| page.slug).collect();
        assert_eq!(slugs.len(), 8);
        let server = pages.server();
        assert_eq!(server.slug, "io.github.a--b");
        assert_eq!(server.website, "");
        assert_eq!(server.origins, ["npm @a/b 1", "https://b.example"]);
        let mut all = vec![html::server(&server), markdown::server(&server)];
        for page in pages.tools() {
            all.push(html::tool(&page));
            all.push(markdown::tool(&page));
        }
        for text in all {
            let is_markdown = !text.starts_with("<!doctype");
            // In Markdown a backslash takes the meaning away.
            let acting = if is_markdown { text.replace("\\<", "") } else { text.clone() };
            assert!(!acting.contains("<b onmouseover") && !acting.contains("<i>"), "{text}");
            assert!(!text.contains('\u{202e}') && !text.contains("href=\"javascript"), "{text}");
            assert!(!(is_markdown && text.contains("[a](")), "{text}");
        }
    });
}

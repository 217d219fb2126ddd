//! Adding servers, their credentials, trying tools, and forms that keep what was typed.

use policy::json::{Bounds, Doc};
use store::registry::{EnvValue, ServerOptions, Target};

use super::*;

/// A server with one tool, and a grant whose policy allows small amounts.
fn stage_with_tool() -> (Stage, String) {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let (files, now_us) = (Settings::default().names(), stage.now_us());
    let target = Target::Builtin { service: "demo".to_owned() };
    let new = NewServer { name: "bank".to_owned(), target, options: ServerOptions::default() };
    stage.registry.add_server(&new, &files, now_us).unwrap();
    let tool = json!({
        "name": "send_money",
        "description": "Sends money.",
        "inputSchema": { "type": "object", "required": ["amount"], "properties": {
            "amount": { "type": "number" }, "to": { "type": "string" }, "fast": { "type": "boolean" },
        } },
    });
    let tool = tool.to_string();
    let doc = Doc::read(tool.as_bytes(), &Bounds::ANSWER).unwrap();
    stage.registry.observe("bank", "", &[doc.root()], now_us).unwrap();
    let policy = json!({ "version": "1", "default": "deny", "tools": { "send_money": {
        "deny_if": [{ "conditions": [{ "path": "args.amount", "op": "gt", "value": 100 }], "on_deny": "too much" }]
    } } });
    let text = policy.to_string();
    stage.registry.put_policy("p", &text, policy::Format::Json, "test", &files, now_us).unwrap();
    let grant = NewGrant {
        label: "alice".to_owned(),
        server_access: vec![ServerAccess {
            server: "bank".to_owned(),
            policy: Some("p".to_owned()),
        }],
        expires_at_us: None,
    };
    stage.registry.create_grant(&grant, &files, now_us).unwrap();
    (stage, cookie)
}

#[tokio::test]
async fn a_tool_runs_only_if_the_policy_of_the_chosen_grant_allows_it() {
    let (stage, cookie) = stage_with_tool();
    let path = "/servers/bank/tools/send_money";
    let page = text(&stage.get(&cookie, path));
    for field in ["arg:amount", "arg:to", "arg:fast"] {
        assert!(page.contains(field), "{field}");
    }
    let table = [
        (
            "do=judge&grant=alice&arg:amount=5",
            StatusCode::OK,
            "would be allowed",
            "&#34;called&#34;",
            false,
        ),
        ("do=judge&grant=alice&arg:amount=500", StatusCode::OK, "too much", "called", false),
        (
            "do=run&grant=alice&arg:amount=500",
            StatusCode::UNPROCESSABLE_ENTITY,
            "not run",
            "called",
            false,
        ),
        ("do=run&grant=alice&arg:amount=5", StatusCode::OK, "would be allowed", "called", true),
        (
            "do=run&grant=alice&arg:amount=many",
            StatusCode::UNPROCESSABLE_ENTITY,
            "is not a number",
            "called",
            false,
        ),
        (
            "do=run&grant=nobody&arg:amount=5",
            StatusCode::UNPROCESSABLE_ENTITY,
            "no active grant",
            "called",
            false,
        ),
        (
            "do=run&grant=alice&json=%5B%5D",
            StatusCode::UNPROCESSABLE_ENTITY,
            "JSON object",
            "called",
            false,
        ),
    ];
    for (form, status, message, result, is_run) in table {
        let answer = stage.post(&cookie, path, form);
        let page = text(&answer);
        assert_eq!(answer.status, status, "{form}: {page}");
        assert!(page.contains(message), "{form}: {page}");
        assert_eq!(page.contains(result), is_run, "{form}");
    }
    let kept = text(&stage.post(&cookie, path, "do=run&grant=alice&arg:amount=many&arg:to=Grace"));
    assert!(kept.contains("Grace") && kept.contains("many"), "what was typed stays");
    let policy = text(&stage.get(&cookie, "/policies/p"));
    assert!(policy.contains("s:tools:send_money"), "the builder has the tool");
}

#[tokio::test]
async fn a_server_is_tried_before_it_is_added_and_its_secrets_are_never_shown() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let form = "kind=command&name=files&command=server+--root+%22/a+b%22&env=A=1&secret_name_0=KEY&secret_value_0=hunter2hunter2";
    let tried = stage.post(&cookie, "/servers", form);
    let page = text(&tried);
    assert_eq!(tried.status, StatusCode::OK, "{page}");
    assert!(page.contains("wipe") && page.contains("destructive"), "{page}");
    assert!(!page.contains("hunter2hunter2"), "{page}");
    assert_eq!(stage.registry.servers().unwrap().len(), 0, "nothing is stored by a try");
    let at = page.find("name=\"tried\" value=\"").unwrap() + "name=\"tried\" value=\"".len();
    let id: String = page.get(at..).unwrap().chars().take_while(|c| *c != '"').collect();
    let eve = stage.sign_in(Role::Viewer);
    assert_eq!(
        stage.post(&eve, "/servers", &format!("do=add&tried={id}")).status,
        StatusCode::FORBIDDEN
    );
    let added = stage.post(&cookie, "/servers", &format!("do=add&tried={id}"));
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", text(&added));
    let server = stage.registry.server("files").unwrap();
    let (argv, env) = match &server.target {
        Target::Command { argv, env, .. } => (argv.as_slice(), env.as_slice()),
        _ => (&[][..], &[][..]),
    };
    assert_eq!(argv, ["server", "--root", "/a b"]);
    assert!(matches!(env, [(_, EnvValue::Plain(_)), (_, EnvValue::Hidden(_))]), "{env:?}");
    let again =
        stage.post(&cookie, "/servers/files/credential", "credential=KEY&value=other-secret-1");
    assert_eq!(again.status, StatusCode::SEE_OTHER);
    for path in ["/servers", "/servers.json", "/servers/files", "/servers/files.json", "/audit"] {
        let page = text(&stage.get(&cookie, path));
        assert!(!page.contains("hunter2") && !page.contains("other-secret"), "{path}: {page}");
    }
    assert!(text(&stage.get(&cookie, "/servers/files")).contains("KEY"));
    assert_eq!(stage.post(&cookie, "/servers/files/remove", "").status, StatusCode::SEE_OTHER);
    assert_eq!(stage.registry.servers().unwrap().len(), 0);
}

#[tokio::test]
async fn refused_forms_keep_what_was_typed_and_say_why() {
    let (stage, cookie) = stage_with_tool();
    let table = [
        (
            "/servers",
            "kind=command&name=files&command=%22open",
            "a quote in the command is not closed",
            "&#34;open",
        ),
        (
            "/servers",
            "kind=url&name=far&url=http://example.com/mcp",
            "clear text",
            "http://example.com/mcp",
        ),
        ("/grants", "label=alice-laptop", "choose at least one server", "value=\"alice-laptop\""),
        ("/policies", "name=new&text=%7B%22version%22:%222%22%7D", "unknown value", "version"),
    ];
    for (path, form, message, kept) in table {
        let answer = stage.post(&cookie, path, form);
        let page = text(&answer);
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {page}");
        assert!(page.contains(message) && page.contains(kept), "{form}: {page}");
        assert!(page.contains("aria-label=\"Main\""), "it is the page itself");
    }
}

#[tokio::test]
async fn a_version_that_was_saved_meanwhile_is_not_replaced_unseen() {
    let stage = Stage::new();
    let cookie = stage.sign_in(Role::Admin);
    let text_of = |version: u64| stage.registry.policy_version("p", version).map(|p| p.source);
    let form = |text: &str, seen: &str| {
        let text = crate::page::segment(text);
        format!("do=save&text={text}&base={text}&seen_version={seen}")
    };
    let [first, mine, theirs] =
        ["deny", "allow", "deny"].map(|default| json!({ "version": "1", "default": default }));
    let theirs = theirs.to_string().replace('{', "{ ");
    let saved = stage.post(&cookie, "/policies/p", &form(&first.to_string(), "0"));
    assert_eq!(saved.status, StatusCode::SEE_OTHER, "{}", text(&saved));
    assert_eq!(
        stage.post(&cookie, "/policies/p", &form(&theirs, "1")).status,
        StatusCode::SEE_OTHER
    );

    let mine = mine.to_string();
    let refused = stage.post(&cookie, "/policies/p", &form(&mine, "1"));
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let page = text(&refused);
    assert!(page.contains("saved version 2 while you edited"), "{page}");
    assert!(page.contains(r#"name="seen_version" value="2""#), "{page}");
    assert!(text_of(3).is_err(), "nothing was saved");
    assert_eq!(stage.post(&cookie, "/policies/p", &form(&mine, "2")).status, StatusCode::SEE_OTHER);
    assert_eq!(text_of(3).unwrap(), mine);
}

//! Headers that mirror the body: missing, wrong and repeated ones are refused with the protocol's
//! codes.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use policy::json::{Bounds, Doc};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq};
use proptest::proptest;

use crate::headers::{era_of_body, era_of_post, standard_headers};
use crate::{Era, Id, Message, ParamHeaders, ProtocolError, Revision, read};

const MODERN: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

type Headers<'h> = &'h [(&'h str, &'h str)];

fn header_map(headers: Headers<'_>) -> HeaderMap {
    headers
        .iter()
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            )
        })
        .fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
}

fn summary(judged: Result<Era, ProtocolError>) -> String {
    match judged {
        Ok(era) => format!("{era:?}"),
        Err(refused) => format!(
            "{} {} {}",
            refused.http_status,
            refused.code,
            refused.id.as_ref().map_or("null", Id::raw)
        ),
    }
}

fn posted(body: &str, headers: Headers<'_>) -> String {
    let doc = read(body.as_bytes()).unwrap();
    summary(era_of_post(
        &Message::of(&doc).unwrap(),
        &header_map(headers),
        &[Revision::V2026_07_28],
    ))
}

#[test]
fn a_post_has_the_era_of_its_body() {
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x",{MODERN}}}}}"#
    );
    let list = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{MODERN}}}}}"#);
    let task = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{{"taskId":"t",{MODERN}}}}}"#
    );
    let notification =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{{MODERN}}}}}"#);
    let init = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{{MODERN}}}}}"#);
    let wide = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"name":"日本",{MODERN}}}}}"#
    );
    let old = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
    let old_init = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let old_notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let method = ("Mcp-Method", "tools/call");
    let name = ("Mcp-Name", "x");
    let cases: &[(&str, Headers<'_>, &str)] = &[
        (&call, &[version, method, name], "Modern"),
        (
            &call,
            &[
                ("mcp-protocol-version", "2026-07-28"),
                ("MCP-METHOD", "tools/call"),
                ("mcp-name", "x"),
            ],
            "Modern",
        ),
        (&call, &[version, method, ("Mcp-Name", " \tx  ")], "Modern"),
        (&call, &[version, method, ("Mcp-Name", "=?base64?eA==?=")], "Modern"),
        (&call, &[version, method, ("Mcp-Name", "=?base64?eA?=")], "400 -32020 1"),
        (&call, &[version, method, ("Mcp-Name", "=?base64?e!==?=")], "400 -32020 1"),
        (&call, &[version, method, ("Mcp-Name", "=?base64?=")], "400 -32020 1"),
        (&call, &[version, method, ("Mcp-Name", "X")], "400 -32020 1"),
        (&call, &[version, method, ("Mcp-Name", "é")], "400 -32020 1"),
        (&call, &[version, method, name, name], "400 -32020 1"),
        (&call, &[version, version, method, name], "400 -32020 1"),
        (&call, &[version, ("Mcp-Method", "tools/list"), name], "400 -32020 1"),
        (&call, &[version, ("Mcp-Method", "TOOLS/CALL"), name], "400 -32020 1"),
        (&call, &[version, method], "400 -32020 1"),
        (&call, &[version, name], "400 -32020 1"),
        (&call, &[method, name], "400 -32020 1"),
        (&call, &[], "400 -32020 1"),
        (&call, &[("MCP-Protocol-Version", "2025-11-25"), method, name], "400 -32020 1"),
        (&list, &[version, ("Mcp-Method", "tools/list")], "Modern"),
        (&list, &[version, ("Mcp-Method", "tools/list"), name], "Modern"),
        (&task, &[version, ("Mcp-Method", "tasks/get")], "400 -32020 1"),
        (&task, &[version, ("Mcp-Method", "tasks/get"), ("Mcp-Name", "t")], "Modern"),
        (
            &wide,
            &[version, ("Mcp-Method", "prompts/get"), ("Mcp-Name", "=?base64?5pel5pys?=")],
            "Modern",
        ),
        (&notification, &[], "Modern"),
        (&notification, &[version, ("Mcp-Method", "x")], "400 -32020 null"),
        (&init, &[version, ("Mcp-Method", "initialize")], "Modern"),
        (old, &[], "Legacy"),
        (old, &[("MCP-Protocol-Version", "2025-06-18")], "Legacy"),
        (old, &[("MCP-Protocol-Version", "2025-06-19")], "400 -32022 1"),
        (old, &[("Mcp-Name", "y")], "400 -32020 1"),
        (old, &[("Mcp-Method", "ping")], "400 -32020 1"),
        (old, &[version, method, name], "400 -32602 1"),
        (old_init, &[], "Legacy"),
        (old_init, &[("MCP-Protocol-Version", "2025-99-99")], "Legacy"),
        (old_init, &[version], "400 -32020 1"),
        (old_notification, &[], "Legacy"),
        (old_notification, &[version], "Modern"),
        (old_notification, &[("MCP-Protocol-Version", "2027-01-01")], "400 -32022 null"),
        (answer, &[], "Legacy"),
        (answer, &[version], "400 -32600 null"),
        (answer, &[("Mcp-Method", "ping")], "400 -32020 null"),
    ];
    for (body, headers, expected) in cases {
        assert_eq!(posted(body, headers), *expected, "{body} {headers:?}");
    }
}

#[test]
fn a_claim_is_complete_or_refused() {
    let cases = [
        (r"{}", "Legacy"),
        (r#"{"progressToken":1}"#, "Legacy"),
        (r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, "Legacy"),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#,
            "Modern",
        ),
        (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, "400 -32602 1"),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":20260728,"io.modelcontextprotocol/clientCapabilities":{}}"#,
            "400 -32602 1",
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}"#,
            "400 -32602 1",
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":"x"}"#,
            "400 -32602 1",
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":1}"#,
            "400 -32602 1",
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"v999.0.0","io.modelcontextprotocol/clientCapabilities":{}}"#,
            "400 -32022 1",
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}"#,
            "400 -32022 1",
        ),
    ];
    for (meta, expected) in cases {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#
        );
        let doc = read(body.as_bytes()).unwrap();
        let judged = era_of_body(&Message::of(&doc).unwrap(), &[Revision::V2026_07_28]);
        assert_eq!(summary(judged), expected, "{meta}");
    }
}

#[test]
fn a_missing_claim_with_a_modern_header_is_reported() {
    let with_meta = r#"{"jsonrpc":"2.0","id":102,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let without = r#"{"jsonrpc":"2.0","id":101,"method":"server/discover","params":{}}"#;
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")];
    assert_eq!(posted(with_meta, &headers), "400 -32602 102");
    assert_eq!(posted(without, &headers), "400 -32602 101");
}

#[test]
fn the_error_for_an_unsupported_version_lists_the_supported_ones() {
    let body = r#"{"jsonrpc":"2.0","id":301,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v9\"","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let doc = read(body.as_bytes()).unwrap();
    let headers =
        header_map(&[("MCP-Protocol-Version", "v9\""), ("Mcp-Method", "server/discover")]);
    let refused =
        era_of_post(&Message::of(&doc).unwrap(), &headers, &[Revision::V2026_07_28]).unwrap_err();
    let answer: serde_json::Value = serde_json::from_slice(&refused.to_body()).unwrap();
    assert_eq!((refused.http_status, &answer["id"]), (400, &serde_json::json!(301)));
    assert_eq!(
        answer["error"]["data"],
        serde_json::json!({"supported": ["2026-07-28"], "requested": "v9\""})
    );
}

const SCHEMA: &str = r#"{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "count":{"type":"integer","x-mcp-header":"Count"},
    "dry":{"type":"boolean","x-mcp-header":"Dry"},
    "free":{"type":"string"},
    "deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deeper"}}}}}"#;

fn param_headers(schema: &str) -> ParamHeaders {
    ParamHeaders::of_schema(Doc::read(schema.as_bytes(), &Bounds::ANSWER).unwrap().root())
}

fn params_checked(schema: &str, arguments: &str, headers: Headers<'_>) -> bool {
    let arguments = Doc::read(arguments.as_bytes(), &Bounds::MESSAGE).unwrap();
    let checked =
        param_headers(schema).check(Some(arguments.root()), &header_map(headers), &Id::number(1));
    checked
        .inspect_err(|refused| assert_eq!((refused.http_status, refused.code), (400, -32020)))
        .is_ok()
}

#[test]
fn argument_headers_match_the_arguments() {
    let cases: &[(&str, Headers<'_>, bool)] = &[
        ("{}", &[], true),
        (r#"{"free":"x"}"#, &[], true),
        (r#"{"region":null}"#, &[], true),
        (r#"{"region":["x"]}"#, &[], true),
        ("{}", &[("Mcp-Param-Region", "eu")], false),
        (r#"{"region":null}"#, &[("Mcp-Param-Region", "eu")], false),
        (r#"{"region":["eu"]}"#, &[("Mcp-Param-Region", "eu")], false),
        (r#"{"count":1e20}"#, &[("Mcp-Param-Count", "5")], false),
        (r#"{"region":"eu"}"#, &[("Mcp-Param-Region", "eu")], true),
        (r#"{"region":"eu"}"#, &[("mcp-param-region", " eu ")], true),
        (r#"{"region":"eu"}"#, &[("Mcp-Param-Region", "=?base64?ZXU=?=")], true),
        (r#"{"region":"eu"}"#, &[("Mcp-Param-Region", "EU")], false),
        (r#"{"region":"eu"}"#, &[], false),
        (r#"{"region":"eu"}"#, &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")], false),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "=?base64?SGVsbG8?=")], false),
        (r#"{"region":"Hello"}"#, &[("Mcp-Param-Region", "=?base64?SGVs!!!bG8=?=")], false),
        (r#"{"region":"SGVsbG8="}"#, &[("Mcp-Param-Region", "SGVsbG8=")], true),
        (r#"{"region":"=?base64?SGVsbG8="}"#, &[("Mcp-Param-Region", "=?base64?SGVsbG8=")], true),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "42")], true),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "42.0")], true),
        (r#"{"count":42.0}"#, &[("Mcp-Param-Count", "42")], true),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "4.2e1")], false),
        (r#"{"count":42}"#, &[("Mcp-Param-Count", "43")], false),
        (r#"{"count":"42"}"#, &[("Mcp-Param-Count", "42.0")], false),
        (r#"{"dry":true}"#, &[("Mcp-Param-Dry", "true")], true),
        (r#"{"dry":true}"#, &[("Mcp-Param-Dry", "True")], false),
        (r#"{"deep":{"er":"x"}}"#, &[("Mcp-Param-Deeper", "x")], true),
        (r#"{"deep":{"er":"x"}}"#, &[("Mcp-Param-Deeper", "y")], false),
    ];
    for (arguments, headers, expected) in cases {
        assert_eq!(
            params_checked(SCHEMA, arguments, headers),
            *expected,
            "{arguments} {headers:?}"
        );
    }
}

#[test]
fn arguments_are_written_unencoded_where_possible() {
    let cases = [
        (r#"{"region":"eu west, 1"}"#, "mcp-param-region: eu west, 1"),
        (r#"{"region":""}"#, "mcp-param-region: =?base64??="),
        (r#"{"region":" eu"}"#, "mcp-param-region: =?base64?IGV1?="),
        (r#"{"region":"a\r\nb"}"#, "mcp-param-region: =?base64?YQ0KYg==?="),
        (r#"{"region":"日本"}"#, "mcp-param-region: =?base64?5pel5pys?="),
        (r#"{"region":"=?base64?eA==?="}"#, "mcp-param-region: =?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        (r#"{"count":1E2}"#, "mcp-param-count: 100"),
        (r#"{"count":1e20}"#, ""),
        (r#"{"dry":false,"free":"x"}"#, "mcp-param-dry: false"),
        (r#"{"deep":{"er":"x"},"region":{}}"#, "mcp-param-deeper: x"),
        (r#"{"deep":"x","region":null}"#, ""),
    ];
    for (arguments, expected) in cases {
        let doc = Doc::read(arguments.as_bytes(), &Bounds::MESSAGE).unwrap();
        let written = param_headers(SCHEMA).write(Some(doc.root()));
        let lines: Vec<String> = written
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(lines.join("\n"), expected, "{arguments}");
    }
}

#[test]
fn invalid_declarations_are_found() {
    let property = |inside: &str| format!(r#"{{"properties":{{"a":{inside}}}}}"#);
    let bad = [
        property(r#"{"type":"string","x-mcp-header":""}"#),
        property(r#"{"type":"string","x-mcp-header":"a b"}"#),
        property(r#"{"type":"string","x-mcp-header":"a:b"}"#),
        property(r#"{"type":"string","x-mcp-header":"a\r\nb"}"#),
        property(r#"{"type":"string","x-mcp-header":1}"#),
        property(r#"{"type":"object","x-mcp-header":"a"}"#),
        property(r#"{"x-mcp-header":"a"}"#),
        property(r#"{"type":"array","items":{"type":"string","x-mcp-header":"a"}}"#),
        property(r#"{"anyOf":[{"type":"string","x-mcp-header":"a"}]}"#),
        r#"{"type":"string","x-mcp-header":"a"}"#.to_owned(),
        r#"{"$defs":{"d":{"type":"string","x-mcp-header":"a"}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"string","x-mcp-header":"x"}}}"#.to_owned(),
    ];
    for schema in bad {
        let found = param_headers(&schema);
        assert!(found.fault().is_some() && found.is_empty(), "{schema}");
    }
    let number = param_headers(&property(r#"{"type":"number","x-mcp-header":"n"}"#));
    assert!(number.fault().is_some() && !number.is_empty());
    assert!(param_headers(SCHEMA).fault().is_none());
    let nested = format!("{}{}", r#"{"properties":{"a":"#.repeat(100), "1") + &"}}".repeat(100);
    assert!(param_headers(&nested).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn headers_that_we_write_pass_our_check(region in ".{0,12}", count in proptest::num::i64::ANY, number in proptest::num::f64::NORMAL) {
        let schema = r#"{"properties":{"r":{"type":"string","x-mcp-header":"R"},"c":{"type":"integer","x-mcp-header":"C"},"n":{"type":"number","x-mcp-header":"N"}}}"#;
        let arguments = serde_json::json!({"r": region, "c": count >> 12, "n": number}).to_string();
        let doc = Doc::read(arguments.as_bytes(), &Bounds::MESSAGE).unwrap();
        let wanted = param_headers(schema);
        let headers: HeaderMap = wanted.write(Some(doc.root())).into_iter().collect();
        prop_assert!(headers.len() >= 2);
        prop_assert_eq!(wanted.check(Some(doc.root()), &headers, &Id::number(1)), Ok(()));
    }

    #[test]
    fn standard_headers_that_we_write_pass_our_check(name in "[^\\p{Cc}]{1,20}") {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"name":{},{MODERN}}}}}"#,
            serde_json::to_string(&name).unwrap(),
        );
        let doc = read(body.as_bytes()).unwrap();
        let message = Message::of(&doc).unwrap();
        let headers = standard_headers("prompts/get", message.params(), Revision::V2026_07_28);
        let headers: HeaderMap = headers.into_iter().collect();
        prop_assert_eq!(era_of_post(&message, &headers, &[Revision::V2026_07_28]), Ok(Era::Modern));
    }
}

//! The limits of `query_whoop` through the binary: a query ends in time however slow its single steps are.

use std::time::Instant;

use serde_json::json;

use crate::http;
use crate::whoop;

/// Two seconds are the limit. The rest is for a build without optimisation beside other tests.
const TOOK_S_MAX: f64 = 8.0;
/// A result of 64 KiB, as text and structured, and the envelope.
const ANSWER_BYTES_MAX: usize = 2 * 64 * 1024 + 16 * 1024;
const OPEN: &str = r#"{ "version": "1", "default": "allow" }"#;

/// Queries that search long texts in a single step, fill memory or disk, or have very many parts.
fn attacks() -> Vec<String> {
    let many = "from whoop_sleeps a, whoop_sleeps b, whoop_sleeps c";
    let long = "replace(hex(zeroblob(7000)), '0', 'a')";
    let longer = "replace(hex(zeroblob(15000)), '0', 'a')";
    let row = format!("{long} || a.id || b.id || c.id");
    let same = format!("'{}b'", "a".repeat(60));
    let searches = vec![format!("instr({long} || a.id, {long} || 'b')"); 90].join(", ");
    let half = format!("instr({long} || a.id, substr({long}, 1, 7000) || 'b')");
    let halves = vec![half; 80].join(", ");
    let wildcards = "%a".repeat(10);
    let ids = vec!["a.id"; 3_000].join(" || ");
    vec![
        format!("select count(*) {many} where {row} like '%' || {long} || 'b%'"),
        format!("select count(*) {many} where {longer} || c.id like '%' || {longer} || 'b%'"),
        format!("select count(*) {many} where {row} like '{wildcards}b'"),
        format!("select count(*) {many} where {row} glob '*a*a*a*a*a*a*a*a*a*a*b'"),
        format!("select count(*) {many} where instr({row}, {same}) > 0"),
        format!("select sum(length(replace({row}, {same}, ''))) {many}"),
        format!("select {searches} {many}"),
        format!("select {halves} {many}"),
        format!("select {row} as x {many} order by x"),
        format!("select distinct {row} {many}"),
        format!("select count(distinct {row}) {many}"),
        format!("select group_concat({long}) {many}"),
        format!("select json_group_array({long}) {many}"),
        format!("select max(length(printf('%.*c', 2000000000, a.id))) {many}"),
        format!("select sum(json_array_length('[' || {long} || ']')) {many}"),
        format!("select a.id, sum(length(b.id)) over (order by c.id, {long}) {many}"),
        format!("select {ids} {many}"),
        format!("select 1{}", " union all select 1".repeat(3_000)),
        format!("select {}1{}", "(".repeat(3_000), ")".repeat(3_000)),
    ]
}

#[test]
fn a_query_ends_in_time_however_slow_its_steps_are() {
    let (test, _sandbox) = whoop::connected("200");
    test.succeed(&["sync", "whoop"]);
    test.succeed(&["server", "add", "whoop", "--builtin", "whoop"]);
    let policy = test.write("open.json", OPEN);
    test.succeed(&["policy", "set", "open", &policy]);
    let made = test.succeed(&["grant", "create", "reader", "--server", "whoop=open", "--json"]);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let up = test.up(&[]);
    let url = format!("{}/whoop", up.url());
    for sql in attacks() {
        let started = Instant::now();
        let answer = http::call(&url, &token, "query_whoop", &json!({ "sql": sql })).json();
        let took_s = started.elapsed().as_secs_f64();
        let shown = &sql[..sql.len().min(120)];
        assert!(took_s < TOOK_S_MAX, "{took_s} s: {shown}");
        let bytes = answer.to_string().len();
        assert!(bytes < ANSWER_BYTES_MAX, "{bytes} bytes: {shown}");
    }
    // It still answers.
    let sql = json!({ "sql": "select count(*) from whoop_sleeps" });
    let answer = http::call(&url, &token, "query_whoop", &sql).json();
    assert_eq!(answer["result"]["structuredContent"]["columns"], json!(["count(*)"]), "{answer}");
    up.stop();
}

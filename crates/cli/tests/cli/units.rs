//! One setting for the units of tools and of the report, through the binary.

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::http;
use crate::whoop;

/// What the load is measured in and the sentences of three tools, with what the report says.
fn shown(test: &CliTest, token: &str) -> (Value, String, String) {
    let up = test.up(&[]);
    let url = format!("{}/whoop", up.url());
    let ask = |tool: &str, arguments: Value| {
        let answer = http::call(&url, token, tool, &arguments).json();
        answer["result"]["structuredContent"].clone()
    };
    let load = ask("get_whoop_training_load", json!({}));
    let temperature = ask("get_whoop_baseline", json!({ "metric": "skin_temperature" }));
    let said = format!("{} {}", load["summary"], temperature["summary"]);
    up.stop();
    let file = test.path("report.html").display().to_string();
    test.succeed(&["report", "--html", &file, "--overwrite"]);
    (load["unit"].clone(), said, std::fs::read_to_string(file).unwrap())
}

#[test]
fn tools_and_report_are_in_the_units_that_the_owner_chose() {
    let (test, _sandbox) = whoop::connected("120");
    test.succeed(&["sync", "whoop"]);
    test.succeed(&["server", "add", "whoop", "--builtin", "whoop"]);
    let made = test.succeed(&["grant", "create", "reader", "--server", "whoop", "--json"]);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let (unit, said, report) = shown(&test, &token);
    assert_eq!(unit, "kilocalories");
    assert!(said.contains(" kcal") && said.contains("°C") && !said.contains(" kJ"), "{said}");
    assert!(report.contains(" kcal") && !report.contains(" kJ"));

    test.write("home/tollgate.toml", "units = \"imperial\"\nenergy = \"kj\"\n");
    let (unit, said, report) = shown(&test, &token);
    assert_eq!(unit, "kilojoules");
    assert!(said.contains(" kJ") && said.contains("°F") && !said.contains(" kcal"), "{said}");
    assert!(report.contains(" kJ") && !report.contains(" kcal"));
}

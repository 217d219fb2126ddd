//! The skill and the prompts of the WHOOP server through the binary, with its default policy.

use serde_json::{Value, json};

use crate::cli_test::CliTest;
use crate::whoop::{answer, lines, request};

#[test]
fn the_skill_and_the_prompts_are_served() {
    let test = CliTest::new();
    let root = "skill://tollgate-insights";
    let race = json!({ "name": "before_a_race", "arguments": { "date": "1 May" } });
    let input = lines(&[
        request(2, "skills/list", &json!({})),
        request(3, "skills/get", &json!({ "uri": format!("{root}/SKILL.md") })),
        request(4, "resources/read", &json!({ "uri": format!("{root}/SKILL.md") })),
        request(5, "resources/read", &json!({ "uri": format!("{root}/references/wording.md") })),
        request(6, "resources/directory/read", &json!({ "uri": root })),
        request(7, "prompts/get", &race),
        request(8, "prompts/get", &json!({ "name": "before_a_race" })),
        request(9, "resources/read", &json!({ "uri": format!("{root}/other.md") })),
        request(10, "resources/directory/read", &json!({ "uri": format!("{root}/..") })),
    ]);
    let printed = test.run_session(&["stdio", "whoop"], &input);
    let answer = |id: u64| answer(&printed.stdout, id);
    let extensions = &answer(0)["result"]["capabilities"]["extensions"];
    assert_eq!(extensions["io.modelcontextprotocol/skills"]["directoryRead"], true, "{extensions}");
    let entry = answer(2)["result"]["skills"][0].clone();
    assert_eq!(entry, answer(3)["result"]["skill"]);
    assert_eq!(entry["frontmatter"]["name"], "tollgate-insights");
    for (id, place) in [(4, 0), (5, 1)] {
        let text = answer(id)["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
        let digest = catalog::pins::fingerprint_of_bytes(text.as_bytes());
        let file = &entry["resources"][place];
        assert_eq!(file["digest"], format!("sha256:{digest}"));
        assert_eq!(file["size"], text.len());
    }
    let folder = answer(6)["result"]["resources"].clone();
    let children: Vec<&Value> = folder.as_array().unwrap().iter().map(|c| &c["uri"]).collect();
    let expected = [json!(format!("{root}/SKILL.md")), json!(format!("{root}/references"))];
    assert_eq!(children, expected.iter().collect::<Vec<_>>());
    let text = answer(7)["result"]["messages"][0]["content"]["text"].to_string();
    assert!(text.contains("on 1 May") && text.contains("State only numbers"), "{text}");
    assert!(answer(8)["error"]["message"].as_str().unwrap().contains("`date`"));
    assert!(answer(9)["error"].is_object() && answer(10)["error"].is_object());
}

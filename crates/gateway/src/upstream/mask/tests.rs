//! Tables of messages with secrets in every common form, and random ones.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::format_collect, reason = "tests")]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const KEY: &str = "sk-live/+\"4f\\9a~é&z";

fn mask(secret: &str) -> Arc<Mask> {
    Mask::new([("API_KEY", secret)]).unwrap()
}

fn masked(secret: &str, message: &str) -> String {
    let message = Bytes::copy_from_slice(message.as_bytes());
    String::from_utf8(mask(secret).message_now(message).to_vec()).unwrap()
}

fn percent(text: &str, all: bool) -> String {
    let keep = |byte: u8| !all && (byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
    let one =
        |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Wrapped as the `base64` command does it.
fn wrapped(text: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join("\n")
}

#[test]
fn every_common_form_is_replaced() {
    let quoted = serde_json::to_string(KEY).unwrap();
    let env = format!("HOME=/root\nAPI_KEY={KEY}\nPATH=/bin");
    let forms = [
        KEY.to_owned(),
        env.clone(),
        quoted.clone(),
        serde_json::to_string(&quoted).unwrap(),
        format!("{{\"env\":{{\"API_KEY\":{quoted}}}}}"),
        escaped(KEY),
        percent(KEY, false),
        percent(KEY, true),
        percent(KEY, true).to_lowercase(),
        percent(&percent(KEY, false), false),
        KEY.replace('&', "&amp;").replace('"', "&quot;"),
        KEY.replace('&', "&#38;").replace('"', "&#x22;"),
        format!("{{\"type\":\"Buffer\",\"data\":{}}}", json!(KEY.as_bytes())),
        format!("{:?}", KEY.as_bytes()),
        KEY.bytes().map(|byte| format!("0x{byte:02x} ")).collect(),
        STANDARD.encode(KEY),
        STANDARD_NO_PAD.encode(KEY),
        URL_SAFE.encode(KEY),
        percent(&STANDARD.encode(KEY), false),
        STANDARD.encode(format!("a{KEY}b")),
        STANDARD.encode(format!("ab{KEY}cd")),
        URL_SAFE.encode(format!("abc{KEY}def")),
        wrapped(&STANDARD.encode(format!("{}{env}", "x".repeat(40)))),
        KEY.bytes().map(|byte| format!("{byte:02x}")).collect(),
        KEY.bytes().map(|byte| format!("{byte:02X}:")).collect(),
        KEY.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        STANDARD.encode(STANDARD.encode(KEY)),
        STANDARD.encode(format!("file: {}", URL_SAFE.encode(KEY))),
        STANDARD.encode(percent(KEY, false)),
        // The environment as JSON, in a blob.
        STANDARD.encode(json!({ "API_KEY": KEY }).to_string()),
        STANDARD.encode(format!("[{}]", quoted.replace('/', "\\/"))),
        STANDARD.encode(quoted.replace('é', "\\u00e9")),
        quoted.bytes().map(|byte| format!("{byte:02x}")).collect(),
        STANDARD.encode(utf16(KEY)),
        STANDARD.encode(utf16(&format!("key: {KEY}"))),
        STANDARD.encode(KEY).bytes().map(|byte| format!("{byte:02x}")).collect(),
    ];
    for form in forms {
        let message = json!({ "result": { "content": [{ "text": format!("<{form}>") }] } });
        let text = masked(KEY, &message.to_string());
        let read: Value = serde_json::from_str(&text).unwrap();
        let shown = read["result"]["content"][0]["text"].as_str().unwrap();
        assert!(shown.contains("[secret API_KEY]"), "{form}: {shown}");
        assert!(!shown.contains("4f"), "{form}: {shown}");
        assert!(shown.starts_with('<') && shown.ends_with('>'), "{form}: {shown}");
    }
}

#[test]
fn the_rest_of_a_message_stays_as_it_was() {
    let secret = "hunter22";
    let table = [
        (r#"{"a":"hunter22"}"#, r#"{"a":"[secret API_KEY]"}"#),
        (r#"{"hunter22":1}"#, r#"{"[secret API_KEY]":1}"#),
        (r#"{"a":"\nhunter22\n"}"#, r#"{"a":"\n[secret API_KEY]\n"}"#),
        (r#"{"a":"\u0068unter22hunter22"}"#, r#"{"a":"[secret API_KEY]"}"#),
        (r#"{"a":"é hunter22 \"é\""}"#, r#"{"a":"é [secret API_KEY] \"é\""}"#),
        (r#"{"a":"hunter2"}"#, r#"{"a":"hunter2"}"#),
        (r#"{"a":"Hunter22 \u0041 %41"}"#, r#"{"a":"Hunter22 \u0041 %41"}"#),
        // Not JSON, but masked all the same.
        ("hunter22 and more", r#""[secret API_KEY]" and more"#),
    ];
    for (message, expected) in table {
        assert_eq!(masked(secret, message), expected);
    }
    // A secret may be text that JSON writes with an escape, or begin in the middle of one.
    assert_eq!(masked("nhunter", r#"{"a":"\nhunter"}"#), r#"{"a":"[secret API_KEY]"}"#);
    // A number is replaced only if it is the secret.
    assert_eq!(masked("123456", r"[123456,1234567]"), r#"["[secret API_KEY]",1234567]"#);
    // A secret that looks like structure does not break it.
    let whole = r#"{"k":"v","l":"w"}"#;
    let expected =
        r#"{"[secret API_KEY]":"[secret API_KEY]","[secret API_KEY]":"[secret API_KEY]"}"#;
    assert_eq!(masked(whole, whole), expected);
}

#[test]
fn parts_of_a_secret_are_secrets() {
    let basic = format!("Basic {}", STANDARD.encode("me:hunter22"));
    let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7VJTU\n-----END KEY-----\n";
    let long = "0123456789abcdef".repeat(200);
    let table = [
        ("Bearer abcdef123456", "token abcdef123456"),
        (basic.as_str(), "me:hunter22"),
        (basic.as_str(), "password hunter22"),
        ("postgres://me:p%40ssword@host/db", "p@ssword"),
        (pem, "AASCBKcwggSjAgEAAoIBAQC7VJTU"),
        (pem, pem),
        (" hunter22\n", "hunter22"),
        (long.as_str(), long.as_str()),
    ];
    for (secret, shown) in table {
        let text = masked(secret, &json!({ "a": shown }).to_string());
        assert!(text.contains("[secret API_KEY]"), "{text}");
        assert!(text.len() < 60, "{text}");
    }
}

#[test]
fn two_secrets_that_overlap_are_both_replaced() {
    let mask = Mask::new([("A", "abcdefgh"), ("B b\"", "efghijkl")]).unwrap();
    assert_eq!(mask.text("<abcdefghijkl>".into()), "<[secret A]>");
    assert_eq!(mask.text("<efghijkl>".into()), "<[secret B_b_]>");
}

#[test]
fn a_short_secret_is_replaced_only_for_the_owner() {
    assert!(Mask::new([("A", "abc")]).is_none());
    let mask = Mask::new([("A", "abcd")]).unwrap();
    assert_eq!(mask.text("abcd".into()), "[secret A]");
    let message = Bytes::from_static(br#"{"a":"abcd"}"#);
    assert_eq!(mask.message_now(message.clone()), message);
    // A word of the protocol is not masked either, because the message would break.
    assert!(Mask::new([("X-Toolsets", "default"), ("MODE", "Production")]).is_none());
}

#[test]
fn a_secret_at_the_edge_of_a_window_is_found() {
    let step = WINDOW_BYTES.max(mask(KEY).bytes_max() * ENCODED_GROWTH_MAX);
    let form = serde_json::to_string(&percent(KEY, true)).unwrap();
    for before in (step - form.len() - 12)..=(step + 12) {
        let message = format!("{{\"a\":\"{}\",\"b\":{form}}}", "x".repeat(before));
        let text = masked(KEY, &message);
        assert!(text.ends_with("\"b\":\"[secret API_KEY]\"}"), "{before}");
    }
}

/// One more way to encode a text.
fn encode(way: u8, text: &str) -> String {
    match way % 5 {
        0 => serde_json::to_string(text).unwrap(),
        1 => percent(text, true),
        2 => percent(text, false),
        3 => escaped(text),
        _ => text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;"),
    }
}

proptest! {
    #[test]
    fn a_secret_is_masked_in_any_context(
        secret in "[!-~é]{6,40}",
        before in "[ -~\n]{0,40}",
        after in "[ -~\n]{0,40}",
        ways in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let mut text = format!("{before}{secret}{after}");
        for way in &ways {
            text = encode(*way, &text);
        }
        let message = json!({ "k": text, &text: [1, "x"] }).to_string();
        let shown = masked(&secret, &message);
        let read: Value = serde_json::from_str(&shown).unwrap();
        prop_assert!(read["k"].is_string() || secret == "k" || read.as_object().is_some());
        // Decoded as often as it was encoded, nothing of it is left.
        let mut decoded_text = Decoded::read(shown.as_bytes());
        while let Some(now) = decoded_text {
            let left = memchr::memmem::find(&now.bytes, secret.as_bytes());
            prop_assert!(left.is_none(), "{}", shown);
            decoded_text = now.decoded_again();
        }
    }

    #[test]
    fn a_secret_in_base64_is_masked(
        secret in "[!-~]{6,40}",
        before in prop::collection::vec(any::<u8>(), 0..20),
        after in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let all = [&before[..], secret.as_bytes(), &after[..]].concat();
        for text in [STANDARD.encode(&all), URL_SAFE.encode(&all)] {
            let shown = masked(&secret, &json!([text]).to_string());
            prop_assert!(shown.contains("[secret API_KEY]"), "{}", shown);
        }
    }
}

//! One notice as each kind of channel receives it. Pure functions.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::fmt::Write as _;

/// What is sent. Every text is plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub title: String,
    pub text: String,
    /// The page that shows it, which needs a session.
    pub link: String,
}

impl Message {
    pub(crate) fn plain_text(&self) -> String {
        format!("{}\n\n{}\n", self.text, self.link)
    }

    /// The body of a generic webhook.
    pub(crate) fn webhook(&self, sent_at_s: i64) -> Value {
        json!({
            "version": 1,
            "type": self.topic,
            "title": self.title,
            "text": self.text,
            "link": self.link,
            "sent_at": sent_at_s,
        })
    }

    /// The body of an incoming webhook of Slack, which Mattermost and others accept, too.
    pub(crate) fn slack(&self) -> Value {
        let text = format!(
            "*{}*\n{}\n<{}|Open in tollgate>",
            slack_text(&self.title),
            slack_text(&self.text),
            self.link
        );
        json!({ "text": text })
    }

    /// A message as ntfy publishes it from JSON.
    pub(crate) fn ntfy(&self, topic: &str) -> Value {
        let is_urgent = self.topic == "approval";
        json!({
            "topic": topic,
            "title": self.title,
            "message": self.text,
            "click": self.link,
            "priority": if is_urgent { 4 } else { 3 },
            "actions": [{ "action": "view", "label": "Open", "url": self.link }],
        })
    }
}

/// Slack's markup: these three are escaped, and what would format text is kept apart from its word.
fn slack_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '*' | '_' | '~' | '`' => out.extend(['\u{200b}', c, '\u{200b}']),
            c => out.push(c),
        }
    }
    out
}

/// `t=SECONDS,v1=HEX`: HMAC-SHA-256 over the time, a dot and the body.
pub(crate) fn signature(secret: &str, sent_at_s: i64, body: &str) -> String {
    let mut hex = String::new();
    // HMAC accepts a key of any length.
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) {
        mac.update(format!("{sent_at_s}.{body}").as_bytes());
        for byte in mac.finalize().into_bytes() {
            let _ = write!(hex, "{byte:02x}");
        }
    }
    format!("t={sent_at_s},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message {
            topic: "approval".to_owned(),
            title: "Approval needed: <!channel> & `rm`".to_owned(),
            text: "a <https://evil.example|b>".to_owned(),
            link: "http://127.0.0.1:4180/approvals/ap-1".to_owned(),
        }
    }

    #[test]
    fn hostile_text_gets_no_meaning_in_slack() {
        let body = message().slack();
        let text = body.get("text").and_then(Value::as_str).unwrap_or_default();
        assert!(!text.contains("<!channel>") && !text.contains("<https://evil"), "{text}");
        assert!(text.contains("&lt;!channel&gt; &amp;"), "{text}");
        assert!(
            text.ends_with("<http://127.0.0.1:4180/approvals/ap-1|Open in tollgate>"),
            "{text}"
        );
    }

    #[test]
    fn the_signature_is_an_hmac_of_time_and_body() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac secret
        let expected = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";
        let signed = signature("secret", 1_700_000_000, "{}");
        assert_eq!(signed, format!("t=1700000000,v1={expected}"));
        assert_ne!(signed, signature("secret", 1_700_000_001, "{}"));
        assert_ne!(signed, signature("other", 1_700_000_000, "{}"));
    }
}

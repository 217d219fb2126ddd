//! A browser and its system in a few words, for the list of sessions.

use http::HeaderMap;
use http::header::USER_AGENT;

/// The mark in the header, and the name. The first match counts: most browsers also claim to be others.
const BROWSERS: [(&str, &str); 7] = [
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];
const SYSTEMS: [(&str, &str); 6] = [
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

pub(crate) fn of(headers: &HeaderMap) -> String {
    let text = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let find = |table: &[(&str, &'static str)]| {
        table.iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| *name)
    };
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "unknown browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_with_its_system() {
        for (text, expected) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/148.0 Safari/537.36 Edg/148.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/19.0 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) CriOS/148.0 Safari/604.1",
                "Chrome on iPhone",
            ),
            ("curl/8.0", "unknown browser"),
            ("", "unknown browser"),
        ] {
            let mut headers = HeaderMap::new();
            if let Ok(value) = text.parse() {
                headers.insert(USER_AGENT, value);
            }
            assert_eq!(of(&headers), expected, "{text}");
        }
    }
}

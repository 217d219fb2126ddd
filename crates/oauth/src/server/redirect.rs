//! Redirect URIs: which ones a client may register, and whether a presented one is a registered one.

use url::{Host, Url};

/// A longer one is refused.
const BYTES_MAX: usize = 2048;
/// Schemes without a dot that belong to known clients. Others need a dot, as RFC 8252 7.1 asks.
const KNOWN_SCHEMES: &[&str] =
    &["cursor", "vscode", "vscode-insiders", "vscodium", "windsurf", "zed", "claude", "raycast"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    Https,
    /// `http` on this machine; the port is free.
    Loopback,
    /// A scheme that an application on the user's machine owns.
    PrivateUse,
}

/// A redirect URI that is safe to send a browser to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectUri {
    text: String,
    url: Url,
    kind: RedirectKind,
}

impl RedirectUri {
    /// Refuses what a browser could execute or read differently than this parser.
    pub fn parse(text: &str) -> Result<RedirectUri, &'static str> {
        if text.len() > BYTES_MAX {
            return Err("it is longer than 2048 bytes");
        }
        // URL parsers drop tabs and line breaks and take a backslash for a slash.
        if text.bytes().any(|c| !c.is_ascii_graphic() || c == b'\\') {
            return Err("it has a character that a URI cannot have");
        }
        if text.contains('#') {
            return Err("it has a fragment");
        }
        let url = Url::parse(text).map_err(|_| "it is not an absolute URI")?;
        if has_user(text, &url) {
            return Err("it has a user name or password");
        }
        let kind = match url.scheme() {
            "https" if url.has_host() => RedirectKind::Https,
            "http" if is_loopback(&url) => RedirectKind::Loopback,
            "http" => return Err("plain http is for loopback only"),
            scheme if scheme.contains('.') || KNOWN_SCHEMES.contains(&scheme) => {
                RedirectKind::PrivateUse
            }
            _ => return Err("its scheme is not https, loopback http, or a private-use scheme"),
        };
        Ok(RedirectUri { text: text.to_owned(), url, kind })
    }

    #[must_use]
    pub fn kind(&self) -> RedirectKind {
        self.kind
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a presented URI is this registered one: the same bytes, except for the port on loopback.
    #[must_use]
    pub fn accepts(&self, presented: &RedirectUri) -> bool {
        if self.kind != RedirectKind::Loopback || presented.kind != RedirectKind::Loopback {
            return self.text == presented.text;
        }
        let (one, other) = (&self.url, &presented.url);
        one.host() == other.host() && one.path() == other.path() && one.query() == other.query()
    }

    /// Where the browser goes, for a person: scheme and host in full.
    #[must_use]
    pub fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}", self.url.scheme())
    }

    /// The source expression of a content security policy that allows this redirect after a form.
    #[must_use]
    pub fn form_source(&self) -> String {
        match self.kind {
            RedirectKind::PrivateUse => format!("{}:", self.url.scheme()),
            _ => self.shown(),
        }
    }

    /// The URI with these parameters added to its query.
    #[must_use]
    pub fn with(&self, pairs: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(pairs);
        let joint = match self.url.query() {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        format!("{}{joint}{}", self.text, query.finish())
    }
}

/// A user name or password, or an `@` in the authority without a name before it. Browsers find an authority behind
/// any number of slashes.
fn has_user(text: &str, url: &Url) -> bool {
    if !url.username().is_empty() || url.password().is_some() {
        return true;
    }
    let Some((_, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.contains('@')
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_targets_can_be_registered() {
        use RedirectKind::{Https, Loopback, PrivateUse};
        let table = [
            ("https://claude.ai/api/mcp/auth_callback", Some(Https)),
            ("https://chatgpt.com/connector/oauth/abc123", Some(Https)),
            ("https://vscode.dev/redirect", Some(Https)),
            ("https://grok.com/x?y=1", Some(Https)),
            ("http://127.0.0.1:33418/", Some(Loopback)),
            ("http://127.0.0.1/", Some(Loopback)),
            ("http://localhost:8787/callback", Some(Loopback)),
            ("http://[::1]:4000/callback", Some(Loopback)),
            ("cursor://anysphere.cursor-mcp/oauth/callback", Some(PrivateUse)),
            ("com.example.app:/oauth2redirect", Some(PrivateUse)),
            ("javascript:alert(1)", None),
            ("JavaScript://x.example/%0aalert(1)", None),
            ("data:text/html,x", None),
            ("file:///etc/passwd", None),
            ("blob:https://x.example/1", None),
            ("vbscript:x", None),
            ("ftp://x.example/", None),
            ("about:blank", None),
            ("http://evil.example/callback", None),
            ("http://127.0.0.1.evil.example/", None),
            ("http://localhost.evil.example/", None),
            ("http://localhost@evil.example/", None),
            ("https://claude.ai@evil.example/", None),
            ("https://@evil.example/", None),
            ("https:claude.ai@evil.example/", None),
            ("https:/claude.ai@evil.example/", None),
            ("https:///claude.ai:x@evil.example/", None),
            ("http:claude.ai@127.0.0.1/", None),
            ("https://x.example/#f", None),
            ("https://x.example/#", None),
            ("https://x.example\\@evil.example/", None),
            ("https://x.example/\n", None),
            ("https://x.exa\tmple/", None),
            ("https://ex\u{430}mple.com/", None),
            ("https://", None),
            ("/callback", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(RedirectUri::parse(text).ok().map(|uri| uri.kind()), expected, "{text}");
        }
        assert!(RedirectUri::parse(&format!("https://x.example/{}", "a".repeat(3000))).is_err());
    }

    #[test]
    fn a_presented_uri_must_be_a_registered_one() {
        let table = [
            ("https://a.example/cb", "https://a.example/cb", true),
            ("https://a.example/cb", "https://a.example/cb/", false),
            ("https://a.example/cb", "https://a.example/cb?x=1", false),
            ("https://a.example/cb", "https://a.example/CB", false),
            ("https://a.example/cb", "https://a.example:443/cb", false),
            ("https://a.example/cb", "https://b.example/cb", false),
            ("https://a.example/cb", "https://a.example.evil.example/cb", false),
            ("https://a.example/cb", "https://xn--a-example/cb", false),
            ("http://127.0.0.1/", "http://127.0.0.1:33418/", true),
            ("http://127.0.0.1/", "http://127.0.0.1:33418", true),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true),
            ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/other", false),
            ("http://127.0.0.1:1/cb", "http://localhost:1/cb", false),
            ("http://127.0.0.1:1/cb", "http://[::1]:1/cb", false),
            ("http://localhost/cb", "https://localhost/cb", false),
            ("https://localhost:1/cb", "https://localhost:2/cb", false),
            ("cursor://x/cb", "cursor://x/cb", true),
            ("cursor://x/cb", "cursor://y/cb", false),
        ];
        for (registered, presented, expected) in table {
            let (Ok(one), Ok(other)) =
                (RedirectUri::parse(registered), RedirectUri::parse(presented))
            else {
                assert!(!expected, "{registered} {presented}");
                continue;
            };
            assert_eq!(one.accepts(&other), expected, "{registered} {presented}");
        }
    }

    #[test]
    fn parameters_are_added_and_escaped() {
        let with = |text: &str| {
            RedirectUri::parse(text).map(|uri| uri.with(&[("code", "a&b"), ("state", "ü")]))
        };
        assert_eq!(
            with("https://a.example/cb"),
            Ok("https://a.example/cb?code=a%26b&state=%C3%BC".to_owned())
        );
        assert_eq!(
            with("https://a.example/cb?x=1"),
            Ok("https://a.example/cb?x=1&code=a%26b&state=%C3%BC".to_owned())
        );
        assert_eq!(with("cursor://x/cb"), Ok("cursor://x/cb?code=a%26b&state=%C3%BC".to_owned()));
    }
}

//! `WWW-Authenticate` of a server that wants a token (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1).

/// The `Bearer` challenge of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The error code, such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
    /// The scopes that the request needs.
    pub scopes: Vec<String>,
    /// The address of the protected resource metadata.
    pub resource_metadata: Option<String>,
}

/// What a challenge asks of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A token, or another one.
    Token,
    /// A token with more scopes.
    MoreScope,
}

impl Challenge {
    /// The first `Bearer` challenge among the values of the header. A value may hold several challenges.
    pub fn of<'v>(values: impl IntoIterator<Item = &'v str>) -> Option<Challenge> {
        values.into_iter().find_map(|value| {
            let bearer = challenges(value)
                .into_iter()
                .find(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            bearer.map(|(_, params)| Challenge::from_params(&params))
        })
    }

    fn from_params(params: &[(String, String)]) -> Challenge {
        let one = |name: &str| {
            let found = params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let scopes = one("scope").unwrap_or_default();
        Challenge {
            error: one("error").filter(|code| is_word(code)),
            scopes: super::scope::split_scopes(&scopes),
            resource_metadata: one("resource_metadata"),
        }
    }

    /// What a response with this status and challenge asks for; none if it is an ordinary refusal. A server may
    /// ask for more scopes with 401, too.
    pub fn need(status: u16, challenge: Option<&Challenge>) -> Option<Need> {
        let asks_scope =
            challenge.and_then(|known| known.error.as_deref()) == Some("insufficient_scope");
        match status {
            401 | 403 if asks_scope => Some(Need::MoreScope),
            401 => Some(Need::Token),
            _ => None,
        }
    }
}

fn is_word(code: &str) -> bool {
    code.len() <= 64
        && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

type Parsed = (String, Vec<(String, String)>);

/// The challenges of one header value. Unreadable parts are skipped.
fn challenges(value: &str) -> Vec<Parsed> {
    let mut all: Vec<Parsed> = Vec::new();
    let mut rest = value;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            // Not a token: skip one character, so that the loop ends.
            let mut chars = rest.chars();
            if chars.next().is_none() {
                return all;
            }
            rest = chars.as_str();
            continue;
        }
        rest = after;
        match after.trim_start_matches([' ', '\t']).strip_prefix('=') {
            Some(tail) => {
                let (text, tail) = param_value(tail.trim_start_matches([' ', '\t']));
                rest = tail;
                if let Some((_, params)) = all.last_mut() {
                    params.push((word.to_owned(), text));
                }
            }
            None => all.push((word.to_owned(), Vec::new())),
        }
    }
}

/// A token or a quoted string, and what follows.
fn param_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return (value, chars.as_str()),
            '\\' => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    (value, "")
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<(Option<String>, String, Option<String>)> {
        let found = Challenge::of([value])?;
        Some((found.error, found.scopes.join(" "), found.resource_metadata))
    }

    #[test]
    fn a_bearer_challenge_is_read_in_every_form() {
        let some = |text: &str| Some(text.to_owned());
        for (value, expected) in [
            ("Bearer", Some((None, "", None))),
            ("bearer realm=\"x\"", Some((None, "", None))),
            (
                "Bearer error=\"invalid_token\", scope=\"a b\", resource_metadata=\"https://s.example/x\"",
                Some((some("invalid_token"), "a b", some("https://s.example/x"))),
            ),
            (
                "Bearer resource_metadata=https://s.example/x, error=insufficient_scope",
                Some((some("insufficient_scope"), "", some("https://s.example/x"))),
            ),
            ("Basic realm=\"a, b\", Bearer scope=\"c\"", Some((None, "c", None))),
            ("Digest qop=\"auth\", nonce=\"Bearer scope=\\\"x\\\"\"", None),
            ("Bearer scope = \"c d\" ,error= \"x\"", Some((some("x"), "c d", None))),
            ("Bearer error=\"two words\"", Some((None, "", None))),
            ("Bearer scope=\"a\\\"b\"", Some((None, "a\"b", None))),
            ("Bearer scope=\"open", Some((None, "open", None))),
            ("DPoP algs=\"ES256\"", None),
            ("", None),
            ("=,\"\u{7f}", None),
        ] {
            let expected = expected.map(|(error, scope, at)| (error, scope.to_owned(), at));
            assert_eq!(of(value), expected, "{value}");
        }
    }

    #[test]
    fn the_bearer_challenge_may_be_in_a_second_header() {
        let found = Challenge::of(["Basic realm=\"x\"", "Bearer scope=\"a\""]);
        assert_eq!(found.map(|found| found.scopes), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn a_status_and_a_challenge_say_what_is_needed() {
        let with =
            |error: &str| Challenge { error: Some(error.to_owned()), ..Challenge::default() };
        for (status, challenge, expected) in [
            (401, None, Some(Need::Token)),
            (401, Some(with("invalid_token")), Some(Need::Token)),
            (401, Some(with("insufficient_scope")), Some(Need::MoreScope)),
            (403, Some(with("insufficient_scope")), Some(Need::MoreScope)),
            (403, Some(with("invalid_token")), None),
            (403, None, None),
            (500, Some(with("insufficient_scope")), None),
        ] {
            assert_eq!(
                Challenge::need(status, challenge.as_ref()),
                expected,
                "{status} {challenge:?}"
            );
        }
    }
}

//! Which scopes to request: the least that the server names, and never more without the owner.

/// Requested for a refresh token where the authorization server offers it.
const OFFLINE: &str = "offline_access";

/// The scopes in a space-separated list.
pub fn split_scopes(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace().filter(|word| is_scope(word)) {
        if !all.iter().any(|known| known == word) {
            all.push(word.to_owned());
        }
    }
    all
}

/// RFC 6749 3.3: printable ASCII without space, quote and backslash. Quotes do occur in the field.
fn is_scope(word: &str) -> bool {
    word.len() <= 256 && word.bytes().all(|b| b.is_ascii_graphic())
}

/// Where scopes can come from, in the order of preference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// What the owner named.
    pub named: &'a [String],
    /// The challenge of the server.
    pub challenged: &'a [String],
    /// `scopes_supported` of the protected resource.
    pub resource: Option<&'a [String]>,
    /// `scopes_supported` of the authorization server. Used only if this server refuses a request without
    /// scopes.
    pub issuer: Option<&'a [String]>,
    /// Whether the server is known to refuse a request without scopes.
    pub is_required: bool,
}

/// The scopes to request; empty if the parameter is left out.
pub fn select(sources: &Sources<'_>) -> Vec<String> {
    let fallback = sources.issuer.filter(|_| sources.is_required);
    let lists = [Some(sources.named), Some(sources.challenged), sources.resource, fallback];
    let chosen = lists.into_iter().flatten().find(|list| !list.is_empty()).unwrap_or_default();
    let mut scopes = split_scopes(&chosen.join(" "));
    let is_offered = sources.issuer.is_some_and(|list| list.iter().any(|scope| scope == OFFLINE));
    if !scopes.is_empty() && is_offered && sources.named.is_empty() {
        scopes = union(&scopes, &[OFFLINE.to_owned()]);
    }
    scopes
}

/// Both lists, each scope once: a step-up keeps what was granted.
pub fn union(granted: &[String], challenged: &[String]) -> Vec<String> {
    let mut all = granted.to_vec();
    for scope in challenged {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

/// The challenged scopes that were not granted.
pub fn missing(granted: &[String], challenged: &[String]) -> Vec<String> {
    challenged.iter().filter(|scope| !granted.contains(scope)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_come_from_the_most_specific_source() {
        let lists = |text: &str| split_scopes(text);
        for (named, challenged, resource, issuer, is_required, expected) in [
            ("", "", None, None, false, ""),
            ("", "c", Some("r"), Some("i"), false, "c"),
            ("", "", Some("r s"), Some("i"), false, "r s"),
            ("n", "c", Some("r"), None, false, "n"),
            ("", "", Some(""), Some("i"), false, ""),
            ("", "", None, Some("i"), true, "i"),
            ("", "c", None, Some("c offline_access"), false, "c offline_access"),
            ("", "c offline_access", None, Some("offline_access"), false, "c offline_access"),
            ("n", "", None, Some("offline_access"), false, "n"),
            ("", "", None, Some("offline_access"), false, ""),
            ("", "c c", None, None, false, "c"),
        ] {
            let (named, challenged) = (lists(named), lists(challenged));
            let (resource, issuer) = (resource.map(lists), issuer.map(lists));
            let sources = Sources {
                named: &named,
                challenged: &challenged,
                resource: resource.as_deref(),
                issuer: issuer.as_deref(),
                is_required,
            };
            assert_eq!(select(&sources).join(" "), expected, "{sources:?}");
        }
    }

    #[test]
    fn rule_16_a_step_up_asks_for_the_union() {
        let (granted, challenged) = (split_scopes("read"), split_scopes("write read admin"));
        assert_eq!(union(&granted, &challenged), ["read", "write", "admin"]);
        assert_eq!(missing(&granted, &challenged), ["write", "admin"]);
    }

    #[test]
    fn a_scope_with_a_line_break_is_dropped() {
        assert_eq!(split_scopes("a\nb \u{e9} c"), ["a", "b", "c"]);
    }
}

//! `[oidc]`: the issuer where people of a team sign in to the dashboard, and whom it admits with which role.

use std::collections::BTreeMap;

use oauth::client::address::{self, Network};
use serde_json::Value;
use url::Url;

use super::problem::Problems;
use super::reference::ExternalValues;
use super::section::{Field, Section, listed};
use crate::registry::Role;
use crate::secret::Secret;

/// Where a browser returns from the issuer.
pub const CALLBACK_PATH: &str = "/sign-in/oidc/callback";

const KEYS: &[&str] =
    &["issuer", "client_id", "client_secret", "label", "redirect_uri", "scopes", "roles"];
const ROLE_KEYS: &[&str] = &["emails", "domains", "claims"];
const WORD_BYTES_MAX: usize = 2048;
const LABEL_CHARS_MAX: usize = 40;
const SCOPES_MAX: usize = 32;
/// The issuer asks the person for these; `scopes` adds to them.
const SCOPES: [&str; 2] = ["openid", "email"];

/// The team's issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// Compared byte for byte with what the issuer says of itself.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client: PKCE protects the code in either case.
    pub client_secret: Option<Secret>,
    /// The name of the issuer on the sign-in page.
    pub label: String,
    pub redirect_uri: Option<String>,
    pub scopes: Vec<String>,
    /// Whom the mapping admits, by the role.
    pub roles: Vec<(Role, Admitted)>,
}

/// Identities that get a role. One match is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    pub emails: Vec<String>,
    pub domains: Vec<String>,
    /// Values by the name of a claim.
    pub claims: BTreeMap<String, Vec<String>>,
}

impl OidcSettings {
    /// Whether the issuer may be on this machine or in a private network.
    pub fn network(&self) -> Network {
        let url = Url::parse(&self.issuer).ok();
        let is_public = url.is_some_and(|url| address::check(&url, Network::Public).is_ok());
        if is_public { Network::Public } else { Network::Private }
    }

    /// The strongest role that the mapping gives to these claims. Nothing admits by default.
    pub fn role_of(&self, claims: &Value) -> Option<Role> {
        let email = verified_email(claims);
        let matching = |admitted: &Admitted| admitted.is_match(email.as_deref(), claims);
        let roles = self.roles.iter().filter(|(_, admitted)| matching(admitted));
        let given: Vec<Role> = roles.map(|(role, _)| *role).collect();
        Role::ALL.into_iter().find(|role| given.contains(role))
    }
}

impl Admitted {
    fn is_match(&self, email: Option<&str>, claims: &Value) -> bool {
        let is_email = email.is_some_and(|email| {
            let domain = email.rsplit_once('@').map(|(_, domain)| domain);
            self.emails.iter().any(|one| one == email)
                || self.domains.iter().any(|one| Some(one.as_str()) == domain)
        });
        let has = |(name, wanted): (&String, &Vec<String>)| match claims.get(name) {
            Some(Value::String(one)) => wanted.contains(one),
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).any(|one| wanted.iter().any(|w| w == one))
            }
            _ => false,
        };
        is_email || self.claims.iter().any(has)
    }
}

/// The e-mail of these claims in lower case, if the issuer says that it verified it.
pub fn verified_email(claims: &Value) -> Option<String> {
    let is_verified = claims.get("email_verified").and_then(Value::as_bool) == Some(true);
    let email = claims.get("email").and_then(Value::as_str).filter(|_| is_verified)?;
    Some(email.to_ascii_lowercase())
}

pub(super) fn read(
    root: &Section<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<OidcSettings> {
    let section = root.field("oidc")?.section(KEYS, problems)?;
    let secret = section.field("client_secret");
    let client_secret = secret.and_then(|field| outside.secret(&field, problems));
    let (issuer, client_id) = (issuer(&section, problems), word(&section, "client_id", problems));
    for (key, value) in [("issuer", issuer.is_some()), ("client_id", client_id.is_some())] {
        if !value && section.field(key).is_none() {
            problems.add(&section.span, format!("`{}` needs `{key}`", section.path));
        }
    }
    let label = word(&section, "label", problems);
    if label.as_ref().is_some_and(|label| label.chars().count() > LABEL_CHARS_MAX) {
        let message = format!("`oidc.label` must have {LABEL_CHARS_MAX} characters at most");
        problems.add(&section.span, message);
    }
    let issuer = issuer?;
    let host = Url::parse(&issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
    Some(OidcSettings {
        label: label.or(host).unwrap_or_default(),
        issuer,
        client_id: client_id?,
        client_secret,
        redirect_uri: redirect_uri(&section, problems),
        scopes: scopes(&section, problems),
        roles: roles(&section, problems),
    })
}

fn issuer(section: &Section<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let (text, field) = section.text("issuer", problems)?;
    match address::parse(text, Network::Private) {
        Ok(url) if url.query().is_none() => Some(text.to_owned()),
        Ok(_) => {
            field.wrong("an address without a query", problems);
            None
        }
        Err(why) => {
            field.wrong(&format!("an address such as `https://id.example`: {why}"), problems);
            None
        }
    }
}

fn redirect_uri(section: &Section<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let (text, field) = section.text("redirect_uri", problems)?;
    let fits = address::parse(text, Network::Private)
        .is_ok_and(|url| url.path() == CALLBACK_PATH && url.query().is_none());
    if !fits {
        let message = format!("an address of this gate that ends with `{CALLBACK_PATH}`");
        field.wrong(&message, problems);
        return None;
    }
    Some(text.to_owned())
}

fn scopes(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let mut all: Vec<String> = SCOPES.map(str::to_owned).to_vec();
    let Some(field) = section.field("scopes") else { return all };
    for (text, item) in field.texts(problems) {
        let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        if text.is_empty() || !text.chars().all(fits) {
            item.wrong("the name of a scope, such as `groups`", problems);
        } else if !all.iter().any(|known| known == text) {
            all.push(text.to_owned());
        }
    }
    if all.len() > SCOPES_MAX {
        field.wrong(&format!("{SCOPES_MAX} scopes at most"), problems);
    }
    all
}

fn roles(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<(Role, Admitted)> {
    let mut roles = Vec::new();
    for entry in section.entries("roles", problems) {
        let Some(role) = Role::parse(entry.name) else {
            let known = Role::ALL.map(Role::as_str);
            let message = format!("a role is one of {}", listed(&known));
            problems.add(&entry.name_span, message);
            continue;
        };
        if let Some(section) = entry.field.section(ROLE_KEYS, problems) {
            roles.push((role, admitted(&section, problems)));
        }
    }
    roles
}

fn admitted(section: &Section<'_>, problems: &mut Problems<'_>) -> Admitted {
    let mut admitted = Admitted::default();
    for (text, item) in section.field("emails").map_or_else(Vec::new, |f| f.texts(problems)) {
        let is_email = text
            .split_once('@')
            .is_some_and(|(user, domain)| !user.is_empty() && is_domain(domain));
        if is_email {
            admitted.emails.push(text.to_ascii_lowercase());
        } else {
            item.wrong("an e-mail address, such as `ann@example.com`", problems);
        }
    }
    for (text, item) in section.field("domains").map_or_else(Vec::new, |f| f.texts(problems)) {
        if is_domain(text) {
            admitted.domains.push(text.to_ascii_lowercase());
        } else {
            item.wrong("a domain, such as `example.com`", problems);
        }
    }
    for entry in section.entries("claims", problems) {
        let values = claim_values(&entry.field, problems);
        admitted.claims.insert(entry.name.to_owned(), values);
    }
    if admitted == Admitted::default() {
        problems.add(&section.span, format!("`{}` admits no identity", section.path));
    }
    admitted
}

fn claim_values(field: &Field<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let texts = field.texts(problems);
    let is_empty = |text: &str| text.is_empty() || text.len() > WORD_BYTES_MAX;
    if texts.is_empty() || texts.iter().any(|(text, _)| is_empty(text)) {
        field.wrong("a list of values, such as `[\"staff\"]`", problems);
    }
    texts.into_iter().map(|(text, _)| text.to_owned()).collect()
}

/// Names with a dot between them, without a wildcard.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    text.len() <= 253 && text.contains('.') && text.split('.').all(is_label)
}

fn word(section: &Section<'_>, key: &str, problems: &mut Problems<'_>) -> Option<String> {
    let (text, field) = section.text(key, problems)?;
    if text.is_empty() || text.len() > WORD_BYTES_MAX || text.chars().any(char::is_control) {
        field.wrong(&format!("a text of 1 to {WORD_BYTES_MAX} characters"), problems);
        return None;
    }
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> OidcSettings {
        let emails = Admitted { emails: vec!["ann@example.com".into()], ..Admitted::default() };
        let domains = Admitted { domains: vec!["example.com".into()], ..Admitted::default() };
        let claims = [("groups".to_owned(), vec!["audit".to_owned(), "law".to_owned()])];
        let groups = Admitted { claims: claims.into(), ..Admitted::default() };
        OidcSettings {
            issuer: "https://id.example".into(),
            client_id: "gate".into(),
            client_secret: None,
            label: "Example".into(),
            redirect_uri: None,
            scopes: Vec::new(),
            roles: vec![(Role::Viewer, domains), (Role::Auditor, groups), (Role::Admin, emails)],
        }
    }

    #[test]
    fn the_strongest_matching_role_is_given_and_none_by_default() {
        let verified = |email: &str| json!({ "email": email, "email_verified": true });
        let table = [
            (verified("ann@example.com"), Some(Role::Admin)),
            (verified("Ann@Example.com"), Some(Role::Admin)),
            (verified("bob@example.com"), Some(Role::Viewer)),
            (verified("bob@example.com.evil.example"), None),
            (verified("bob@sub.example.com"), None),
            (verified("bob@evil@example.com"), Some(Role::Viewer)),
            (json!({ "email": "ann@example.com" }), None),
            (json!({ "email": "ann@example.com", "email_verified": false }), None),
            (json!({ "email": "ann@example.com", "email_verified": "true" }), None),
            (json!({ "groups": ["law"] }), Some(Role::Auditor)),
            (json!({ "groups": "audit" }), Some(Role::Auditor)),
            (json!({ "groups": ["lawyers", 7, null] }), None),
            (json!({ "groups": { "audit": true } }), None),
            (json!({}), None),
        ];
        for (claims, expected) in table {
            assert_eq!(settings().role_of(&claims), expected, "{claims}");
        }
    }

    #[test]
    fn an_issuer_on_this_machine_is_private() {
        for (issuer, network) in [
            ("https://id.example", Network::Public),
            ("http://127.0.0.1:9000", Network::Private),
            ("https://10.0.0.7/tenant", Network::Private),
        ] {
            let settings = OidcSettings { issuer: issuer.into(), ..settings() };
            assert_eq!(settings.network(), network, "{issuer}");
        }
    }
}

//! `[services.NAME]`: how the owner's account at a service is synced and shown.

use super::notice_rule::NoticeRule;
use super::problem::Problems;
use super::reference::ExternalValues;
use super::section::{NamedField, Section};
use crate::registry::ObjectKind;
use crate::registry::names::check_name;
use crate::secret::Secret;

const KEYS: &[&str] = &[
    "tools",
    "sync_interval_minutes",
    "webhook",
    "api_base_url",
    "oauth_base_url",
    "client_id",
    "client_secret",
    "redirect_uri",
    "exports",
    "notices",
];

/// The default interval of syncs of a connected account.
pub const SYNC_INTERVAL_MINUTES_DEFAULT: u64 = 30;
const SYNC_INTERVAL_MINUTES_MAX: u64 = 7 * 24 * 60;
const TOOL_SETS_MAX: usize = 64;
const NOTICES_MAX: usize = 64;
const WORD_BYTES_MAX: usize = 2048;

/// One service of the file, with defaults for what it does not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Tool sets or single tools that are shown unless a server says otherwise.
    pub tools: Vec<String>,
    /// Between two syncs of a running gate; zero turns them off.
    pub sync_interval_minutes: u64,
    /// Whether the gate accepts the service's webhooks at `/hooks/NAME`.
    pub webhook: bool,
    pub api_base_url: Option<String>,
    pub oauth_base_url: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub redirect_uri: Option<String>,
    /// A folder that agents may export to, besides the one in the home; may begin with `~/`.
    pub exports: Option<String>,
    /// When a metric of the account is a notice.
    pub notices: Vec<NoticeRule>,
}

impl Default for ServiceSettings {
    fn default() -> ServiceSettings {
        ServiceSettings {
            tools: Vec::new(),
            sync_interval_minutes: SYNC_INTERVAL_MINUTES_DEFAULT,
            webhook: false,
            api_base_url: None,
            oauth_base_url: None,
            client_id: None,
            client_secret: None,
            redirect_uri: None,
            exports: None,
            notices: Vec::new(),
        }
    }
}

pub(super) fn read(
    entry: &NamedField<'_>,
    outside: &mut ExternalValues<'_>,
    problems: &mut Problems<'_>,
) -> Option<ServiceSettings> {
    if let Err(e) = check_name(ObjectKind::Server, entry.name) {
        problems.error(&entry.name_span, &e);
    }
    let section = entry.field.section(KEYS, problems)?;
    let range = (0, SYNC_INTERVAL_MINUTES_MAX);
    let minutes = section.integer("sync_interval_minutes", range, problems);
    let secret = section.field("client_secret");
    Some(ServiceSettings {
        tools: tool_sets(&section, problems),
        sync_interval_minutes: minutes.unwrap_or(SYNC_INTERVAL_MINUTES_DEFAULT),
        webhook: section.flag("webhook", problems).unwrap_or(false),
        api_base_url: word(&section, "api_base_url", problems),
        oauth_base_url: word(&section, "oauth_base_url", problems),
        client_id: word(&section, "client_id", problems),
        client_secret: secret.and_then(|field| outside.secret(&field, problems)),
        redirect_uri: word(&section, "redirect_uri", problems),
        exports: folder(&section, "exports", problems),
        notices: notices(&section, problems),
    })
}

/// The names of tool sets or tools. The connectors know which exist.
pub(super) fn tool_sets(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<String> {
    let Some(field) = section.field("tools") else { return Vec::new() };
    let mut sets = Vec::new();
    for (text, item) in field.texts(problems) {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if text.is_empty() || text.len() > 128 || !text.chars().all(fits) {
            item.wrong("the name of a set of tools or of a tool, such as `main`", problems);
        } else {
            sets.push(text.to_owned());
        }
    }
    if sets.len() > TOOL_SETS_MAX {
        field.wrong(&format!("{TOOL_SETS_MAX} names at most"), problems);
    }
    sets
}

fn notices(section: &Section<'_>, problems: &mut Problems<'_>) -> Vec<NoticeRule> {
    let Some(field) = section.field("notices") else { return Vec::new() };
    let mut rules = Vec::new();
    for (text, item) in field.texts(problems) {
        match text.parse() {
            Ok(rule) => rules.push(rule),
            Err(_) => item.wrong(
                "a rule such as `hrv below for 3 days` (below, above or outside; 1 to 30 days)",
                problems,
            ),
        }
    }
    if rules.len() > NOTICES_MAX {
        field.wrong(&format!("{NOTICES_MAX} rules at most"), problems);
    }
    rules
}

/// A folder that does not depend on the working directory.
fn folder(section: &Section<'_>, key: &str, problems: &mut Problems<'_>) -> Option<String> {
    let text = word(section, key, problems)?;
    if text.starts_with('/') || text == "~" || text.starts_with("~/") {
        return Some(text);
    }
    let (_, field) = section.text(key, problems)?;
    field.wrong("an absolute folder, or one that begins with `~/`", problems);
    None
}

fn word(section: &Section<'_>, key: &str, problems: &mut Problems<'_>) -> Option<String> {
    let (text, field) = section.text(key, problems)?;
    if text.is_empty() || text.len() > WORD_BYTES_MAX || text.chars().any(char::is_control) {
        field.wrong(&format!("a text of 1 to {WORD_BYTES_MAX} characters"), problems);
        return None;
    }
    Some(text.to_owned())
}

//! Facts about a tool that attack patterns need and the category does not cover.

use super::features::Feature;
use super::tool::ParsedTool;

/// Words of the name in base form, and two facts from the features.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// Base form and the word as written.
    words: Vec<(String, String)>,
    /// The words that show that the tool issues or renews credentials.
    pub(crate) issues_credential: Option<String>,
    /// The words that show that the tool can send any request.
    pub(crate) raw_request: Option<String>,
}

impl Traits {
    /// The first word of the name that is one of these.
    pub(crate) fn name_word(&self, words: &[&str]) -> Option<String> {
        let found = self.words.iter().find(|(base, _)| words.contains(&base.as_str()));
        found.map(|(_, written)| written.clone())
    }
}

pub(super) fn traits(tool: &ParsedTool, features: &[Feature]) -> Traits {
    let words_of = |ids: &[&str]| {
        features
            .iter()
            .find(|f| ids.contains(&f.id.as_str()))
            .map(|f| super::evidence::quote(&f.text))
    };
    Traits {
        words: tool.name_words.iter().map(|w| (w.base.clone(), w.raw.clone())).collect(),
        issues_credential: words_of(&["issues.credential"]),
        raw_request: words_of(&["shape=http", "cue=raw_request"]),
    }
}

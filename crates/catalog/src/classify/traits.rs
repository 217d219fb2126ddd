//! Small facts about a tool that no category tells, for attack patterns.

use super::features::Feature;
use super::tool::Tool;

/// Words of the name in their base form, and two facts the features found.
#[derive(Clone, Debug, Default)]
pub struct Traits {
    /// Base form and the word as written.
    words: Vec<(String, String)>,
    /// The words that show that credentials are issued or renewed.
    pub(crate) issues_credential: Option<String>,
    /// The words that show that any request can be made.
    pub(crate) raw_request: Option<String>,
}

impl Traits {
    /// The first word of the name that is one of these.
    pub(crate) fn name_word(&self, words: &[&str]) -> Option<String> {
        let found = self.words.iter().find(|(base, _)| words.contains(&base.as_str()));
        found.map(|(_, written)| written.clone())
    }
}

pub(super) fn traits(tool: &Tool, features: &[Feature]) -> Traits {
    let said = |ids: &[&str]| {
        features
            .iter()
            .find(|f| ids.contains(&f.id.as_str()))
            .map(|f| super::evidence::quote(&f.words))
    };
    Traits {
        words: tool.name_words.iter().map(|w| (w.base.clone(), w.raw.clone())).collect(),
        issues_credential: said(&["issues.credential"]),
        raw_request: said(&["shape=http", "cue=raw_request"]),
    }
}

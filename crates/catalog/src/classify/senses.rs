//! Words with two senses. `subscription` is an obligation to pay, but not next to `webhook`; `position`
//! is a trade, but not next to `cursor`. A companion word nearby selects the sense without money.

use super::lexicon::{Action, Topic, Verb, topics, verb};
use super::text::Word;

/// Words searched on either side of a word.
const NEAR_WORDS: usize = 4;

/// The word, and the companions that show its other sense. All in base form.
const OTHER_SENSES: &[(&str, &str)] = &[
    (
        "subscription",
        "webhook event topic notification pubsub mailing newsletter alert azure push stream channel \
         calendar feed graph resource reauthorize email queue sns mqtt websocket listener change eventgrid",
    ),
    ("order", "sort asc desc ascending descending display by column reorder z layer"),
    (
        "transaction",
        "database db sql begin commit rollback trace span performance apm isolation savepoint graph cypher",
    ),
    (
        "transfer",
        "file ownership domain repository repo issue project workspace folder call chat data owner \
         agent conversation collection element request response app ticket phone",
    ),
    (
        "position",
        "cursor element node layer card x y z column row camera rank line character object window \
         shape text mouse scroll item file offset",
    ),
    ("pool", "connection thread node agent worker user identity device build runner"),
    ("checkout", "git branch repository commit worktree code item file revision"),
    ("vault", "secret key obsidian note file markdown hashicorp backup"),
    ("balance", "load balancer"),
    ("margin", "css page style layout document cell pdf"),
    ("exchange", "code token oauth rabbitmq queue outlook microsoft mail email authorization"),
    ("stock", "photo image video footage"),
    ("charge", "battery vehicle car ev charging station"),
    ("journal", "diary daily note mood systemd logseq"),
    ("quote", "text message string escape reply tweet citation reply"),
    ("claim", "domain task ticket jwt token identity custom username work job"),
    ("bridge", "network zigbee hue home device interface"),
    ("wrap", "text line code function paragraph html"),
    ("swap", "element image word memory file node partition layer column position tab"),
    ("trade", "mark license"),
    ("supply", "chain"),
    ("credit", "author image photo"),
    ("fund", "raising"),
    ("stake", "holder"),
    ("token", "usage count"),
];

/// The topics of the word at `at`, without the senses that its companions rule out.
pub(super) fn topics_at(words: &[Word], at: usize) -> impl Iterator<Item = Topic> {
    let base = words.get(at).map_or("", |w| w.base.as_str());
    let found = topics(base);
    let other = found.iter().any(|t| is_money(*t)) && has_other_sense(words, at);
    found.iter().copied().filter(move |t| !(other && is_money(*t)))
}

/// Verbs with another action next to these companions.
const OTHER_ACTS: &[(&str, &str, Action)] = &[
    ("drop", "browser element drag dragged onto mime target mouse page", Action::Drive),
    ("trim", "video audio clip text string whitespace image", Action::Write),
    ("clear", "browser element field input form", Action::Drive),
    ("open", "node note graph knowledge entity memory record document", Action::Read),
];

/// The verb at `at`. A money verb next to a companion moves no money.
pub(super) fn verb_at(words: &[Word], at: usize) -> Option<Verb> {
    let found = verb(&words.get(at)?.base)?;
    if found.act == Action::Money && has_other_sense(words, at) {
        return Some(Verb { act: Action::Mixed, ..found });
    }
    let base = words.get(at).map_or("", |w| w.base.as_str());
    let other = OTHER_ACTS.iter().find(|(known, _, _)| *known == base);
    match other.filter(|(_, companions, _)| is_near(words, at, companions)) {
        Some((_, _, act)) => Some(Verb { act: *act, ..found }),
        None => Some(found),
    }
}

fn is_money(thing: Topic) -> bool {
    matches!(thing, Topic::Obligation | Topic::Money)
}

fn has_other_sense(words: &[Word], at: usize) -> bool {
    let Some(word) = words.get(at) else { return false };
    let Some((_, companions)) = OTHER_SENSES.iter().find(|(known, _)| *known == word.base) else {
        return false;
    };
    is_near(words, at, companions)
}

/// Whether one of the companions is a few words before or after `at`.
fn is_near(words: &[Word], at: usize, companions: &str) -> bool {
    let from = at.saturating_sub(NEAR_WORDS);
    let near = words.get(from..).unwrap_or(&[]).iter().take(at - from + NEAR_WORDS + 1);
    let mut others = near.enumerate().filter(|(position, _)| from + position != at);
    others.any(|(_, w)| companions.split_whitespace().any(|c| c == w.base))
}

#[cfg(test)]
mod tests {
    use super::super::lexicon::{Action, Topic};
    use super::super::text::name_words;
    use super::{topics_at, verb_at};

    #[test]
    fn a_companion_selects_the_sense_without_money() {
        for (name, at, is_obligation) in [
            ("create_subscription", 1, true),
            ("create_webhook_subscription", 2, false),
            ("place_order", 1, true),
            ("sort_order", 1, false),
            ("transfer_ownership", 0, false),
            ("transfer_funds", 0, true),
            ("get_cursor_position", 2, false),
            ("close_position", 1, true),
        ] {
            let words = name_words(name);
            let found = topics_at(&words, at).any(|t| t == Topic::Obligation);
            assert_eq!(found, is_obligation, "{name}");
        }
        let words = name_words("git_checkout_branch");
        assert_eq!(verb_at(&words, 1).map(|v| v.act), Some(Action::Mixed));
        for (name, act) in [("browser_drop", Action::Drive), ("table_drop", Action::Destroy)] {
            let words = name_words(name);
            assert_eq!(verb_at(&words, 1).map(|v| v.act), Some(act), "{name}");
        }
    }
}

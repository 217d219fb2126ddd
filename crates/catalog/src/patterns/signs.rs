//! Collects the signs of a tool for pattern matching: category, risk, signals, poisoned text, and
//! behaviors read from its name.

use super::{Behavior, Sign};
use crate::classify::{Category, Classification, Traits};
use crate::poison::Poison;

/// One sign that a tool has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSign {
    pub sign: Sign,
    /// Ready to print.
    pub message: String,
    /// The parameter that has it.
    pub parameter: Option<String>,
}

/// All signs of a tool.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    seen: Vec<ObservedSign>,
}

impl Facts {
    pub fn of(class: &Classification, traits: &Traits, poison: &Poison) -> Self {
        let mut facts = Self::default();
        facts.add(Sign::Is(class.category), format!("is {}", class.category), None);
        for risk in crate::classify::Risk::ALL.into_iter().filter(|risk| *risk <= class.risk) {
            facts.add(Sign::AtLeast(risk), format!("its risk is {}", class.risk), None);
        }
        for signal in &class.signals {
            let message = format!("{} ({})", signal.kind.describe(), signal.location);
            facts.add(Sign::Signal(signal.kind), message.clone(), signal.parameter.clone());
            if signal.parameter.is_some() {
                facts.add(Sign::Takes(signal.kind), message, signal.parameter.clone());
            }
        }
        for claim in &class.contradictions {
            let message = format!("claims `{}`, but {}", claim.claim, claim.finding);
            facts.add(Sign::Contradicted, message, None);
        }
        if poison.is_reported() {
            facts.poison(poison);
        }
        facts.behaviors(class, traits);
        facts
    }

    /// The tool differs from its pin.
    pub fn add_drift(&mut self, message: String) {
        self.add(Sign::Drifted, message, None);
    }

    /// Another tool has nearly the same name.
    pub fn add_look_alike(&mut self, message: String) {
        self.add(Sign::LooksLikeAnother, message, None);
    }

    fn add(&mut self, sign: Sign, message: String, parameter: Option<String>) {
        self.seen.push(ObservedSign { sign, message, parameter });
    }

    fn poison(&mut self, poison: &Poison) {
        let first = poison.findings.first();
        let message =
            first.map(|f| format!("its definition {} ({})", f.kind.describe(), f.location));
        self.add(Sign::Poisoned, message.unwrap_or_default(), None);
        for finding in &poison.findings {
            let message =
                format!("its definition {} ({})", finding.kind.describe(), finding.location);
            self.add(Sign::Poison(finding.kind), message, None);
        }
    }

    fn behaviors(&mut self, class: &Classification, traits: &Traits) {
        for behavior in Behavior::ALL {
            if !is_possible(behavior, class.category) {
                continue;
            }
            if let Some(word) = matching_word(behavior, traits) {
                self.add(
                    Sign::Does(behavior),
                    format!("{} (\"{word}\")", behavior.describe()),
                    None,
                );
            }
        }
    }

    /// The observed signs for a set, if the tool has all of them.
    pub(super) fn all(&self, signs: &[Sign]) -> Option<Vec<&ObservedSign>> {
        signs.iter().map(|sign| self.seen.iter().find(|s| s.sign == *sign)).collect()
    }
}

/// Which categories can have a behavior: a tool that only reads does not send, grant or install.
fn is_possible(behavior: Behavior, category: Category) -> bool {
    match behavior {
        Behavior::ReadsStrangers | Behavior::Exports => category == Category::Read,
        Behavior::IssuesCredentials => true,
        Behavior::StartsWork | Behavior::Drives => category == Category::Execute,
        Behavior::RawRequest => category != Category::Read,
        Behavior::Remembers => category == Category::Write,
        Behavior::Uploads => category != Category::Read && category != Category::Destructive,
        Behavior::Sends | Behavior::GrantsAccess | Behavior::Installs | Behavior::Signs => {
            category != Category::Read && category != Category::Destructive
        }
    }
}

/// Words of a name that show a behavior, in base form.
const BEHAVIOR_WORDS: &[(Behavior, &str)] = &[
    (
        Behavior::Sends,
        "send post publish broadcast reply forward tweet comment message email mail notify invite share dm sms respond",
    ),
    (
        Behavior::ReadsStrangers,
        "issue comment email mail message thread page web url tweet post review ticket inbox channel fetch scrape crawl browse article feed pull discussion conversation document search video transcript attachment file news website chat",
    ),
    (
        Behavior::Remembers,
        "memory remember note knowledge entity observation fact lesson preference memo recall insight",
    ),
    (
        Behavior::GrantsAccess,
        "grant invite share permission role collaborator member access acl policy iam admin owner visibility public privilege",
    ),
    (
        Behavior::Installs,
        "install plugin extension package dependency addon upgrade import module marketplace",
    ),
    (
        Behavior::StartsWork,
        "run start launch deploy trigger spawn job workflow build crawl train generate invoke scale instance actor pipeline dispatch",
    ),
    (
        Behavior::Drives,
        "click type navigate browser fill press tap swipe scroll drag hover select page mouse keyboard screen form tab",
    ),
    (Behavior::Exports, "export dump download backup all bulk batch archive history"),
    (Behavior::Uploads, "upload attach attachment"),
    (Behavior::Signs, "sign approve merge accept submit authorize confirm certify release publish"),
];

fn matching_word(behavior: Behavior, traits: &Traits) -> Option<String> {
    match behavior {
        Behavior::IssuesCredentials => traits.issues_credential.clone(),
        Behavior::RawRequest => traits.raw_request.clone(),
        _ => {
            let (_, message) = BEHAVIOR_WORDS.iter().find(|(known, _)| *known == behavior)?;
            traits.name_word(&message.split(' ').collect::<Vec<_>>())
        }
    }
}

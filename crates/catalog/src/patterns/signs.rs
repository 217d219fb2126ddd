//! What is true of a tool, for matching patterns: its class, its signals, its poison, and habits read
//! from its words.

use super::{Habit, Sign};
use crate::classify::{Category, Classification, Traits};
use crate::poison::Poison;

/// One sign that a tool shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub sign: Sign,
    /// Ready to print.
    pub words: String,
    /// The parameter that shows it.
    pub parameter: Option<String>,
}

/// Everything a pattern may ask about a tool.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    seen: Vec<Sighting>,
}

impl Facts {
    pub fn of(class: &Classification, traits: &Traits, poison: &Poison) -> Self {
        let mut facts = Self::default();
        facts.add(Sign::Is(class.category), format!("is {}", class.category), None);
        for risk in crate::classify::Risk::ALL.into_iter().filter(|risk| *risk <= class.risk) {
            facts.add(Sign::AtLeast(risk), format!("its risk is {}", class.risk), None);
        }
        for signal in &class.signals {
            let words = format!("{} ({})", signal.kind.words(), signal.place);
            facts.add(Sign::Signal(signal.kind), words.clone(), signal.parameter.clone());
            if signal.parameter.is_some() {
                facts.add(Sign::Takes(signal.kind), words, signal.parameter.clone());
            }
        }
        for claim in &class.contradictions {
            let words = format!("claims `{}`, but {}", claim.claim, claim.finding);
            facts.add(Sign::Contradicted, words, None);
        }
        if poison.is_reported() {
            facts.poison(poison);
        }
        facts.habits(class, traits);
        facts
    }

    /// A tool that is not what was pinned.
    pub fn add_drift(&mut self, words: String) {
        self.add(Sign::Drifted, words, None);
    }

    /// A tool with a double.
    pub fn add_look_alike(&mut self, words: String) {
        self.add(Sign::LooksLikeAnother, words, None);
    }

    fn add(&mut self, sign: Sign, words: String, parameter: Option<String>) {
        self.seen.push(Sighting { sign, words, parameter });
    }

    fn poison(&mut self, poison: &Poison) {
        let first = poison.findings.first();
        let words = first.map(|f| format!("its definition {} ({})", f.kind.words(), f.place));
        self.add(Sign::Poisoned, words.unwrap_or_default(), None);
        for finding in &poison.findings {
            let words = format!("its definition {} ({})", finding.kind.words(), finding.place);
            self.add(Sign::Poison(finding.kind), words, None);
        }
    }

    fn habits(&mut self, class: &Classification, traits: &Traits) {
        for habit in Habit::ALL {
            if !may(habit, class.category) {
                continue;
            }
            if let Some(word) = shown(habit, traits) {
                self.add(Sign::Does(habit), format!("{} (\"{word}\")", habit.words()), None);
            }
        }
    }

    /// The sightings of a set of signs, when all are there.
    pub(super) fn all(&self, signs: &[Sign]) -> Option<Vec<&Sighting>> {
        signs.iter().map(|sign| self.seen.iter().find(|s| s.sign == *sign)).collect()
    }
}

/// A tool that only reads does not send, grant or install, whatever its words.
fn may(habit: Habit, category: Category) -> bool {
    match habit {
        Habit::ReadsStrangers | Habit::Exports => category == Category::Read,
        Habit::IssuesCredentials => true,
        Habit::StartsWork | Habit::Drives => category == Category::Execute,
        Habit::RawRequest => category != Category::Read,
        Habit::Remembers => category == Category::Write,
        Habit::Uploads => category != Category::Read && category != Category::Destructive,
        Habit::Sends | Habit::GrantsAccess | Habit::Installs | Habit::Signs => {
            category != Category::Read && category != Category::Destructive
        }
    }
}

/// Words of a name that show a habit, in their base form.
const HABIT_WORDS: &[(Habit, &str)] = &[
    (
        Habit::Sends,
        "send post publish broadcast reply forward tweet comment message email mail notify invite share dm sms respond",
    ),
    (
        Habit::ReadsStrangers,
        "issue comment email mail message thread page web url tweet post review ticket inbox channel fetch scrape crawl browse article feed pull discussion conversation document search video transcript attachment file news website chat",
    ),
    (
        Habit::Remembers,
        "memory remember note knowledge entity observation fact lesson preference memo recall insight",
    ),
    (
        Habit::GrantsAccess,
        "grant invite share permission role collaborator member access acl policy iam admin owner visibility public privilege",
    ),
    (
        Habit::Installs,
        "install plugin extension package dependency addon upgrade import module marketplace",
    ),
    (
        Habit::StartsWork,
        "run start launch deploy trigger spawn job workflow build crawl train generate invoke scale instance actor pipeline dispatch",
    ),
    (
        Habit::Drives,
        "click type navigate browser fill press tap swipe scroll drag hover select page mouse keyboard screen form tab",
    ),
    (Habit::Exports, "export dump download backup all bulk batch archive history"),
    (Habit::Uploads, "upload attach attachment"),
    (Habit::Signs, "sign approve merge accept submit authorize confirm certify release publish"),
];

fn shown(habit: Habit, traits: &Traits) -> Option<String> {
    match habit {
        Habit::IssuesCredentials => traits.issues_credential.clone(),
        Habit::RawRequest => traits.raw_request.clone(),
        _ => {
            let (_, words) = HABIT_WORDS.iter().find(|(known, _)| *known == habit)?;
            traits.name_word(&words.split(' ').collect::<Vec<_>>())
        }
    }
}

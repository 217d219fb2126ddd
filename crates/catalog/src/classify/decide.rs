//! Sums the weights and picks a category. Read must win by a margin and must not be ruled out;
//! among the others, the dangerous categories get a head start.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Category;
use super::features::Feature;
use super::tool::Hints;
use super::weight_table::{BIAS, WEIGHTS};

/// Scores are in thousandths, in the order of `Category::ALL`.
pub(super) type Scores = [i32; 5];

/// How far Read must be ahead of every other class.
const READ_MARGIN: i32 = 1_400;
/// How much further when the author says the tool is not read-only, or is destructive.
const HINT_MARGIN: i32 = 3_500;
/// Head start of Write, Destructive, Execute, Financial; the last only where money is mentioned.
const HEAD_START: [i32; 4] = [0, 400, -150, 2_000];

/// What determined the category, if not the weights alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecidedBy {
    Weights,
    /// Read was ahead, but not by enough.
    NotSurelyRead,
    /// Read was ahead, but the author's own hint says otherwise.
    Hint,
    /// An operation, a raw request or a credential rules Read out; the feature says which.
    RuledOut(String),
    /// The table knows none of its words, parameters or operations.
    NothingKnown,
    /// The list of operations holds one that deletes or runs something.
    WorstOperation(String),
}

#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) category: Category,
    /// The runner-up, which the evidence compares with.
    pub(super) rival: Category,
    pub(super) decided_by: DecidedBy,
}

/// Looked up several times per feature; a binary search in the sorted table took a fifth of the time.
static BY_FEATURE: LazyLock<HashMap<&str, &[i16; 5]>> =
    LazyLock::new(|| WEIGHTS.iter().map(|(id, weights)| (*id, weights)).collect());

pub(super) fn weights_of(feature: &str) -> Option<&'static [i16; 5]> {
    BY_FEATURE.get(feature).copied()
}

pub(super) fn decide(features: &[Feature], hints: Hints) -> Decision {
    let scores = scores(features);
    let [read, rest @ ..] = scores;
    let ahead = read - rest.iter().copied().max().unwrap_or(read);
    let claims_change = hints.read_only == Some(false) || hints.destructive == Some(true);
    let margin = if claims_change { READ_MARGIN + HINT_MARGIN } else { READ_MARGIN };
    let ruled_out = ruled_out(features);
    let only_reads = ahead >= 0 && only_reads(features) && !claims_change;
    if (ahead >= margin || only_reads) && ruled_out.is_none() {
        return Decision {
            category: Category::Read,
            rival: strongest(&rest),
            decided_by: DecidedBy::Weights,
        };
    }
    if knows_nothing(features) {
        let (category, rival) = (Category::Write, Category::Read);
        return Decision { category, rival, decided_by: DecidedBy::NothingKnown };
    }
    match ruled_out {
        Some(id) if ahead >= 0 => changing(&scores, features, DecidedBy::RuledOut(id)),
        None if ahead >= READ_MARGIN => raised_by_hint(),
        None if ahead >= 0 => changing(&scores, features, DecidedBy::NotSurelyRead),
        _ => changing(&scores, features, DecidedBy::Weights),
    }
}

/// A hint alone raises the category by one step, because it does not say what changes.
fn raised_by_hint() -> Decision {
    Decision { category: Category::Write, rival: Category::Read, decided_by: DecidedBy::Hint }
}

/// The best class other than Read.
fn changing(scores: &Scores, features: &[Feature], decided_by: DecidedBy) -> Decision {
    let [_, rest @ ..] = scores;
    let money = features.iter().any(|f| is_money(&f.id));
    let mut leaning = *rest;
    for (at, (score, lean)) in leaning.iter_mut().zip(HEAD_START).enumerate() {
        *score += if at == 3 && !money { 0 } else { lean };
    }
    let best = strongest(&leaning);
    match overruled(best, features) {
        Some((category, id)) => {
            Decision { category, rival: best, decided_by: DecidedBy::WorstOperation(id) }
        }
        None => Decision { category: best, rival: rival(scores, best), decided_by },
    }
}

pub(super) fn scores(features: &[Feature]) -> Scores {
    let mut scores = BIAS;
    for weights in features.iter().filter_map(|f| weights_of(&f.id)) {
        for (score, weight) in scores.iter_mut().zip(weights) {
            *score += i32::from(*weight);
        }
    }
    scores
}

/// The strongest of Write, Destructive, Execute, Financial; the milder one on a tie.
fn strongest(rest: &[i32; 4]) -> Category {
    let candidates = Category::ALL.into_iter().skip(1).zip(rest);
    candidates.rev().max_by_key(|(_, score)| **score).map_or(Category::Write, |(c, _)| c)
}

fn rival(scores: &Scores, winner: Category) -> Category {
    let others = Category::ALL.into_iter().zip(scores).filter(|(c, _)| *c != winner);
    others.max_by_key(|(_, score)| **score).map_or(Category::Read, |(c, _)| c)
}

fn knows_nothing(features: &[Feature]) -> bool {
    let absence = |id: &str| {
        matches!(id, "name.act=none" | "says.act=none" | "acts=none+none" | "param.none")
    };
    features.iter().all(|f| absence(&f.id) || weights_of(&f.id).is_none())
}

/// Every operation of its list reads, and so says the description.
fn only_reads(features: &[Feature]) -> bool {
    let has = |id: &str| features.iter().any(|f| f.id == id);
    has("choice.only_read") && has("says.act=read")
}

/// The first feature that rules Read out, whatever the weights say.
fn ruled_out(features: &[Feature]) -> Option<String> {
    let has = |id: &str| features.iter().any(|f| f.id == id);
    let only_reads = has("choice.only_read");
    let rules_out = |id: &str| match id {
        "choice=write" | "choice=destroy" | "choice=run" | "choice=drive" | "choice=money"
        | "choice.http" | "issues.credential" => true,
        "shape=http" => !only_reads,
        _ => false,
    };
    features.iter().find(|f| rules_out(&f.id)).map(|f| f.id.clone())
}

/// Single features that overrule the weights.
fn overruled(best: Category, features: &[Feature]) -> Option<(Category, String)> {
    let find = |ids: &[&str]| {
        let found = features.iter().find(|f| ids.contains(&f.id.as_str()));
        found.map(|f| f.id.clone())
    };
    match best {
        // One operation that deletes makes the tool Destructive; one that starts or stops, Execute.
        Category::Write => find(&["choice=destroy", "told=destroy"])
            .map(|id| (Category::Destructive, id))
            .or_else(|| find(STARTS).map(|id| (Category::Execute, id))),
        // `delete_scripts` deletes: only the caller's own code outranks that.
        Category::Execute if find(OWN_CODE).is_none() => {
            find(&["name.act=destroy"]).map(|id| (Category::Destructive, id))
        }
        _ => None,
    }
}

const STARTS: &[&str] = &["choice=run", "told=run", "starts.run", "name.raw_request"];
const OWN_CODE: &[&str] =
    &["shape=command", "shape=code", "shape=sql", "shape=http", "shape=query", "cue=arbitrary"];

fn is_money(id: &str) -> bool {
    id.contains("money")
        || id.contains("obligation")
        || matches!(id, "cue=on_chain" | "shape=pay" | "shape=amount")
}

#[cfg(test)]
mod tests {
    use super::super::weight_table::WEIGHTS;
    use super::weights_of;

    #[test]
    fn every_weight_is_found_by_its_feature() {
        assert!(WEIGHTS.is_sorted_by(|a, b| a.0 < b.0));
        for (id, weights) in WEIGHTS {
            assert_eq!(weights_of(id), Some(weights), "{id}");
        }
        assert_eq!(weights_of("no such feature"), None);
    }
}

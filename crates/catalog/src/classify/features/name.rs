//! What the name says: its verb, what stands beside the verb, and what it ends in.

use super::{Features, Place, act_text};
use crate::classify::lexicon::{Act, things, verb};
use crate::classify::text::{Word, name_words};
use crate::classify::tool::Tool;

/// The verb of an identifier: its first word if that is one, else the first plain verb, else a
/// noun-like one at the end.
pub(in crate::classify) fn name_verb(words: &[Word]) -> Option<usize> {
    let strong = |w: &Word| verb(&w.base).is_some_and(|v| !v.weak);
    let weak = |w: &Word| verb(&w.base).is_some_and(|v| v.weak);
    let first = words.first()?;
    if strong(first) {
        return Some(0);
    }
    let later = words.iter().position(strong);
    if weak(first) {
        let at_end = later.filter(|at| at + 1 == words.len());
        return at_end.or(Some(0));
    }
    later.or_else(|| words.iter().rposition(weak))
}

pub(super) fn name(tool: &Tool, out: &mut Features) -> Option<Act> {
    let words = &tool.name_words;
    let at = name_verb(words);
    let chosen = at.and_then(|at| words.get(at));
    let act = chosen.and_then(|w| verb(&w.base)).map(|v| v.act);
    if let Some(w) = chosen {
        out.add(format!("name.verb={}", w.base), Place::Name, &w.raw);
    }
    let shown = chosen.map_or(tool.name.as_str(), |w| w.raw.as_str());
    out.add(format!("name.act={}", act_text(act)), Place::Name, shown);
    for (position, w) in words.iter().enumerate() {
        if Some(position) == at {
            continue;
        }
        out.add(format!("name.word={}", w.base), Place::Name, &w.raw);
        if let Some(v) = verb(&w.base).filter(|v| !v.weak) {
            out.add(format!("name.also={}", v.act.as_str()), Place::Name, &w.raw);
        }
        for thing in things(&w.base) {
            let pair = format!("name.pair={}+{}", act_text(act), thing.as_str());
            out.add(pair, Place::Name, &format!("{shown} … {}", w.raw));
        }
    }
    issues_credential(words, chosen, out);
    if let Some(w) = words.last().filter(|_| words.len() > 1) {
        for thing in things(&w.base) {
            out.add(format!("name.ends={}", thing.as_str()), Place::Name, &w.raw);
        }
    }
    if act.is_none() {
        title(tool, out);
    }
    act
}

/// Verbs that hand out a credential when one stands beside them.
const ISSUING: &str = "refresh rotate renew exchange issue mint generate create complete \
    authenticate authorize login regenerate reset setup grant";

const SECRETS: &str = "token credential secret oauth apikey password";

/// `refresh_token`, `whoop-refresh-token`, `exchange_code_for_token`: never a plain read.
fn issues_credential(words: &[Word], chosen: Option<&Word>, out: &mut Features) {
    let issuing = chosen.filter(|w| ISSUING.split_whitespace().any(|v| v == w.base));
    let secret = |w: &&Word| SECRETS.split_whitespace().any(|s| s == w.base);
    let key = words.windows(2).find_map(|pair| match pair {
        [a, b] if matches!(a.base.as_str(), "api" | "access") && b.base == "key" => Some(b),
        _ => None,
    });
    if let (Some(verb), Some(noun)) = (issuing, words.iter().find(secret).or(key)) {
        out.add(
            "issues.credential".to_owned(),
            Place::Name,
            &format!("{} … {}", verb.raw, noun.raw),
        );
    }
}

fn title(tool: &Tool, out: &mut Features) {
    let words = name_words(&tool.title);
    let chosen = name_verb(&words).and_then(|at| words.get(at));
    if let Some((w, v)) = chosen.and_then(|w| Some((w, verb(&w.base)?))) {
        out.add(format!("title.act={}", v.act.as_str()), Place::Title, &w.raw);
    }
}

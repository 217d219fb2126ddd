//! Features of the name: its verb, the words next to the verb, and its last word.

use super::{Features, Location, action_text};
use crate::classify::lexicon::{Action, verb};
use crate::classify::senses::{topics_at, verb_at};
use crate::classify::text::{Word, name_words};
use crate::classify::tool::ParsedTool;

/// The verb of an identifier: its first word if that is one, else the first plain verb, else a
/// noun-like one at the end.
pub(in crate::classify) fn name_verb(words: &[Word]) -> Option<usize> {
    let strong = |w: &Word| verb(&w.base).is_some_and(|v| !v.weak);
    let weak = |w: &Word| verb(&w.base).is_some_and(|v| v.weak);
    // The verb of `batch_complete_tasks` is `complete`; a name that is only `batch` keeps it.
    let many = words.iter().take_while(|w| matches!(w.base.as_str(), "batch" | "bulk")).count();
    let skipped = if many < words.len() { many } else { 0 };
    verb_among(words.get(skipped..)?, strong, weak).map(|at| at + skipped)
}

fn verb_among(
    words: &[Word],
    strong: impl Fn(&Word) -> bool,
    weak: impl Fn(&Word) -> bool,
) -> Option<usize> {
    let first = words.first()?;
    if strong(first) {
        return Some(0);
    }
    let later = words.iter().position(&strong);
    if weak(first) {
        let at_end = later.filter(|at| at + 1 == words.len());
        return at_end.or(Some(0));
    }
    later.or_else(|| words.iter().rposition(&weak))
}

/// Last words that make a name a query: `deploy_status`, `refund_history`.
const QUERY_NOUNS: &[&str] = &[
    "status",
    "history",
    "info",
    "information",
    "detail",
    "details",
    "stats",
    "statistic",
    "log",
    "logs",
    "metadata",
    "metric",
    "list",
    "result",
    "usage",
    "overview",
    "summary",
    "count",
    "eligibility",
    "availability",
];

/// `deploy_status` reads; `update_status` changes and `run_summary_job` runs.
fn is_query(words: &[Word], at: usize, act: Action) -> bool {
    let is_query_noun = words.last().is_some_and(|w| QUERY_NOUNS.contains(&w.base.as_str()));
    let open = matches!(act, Action::Run | Action::Mixed | Action::Money | Action::Drive);
    is_query_noun && open && at + 1 < words.len()
}

/// `network_request` that "returns the details of a request": the last word is a noun.
fn is_noun(words: &[Word], at: usize, described: Option<Action>) -> bool {
    let weak = words.get(at).and_then(|w| verb(&w.base)).is_some_and(|v| v.weak);
    weak && at > 0 && at + 1 == words.len() && described == Some(Action::Read)
}

/// Adds what the name says. `described` is what the description says the tool does.
pub(super) fn name(
    tool: &ParsedTool,
    described: Option<Action>,
    out: &mut Features,
) -> Option<Action> {
    let words = &tool.name_words;
    let at = name_verb(words);
    let chosen = at.and_then(|at| words.get(at));
    let description_action = at.and_then(|at| verb_at(words, at)).map(|v| v.act);
    let act = match (at, description_action) {
        (Some(at), Some(description_action))
            if is_query(words, at, description_action) || is_noun(words, at, described) =>
        {
            Some(Action::Read)
        }
        _ => description_action,
    };
    // A verb in another sense must not get the weight of its usual sense.
    let chosen_verb = chosen.filter(|w| verb(&w.base).map(|v| v.act) == act);
    if let Some(w) = chosen_verb {
        out.add(format!("name.verb={}", w.base), Location::Name, &w.raw);
    }
    let shown = chosen.map_or(tool.name.as_str(), |w| w.raw.as_str());
    out.add(format!("name.act={}", action_text(act)), Location::Name, shown);
    let mut alone = true;
    for (position, w) in words.iter().enumerate() {
        if Some(position) == at {
            continue;
        }
        out.add(format!("name.word={}", w.base), Location::Name, &w.raw);
        if let Some(v) = verb(&w.base).filter(|v| !v.weak) {
            out.add(format!("name.also={}", v.act.as_str()), Location::Name, &w.raw);
        }
        for thing in topics_at(words, position) {
            alone = false;
            let shown = format!("{shown} … {}", w.raw);
            out.add(
                format!("name.pair={}+{}", action_text(act), thing.as_str()),
                Location::Name,
                &shown,
            );
            if let Some(verb) = chosen_verb {
                let id = format!("name.object={}+{}", verb.base, thing.as_str());
                out.add(id, Location::Name, &shown);
            }
        }
    }
    if let Some(w) = chosen_verb.filter(|_| alone) {
        out.add(format!("name.lone={}", w.base), Location::Name, &w.raw);
    }
    issues_credential(words, chosen, out);
    raw_request(words, out);
    starts_run(words, chosen, out);
    if words.len() > 1 {
        for thing in topics_at(words, words.len() - 1) {
            let raw = words.last().map_or("", |w| w.raw.as_str());
            out.add(format!("name.ends={}", thing.as_str()), Location::Name, raw);
        }
    }
    if act.is_none() {
        title(tool, out);
    }
    act
}

/// `create_run`, `submit_execution`: making one starts it.
fn starts_run(words: &[Word], chosen: Option<&Word>, out: &mut Features) {
    let makes = ["create", "new", "add", "make", "submit", "queue", "enqueue", "schedule"];
    let runs = ["run", "execution", "invocation", "pipelinerun", "taskrun", "rerun", "rollout"];
    let made = chosen.filter(|w| makes.contains(&w.base.as_str()));
    let last = words.last().filter(|w| runs.contains(&w.base.as_str()));
    if let (Some(verb), Some(noun)) = (made, last) {
        let shown = format!("{} … {}", verb.raw, noun.raw);
        out.add("starts.run".to_owned(), Location::Name, &shown);
    }
}

/// `make_http_request`, `call_api`: the name says that it can send any request.
fn raw_request(words: &[Word], out: &mut Features) {
    let kind = words.iter().position(|w| matches!(w.base.as_str(), "http" | "api" | "rest"));
    let sends = |w: &Word| matches!(w.base.as_str(), "request" | "call");
    let Some(kind) = kind else { return };
    let neighbours = [kind.checked_sub(1), Some(kind + 1)].into_iter().flatten();
    if let Some(w) = neighbours.filter_map(|at| words.get(at)).find(|w| sends(w)) {
        out.add("name.raw_request".to_owned(), Location::Name, &w.raw);
    }
}

/// Verbs that issue a credential when the name also has a word for one.
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
            Location::Name,
            &format!("{} … {}", verb.raw, noun.raw),
        );
    }
}

fn title(tool: &ParsedTool, out: &mut Features) {
    let words = name_words(&tool.title);
    let chosen = name_verb(&words).and_then(|at| words.get(at));
    if let Some((w, v)) = chosen.and_then(|w| Some((w, verb(&w.base)?))) {
        out.add(format!("title.act={}", v.act.as_str()), Location::Title, &w.raw);
    }
}

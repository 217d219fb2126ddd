//! The second evaluator: slow and obvious. It reads the policy tree afresh at every call, compiles
//! nothing, tries every pattern, and was written from the description of the language, not from the engine.

use crate::tree::Json;

mod decimal;
mod names;
mod operators;
mod refused;

pub(crate) use refused::is_refused;

/// A call as plain data.
#[derive(Debug, Clone)]
pub(crate) struct ModelCall {
    /// `tools`, `resources`, `prompts`, `skills` or `methods`.
    pub(crate) section: &'static str,
    pub(crate) name: String,
    pub(crate) args: Option<Json>,
    pub(crate) grant: String,
    pub(crate) session: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) risk: Option<String>,
    /// `unchanged`, `changed`, `new`, `conflict` or `unknown`.
    pub(crate) definition: &'static str,
    pub(crate) aggregates: bool,
    pub(crate) hour: u8,
    pub(crate) weekday: &'static str,
}

/// Counter, scope, window in milliseconds, maximum and amount in units of 10⁻¹⁸, rule.
type Held = (String, String, u64, i128, i128, String);

/// Rules with their pointer, and whether they are the entry's own.
type Source = (String, Json, bool);

/// What must come of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// `allow`, `ask`, `deny` or `hide`.
    pub(crate) decision: &'static str,
    pub(crate) rule: String,
    pub(crate) holds: Vec<Held>,
    pub(crate) timeout_seconds: Option<u64>,
    /// `owner` or `client`, of a call that is asked about.
    pub(crate) via: Option<&'static str>,
}

/// Yes, no, or cannot be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Three {
    Yes,
    No,
    Unclear,
}

fn stop(decision: &'static str, rule: String) -> Answer {
    Answer { decision, rule, holds: Vec::new(), timeout_seconds: None, via: None }
}

pub(crate) fn evaluate(policy: &Json, call: &ModelCall) -> Answer {
    let open = policy.get("default") == Some(&Json::text("allow"));
    let is_tool = call.section == "tools";
    let spoken = names::who_speaks(policy, call, open);
    let entry = match &spoken {
        names::Matched::Hidden(rule) => return stop("hide", rule.clone()),
        names::Matched::Doubt(rule) => return stop("deny", rule.clone()),
        names::Matched::Nothing if open => None,
        names::Matched::Nothing => return stop("deny", "/default".into()),
        names::Matched::Entry(rule, entry) => Some((rule.clone(), entry.clone())),
    };
    let action =
        entry.as_ref().and_then(|(_, entry)| entry.get("action")?.as_text().map(str::to_owned));
    if let Some((rule, _)) = &entry {
        match action.as_deref() {
            Some("deny") => return stop("deny", format!("{rule}/action")),
            Some("hide") => return stop("hide", format!("{rule}/action")),
            _ => {}
        }
    }
    // The lists of rules, those for all tools first.
    let mut sources: Vec<Source> = Vec::new();
    if let (true, Some(all)) = (is_tool, policy.get("all_tools")) {
        sources.push(("/all_tools".into(), all.clone(), false));
    }
    if let Some((rule, entry)) = &entry {
        sources.push((rule.clone(), entry.clone(), true));
    }
    for (pointer, source, _) in &sources {
        for (index, rule) in list(source, "require").iter().enumerate() {
            if rule_truth(rule, call, true) != Three::Yes {
                return stop("deny", format!("{pointer}/require/{index}"));
            }
        }
    }
    for (pointer, source, _) in &sources {
        for (index, rule) in list(source, "deny_if").iter().enumerate() {
            if rule_truth(rule, call, false) != Three::No {
                return stop("deny", format!("{pointer}/deny_if/{index}"));
            }
        }
    }
    // Only a tool that can aggregate passes where nothing but aggregates may leave.
    if policy.get("aggregate_only").is_some() && !(is_tool && call.aggregates) {
        return stop("deny", "/aggregate_only".into());
    }
    if let Some(rule) = refused_change(policy, entry.as_ref(), call) {
        return stop("deny", rule);
    }
    let asks = asks(&sources, action.as_deref(), call);
    let of_owner = asks.iter().find(|ask| ask.2 == "owner");
    let ask = of_owner.or(asks.first()).cloned();
    let holds = match holds(&sources, call) {
        Ok(holds) => holds,
        Err(rule) => return stop("deny", rule),
    };
    let allowed = || entry.map_or("/default".into(), |(rule, _)| rule);
    let timeout_seconds = ask.as_ref().map(|ask| ask.1);
    let via = ask.as_ref().map(|ask| ask.2);
    let decision = if ask.is_some() { "ask" } else { "allow" };
    let rule = ask.map_or_else(allowed, |ask| ask.0);
    Answer { decision, rule, holds, timeout_seconds, via }
}

/// The rule that refuses a definition that is not the accepted one.
fn refused_change(
    policy: &Json,
    entry: Option<&(String, Json)>,
    call: &ModelCall,
) -> Option<String> {
    if !matches!(call.definition, "changed" | "new" | "conflict") {
        return None;
    }
    let own = entry
        .and_then(|(rule, entry)| Some((format!("{rule}/on_change"), entry.get("on_change")?)));
    let general = policy.get("on_change").map(|word| ("/on_change".to_owned(), word));
    match own.or(general) {
        Some((rule, word)) => (word.as_text() == Some("refuse")).then_some(rule),
        None => Some("/on_change".into()),
    }
}

/// Everything that asks, in order, with its timeout and who is asked.
fn asks(
    sources: &[Source],
    action: Option<&str>,
    call: &ModelCall,
) -> Vec<(String, u64, &'static str)> {
    let mut asks = Vec::new();
    for (pointer, source, own) in sources {
        if *own && action == Some("require_approval") {
            asks.push((format!("{pointer}/action"), 1_800, "owner"));
        }
        for (index, rule) in list(source, "approve_if").iter().enumerate() {
            if rule_truth(rule, call, false) != Three::No {
                let timeout = rule.get("timeout").map_or(1_800, seconds);
                let is_client = rule.get("via").and_then(Json::as_text) == Some("client");
                let via = if is_client { "client" } else { "owner" };
                asks.push((format!("{pointer}/approve_if/{index}"), timeout, via));
            }
        }
    }
    asks
}

/// Everything that is held, or the limit whose amount makes no sense.
fn holds(sources: &[Source], call: &ModelCall) -> Result<Vec<Held>, String> {
    let mut holds = Vec::new();
    for (pointer, source, _) in sources {
        let limits = list(source, "limits").iter().enumerate();
        let limits =
            limits.map(|(index, limit)| (format!("{pointer}/limits/{index}"), limit, "grant"));
        let short =
            source.get("rate_limit").map(|limit| (format!("{pointer}/rate_limit"), limit, "grant"));
        for (rule, limit, scope) in limits.chain(short) {
            match amount(limit.get("increment"), call) {
                Some(amount) => holds.push(hold(rule, limit, scope, amount)),
                None => return Err(rule),
            }
        }
    }
    Ok(holds)
}

fn list<'a>(source: &'a Json, name: &str) -> &'a [Json] {
    source.get(name).map(Json::items).unwrap_or_default()
}

fn hold(rule: String, limit: &Json, scope: &str, amount: i128) -> Held {
    let counter = limit.get("counter").and_then(Json::as_text).unwrap_or(&rule).to_owned();
    let scope = limit.get("scope").and_then(Json::as_text).unwrap_or(scope).to_owned();
    let max = match limit.get("max") {
        Some(Json::Number(max)) => decimal::units(max).unwrap(),
        other => panic!("{other:?}"),
    };
    (counter, scope, seconds(limit.get("window").unwrap()) * 1000, max, amount, rule)
}

fn seconds(window: &Json) -> u64 {
    match window {
        Json::Number(number) => number.parse().unwrap(),
        Json::Text(text) => match text.as_str() {
            "second" => 1,
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            _ => {
                let unit = match text.chars().last() {
                    Some('s') => 1,
                    Some('m') => 60,
                    Some('h') => 3_600,
                    Some('d') => 86_400,
                    _ => panic!("{text}"),
                };
                text[..text.len() - 1].parse::<u64>().unwrap() * unit
            }
        },
        other => panic!("{other:?}"),
    }
}

/// What a limit counts, in units of 10⁻¹⁸; `None` when that makes no sense.
fn amount(increment: Option<&Json>, call: &ModelCall) -> Option<i128> {
    match increment {
        None => decimal::units("1"),
        Some(Json::Number(number)) => decimal::units(number),
        Some(Json::Text(path)) => {
            let mut sum: i128 = 0;
            for value in places(path, call) {
                match value {
                    Place::Value(Json::Number(number)) => {
                        sum = sum.checked_add(decimal::units(&number)?)?;
                    }
                    _ => return None,
                }
            }
            Some(sum)
        }
        other => panic!("{other:?}"),
    }
}

fn rule_truth(rule: &Json, call: &ModelCall, every: bool) -> Three {
    let truths: Vec<Three> = list(rule, "conditions")
        .iter()
        .map(|condition| condition_truth(condition, call, every))
        .collect();
    all(&truths)
}

fn all(truths: &[Three]) -> Three {
    if truths.contains(&Three::No) {
        Three::No
    } else if truths.contains(&Three::Unclear) {
        Three::Unclear
    } else {
        Three::Yes
    }
}

fn any(truths: &[Three]) -> Three {
    if truths.contains(&Three::Yes) {
        Three::Yes
    } else if truths.contains(&Three::Unclear) {
        Three::Unclear
    } else {
        Three::No
    }
}

fn condition_truth(condition: &Json, call: &ModelCall, every: bool) -> Three {
    let path = condition.get("path").and_then(Json::as_text).unwrap();
    let operator = condition.get("op").and_then(Json::as_text).unwrap();
    let default = Json::Bool(true);
    let value = condition.get("value").unwrap_or(&default);
    let truths: Vec<Three> = places(path, call)
        .into_iter()
        .map(|place| match place {
            Place::Wrong => Three::Unclear,
            Place::Missing if operator == "exists" => yes(*value == Json::Bool(false)),
            Place::Missing => yes(condition.get("missing").is_some()),
            Place::Value(found) => operators::compare(operator, value, &found),
        })
        .collect();
    if every { all(&truths) } else { any(&truths) }
}

fn yes(truth: bool) -> Three {
    if truth { Three::Yes } else { Three::No }
}

/// Where a path leads.
#[derive(Debug, Clone)]
enum Place {
    Missing,
    /// Through something that has no parts of that kind.
    Wrong,
    Value(Json),
}

fn places(path: &str, call: &ModelCall) -> Vec<Place> {
    let text = |text: &Option<String>| match text {
        Some(text) => vec![Place::Value(Json::text(text))],
        None => vec![Place::Missing],
    };
    match path {
        "caller.grant" => return vec![Place::Value(Json::text(&call.grant))],
        "caller.session" => return text(&call.session),
        "caller.client" => return text(&call.client),
        "tool.category" => return text(&call.category),
        "tool.risk" => return text(&call.risk),
        "time.hour" => return vec![Place::Value(Json::Number(call.hour.to_string()))],
        "time.weekday" => return vec![Place::Value(Json::text(call.weekday))],
        _ => {}
    }
    let mut found = match &call.args {
        Some(args) => vec![Place::Value(args.clone())],
        None => vec![Place::Missing],
    };
    // `args.a[0]["b"]` as `a`, `[0]`, `["b"]`.
    let spaced = path.strip_prefix("args").unwrap().replace('[', ".[");
    for step in spaced.split('.').filter(|step| !step.is_empty()) {
        found = found.into_iter().flat_map(|place| follow(place, step)).collect();
    }
    found
}

fn follow(place: Place, step: &str) -> Vec<Place> {
    let Place::Value(value) = place else { return vec![place] };
    let one = |found: Option<&Json>| match found {
        Some(value) => vec![Place::Value(value.clone())],
        None => vec![Place::Missing],
    };
    // A member in another spelling is neither there nor missing.
    let member = |name: &str| {
        let alike = |(key, _): &(String, Json)| key.to_lowercase() == name.to_lowercase();
        match value.get(name) {
            None if value.members().iter().any(alike) => vec![Place::Wrong],
            found => one(found),
        }
    };
    match (step, &value) {
        ("[*]", Json::List(items)) if items.is_empty() => vec![Place::Missing],
        ("[*]", Json::List(items)) => items.iter().cloned().map(Place::Value).collect(),
        ("[*]", _) => vec![Place::Wrong],
        _ if step.starts_with("[\"") => match &value {
            Json::Map(_) => member(step.trim_start_matches("[\"").trim_end_matches("\"]")),
            _ => vec![Place::Wrong],
        },
        _ if step.starts_with('[') => match &value {
            Json::List(items) => one(items.get(step[1..step.len() - 1].parse::<usize>().unwrap())),
            _ => vec![Place::Wrong],
        },
        (_, Json::Map(_)) => member(step),
        _ => vec![Place::Wrong],
    }
}

/// The URLs whose hosts the model knows.
pub(crate) fn urls() -> Vec<&'static str> {
    operators::URLS.iter().map(|(url, _)| *url).collect()
}

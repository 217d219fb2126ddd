//! Turns the fields of the builder's form into edits of the text. A field counts only if it differs from the
//! text that the form was made from, so edits by hand and edits by form do not overwrite each other.

use policy::Takes;
use policy::edit::{self, Change, Edit};
use policy::json::{Bounds, Doc, Value};
use serde_json::json;

use super::arguments::{self, ArgumentPath};
use super::draft::Draft;
use super::outline::{self, Outline, RULE_FIELDS, SECTIONS, State};

/// What the form asks for.
pub(crate) struct Fields<'f> {
    pub(crate) form: &'f [(String, String)],
    /// What conditions of the open entry can be about.
    pub(crate) paths: &'f [ArgumentPath],
    /// The names that the bulk change is for.
    pub(crate) bulk: &'f [String],
}

impl<'f> Fields<'f> {
    pub(crate) fn get(&self, name: &str) -> Option<&'f str> {
        let found = self.form.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    fn needed(&self, name: &str, label: &str) -> Result<&'f str, String> {
        self.get(name).ok_or_else(|| format!("{label} is missing"))
    }
}

/// Applies the changed fields, then the button that was pressed. Returns the pointer that was changed last.
/// On an error the draft keeps what was applied before.
pub(crate) fn apply_fields(
    draft: &mut Draft,
    base: &Draft,
    fields: &Fields<'_>,
) -> Result<Option<String>, String> {
    let mut touched = None;
    for edits in [switch_edits(draft, base, fields)?, value_edits(base, fields)?] {
        apply(draft, &edits, &mut touched)?;
    }
    let edits = button_edits(draft, fields)?;
    apply(draft, &edits, &mut touched)?;
    Ok(touched)
}

/// A name that fell under a pattern gets an entry of its own when something is added to it. The entry begins
/// as a copy, so that the rules of the pattern still apply.
fn inherited(draft: &Draft, edits: &[Edit]) -> Vec<Edit> {
    let (Ok(policy), Some(json)) = (draft.compile(), draft.json()) else { return Vec::new() };
    let Ok(doc) = Doc::read(json.as_bytes(), &Bounds::POLICY) else { return Vec::new() };
    let outline = Outline { policy: &policy, root: doc.root() };
    let mut copies: Vec<Edit> = Vec::new();
    for edit in edits {
        let steps = edit::steps(&edit.pointer);
        let [section, name, field, ..] = steps.as_slice() else { continue };
        let is_stopped =
            field == "action" && edit.change != Change::Set("\"require_approval\"".to_owned());
        if is_stopped || outline.own_entry(section, name).is_some() {
            continue;
        }
        let pointer = edit::pointer(&[section, name]);
        if let Some(entry) = outline.entry(section, name)
            && copies.iter().all(|copy| copy.pointer != pointer)
        {
            copies.push(Edit::set(pointer, entry.raw()));
        }
    }
    copies
}

fn apply(draft: &mut Draft, edits: &[Edit], touched: &mut Option<String>) -> Result<(), String> {
    let copies = inherited(draft, edits);
    draft.apply(&copies).map_err(|error| error.to_string())?;
    draft.apply(edits).map_err(|error| error.to_string())?;
    if let Some(edit) = edits.last() {
        *touched = Some(edit.pointer.clone());
    }
    Ok(())
}

/// The switches that show another state than the text they were made from has.
fn switch_edits(draft: &Draft, base: &Draft, fields: &Fields<'_>) -> Result<Vec<Edit>, String> {
    let switches = fields.form.iter().filter_map(|(key, value)| {
        let (section, name) = key.strip_prefix("s:")?.split_once(':')?;
        Some((section, name, State::parse(value)?))
    });
    let (Ok(base_policy), Some(base_json)) = (base.compile(), base.json()) else {
        return Ok(Vec::new());
    };
    let Ok(base_doc) = Doc::read(base_json.as_bytes(), &Bounds::POLICY) else {
        return Ok(Vec::new());
    };
    let shown = Outline { policy: &base_policy, root: base_doc.root() };
    let wanted: Vec<(&str, &str, State)> = switches
        .filter(|(section, name, state)| {
            SECTIONS.contains(section) && shown.row(section, name).state != *state
        })
        .collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let json = draft.json().ok_or("the text cannot be read; correct it first")?;
    let doc = Doc::read(json.as_bytes(), &Bounds::POLICY).map_err(|refusal| refusal.message)?;
    let names: Vec<&str> = wanted.iter().map(|(_, name, _)| *name).collect();
    let mut edits = unhide_edits(doc.root(), &names);
    for (section, name, state) in wanted {
        if shown.row(section, name).is_locked {
            return Err(format!("a pattern in `hide` hides `{name}`; change `hide` in the text"));
        }
        edits.extend(state_edits(doc.root(), section, name, state));
    }
    Ok(edits)
}

/// Removes names from `hide`, the last first, so that positions stay valid.
fn unhide_edits(root: Value<'_>, names: &[&str]) -> Vec<Edit> {
    let hidden: Vec<Value<'_>> = root.get("hide").map(Value::items).into_iter().flatten().collect();
    let is_named = |value: &Value<'_>| value.as_str().is_some_and(|text| names.contains(&&*text));
    let mut at: Vec<usize> =
        hidden.iter().enumerate().filter(|(_, value)| is_named(value)).map(|(at, _)| at).collect();
    if !at.is_empty() && at.len() == hidden.len() {
        return vec![Edit::remove("/hide")];
    }
    at.reverse();
    at.into_iter().map(|at| Edit::remove(format!("/hide/{at}"))).collect()
}

/// What sets the switch of one name. Rules stay where the new state has a use for them or can return to them;
/// only `Allow` removes them.
fn state_edits(root: Value<'_>, section: &str, name: &str, state: State) -> Vec<Edit> {
    let pointer = edit::pointer(&[section, name]);
    let own = outline::at(root, &pointer);
    let action = format!("{pointer}/action");
    match state {
        State::Allow => match own {
            None => vec![Edit::set(pointer, "{}")],
            Some(own) => {
                let fields = RULE_FIELDS.iter().chain(&["action"]);
                let present = fields.filter(|field| own.get(field).is_some());
                present.map(|field| Edit::remove(format!("{pointer}/{field}"))).collect()
            }
        },
        State::Deny => vec![Edit::set(action, "\"deny\"")],
        State::Hide => vec![Edit::set(action, "\"hide\"")],
        State::Ask => vec![Edit::set(action, "\"require_approval\"")],
        // The first rule makes it custom; until then it is allowed.
        State::Custom if own.is_none() => vec![Edit::set(pointer, "{}")],
        State::Custom => vec![Edit::remove(action)],
    }
}

/// Fields that show a value of the text: `v:text:/tools/x/reason`.
fn value_edits(base: &Draft, fields: &Fields<'_>) -> Result<Vec<Edit>, String> {
    let json = base.json().unwrap_or_else(|| "{}".to_owned());
    let Ok(doc) = Doc::read(json.as_bytes(), &Bounds::POLICY) else { return Ok(Vec::new()) };
    let mut edits = Vec::new();
    for (key, value) in fields.form {
        let Some((kind, pointer)) = key.strip_prefix("v:").and_then(|rest| rest.split_once(':'))
        else {
            continue;
        };
        let value = value.trim();
        let shown = outline::at(doc.root(), pointer);
        let shown = shown.map(|shown| {
            shown.as_str().map_or_else(|| shown.raw().to_owned(), std::borrow::Cow::into_owned)
        });
        if shown.as_deref().unwrap_or_default() == value {
            continue;
        }
        edits.push(match (value, kind) {
            ("", _) => Edit::remove(pointer),
            (value, "number") => Edit::set(pointer, number(value)?),
            (value, "duration") if is_number(value) => Edit::set(pointer, value),
            (value, _) => Edit::set(pointer, json!(value).to_string()),
        });
    }
    Ok(edits)
}

fn button_edits(draft: &Draft, fields: &Fields<'_>) -> Result<Vec<Edit>, String> {
    let pressed = fields.get("do").unwrap_or_default();
    if let Some(pointer) = pressed.strip_prefix("remove:") {
        return Ok(vec![removal(draft, pointer)]);
    }
    match pressed {
        "bulk" => bulk_edits(draft, fields),
        "add_rule" => add_rule(fields).map(|edit| vec![edit]),
        "add_limit" => add_limit(fields).map(|edit| vec![edit]),
        "add_redact" => {
            let path = fields.needed("redact_path", "the path")?;
            let list = format!("{}/redact", fields.needed("open", "the entry")?);
            Ok(vec![Edit::push(list, json!(path).to_string())])
        }
        "add_entry" => add_entry(draft, fields),
        _ => Ok(Vec::new()),
    }
}

/// The last item of a list goes with its list.
fn removal(draft: &Draft, pointer: &str) -> Edit {
    let json = draft.json().unwrap_or_default();
    let list = pointer.rsplit_once('/').map(|(list, _)| list).unwrap_or_default();
    let is_only = Doc::read(json.as_bytes(), &Bounds::POLICY).is_ok_and(|doc| {
        let found = outline::at(doc.root(), list);
        found.is_some_and(|list| list.items().count() == 1)
    });
    Edit::remove(if is_only { list } else { pointer })
}

fn bulk_edits(draft: &Draft, fields: &Fields<'_>) -> Result<Vec<Edit>, String> {
    let state = fields.get("bulk_state").and_then(State::parse);
    let state = state.ok_or("choose what to do with them")?;
    if fields.bulk.is_empty() {
        return Err("no tool has this category and risk".to_owned());
    }
    let json = draft.json().ok_or("the text cannot be read; correct it first")?;
    let doc = Doc::read(json.as_bytes(), &Bounds::POLICY).map_err(|refusal| refusal.message)?;
    let names: Vec<&str> = fields.bulk.iter().map(String::as_str).collect();
    let mut edits = unhide_edits(doc.root(), &names);
    for name in names {
        edits.extend(state_edits(doc.root(), "tools", name, state));
    }
    Ok(edits)
}

fn add_entry(draft: &Draft, fields: &Fields<'_>) -> Result<Vec<Edit>, String> {
    let section = fields.get("new_section").filter(|section| SECTIONS.contains(section));
    let section = section.ok_or("choose a section")?;
    let name = fields.needed("new_name", "the name or pattern")?;
    let state = fields.get("new_state").and_then(State::parse).unwrap_or(State::Allow);
    let json = draft.json().ok_or("the text cannot be read; correct it first")?;
    let doc = Doc::read(json.as_bytes(), &Bounds::POLICY).map_err(|refusal| refusal.message)?;
    if outline::at(doc.root(), &edit::pointer(&[section, name])).is_some() {
        return Err(format!("`{name}` has an entry already"));
    }
    Ok(state_edits(doc.root(), section, name, state))
}

fn add_rule(fields: &Fields<'_>) -> Result<Edit, String> {
    let entry = fields.needed("open", "the entry")?;
    let kind = fields.get("rule_kind").unwrap_or("deny_if");
    if !["require", "deny_if", "approve_if"].contains(&kind) {
        return Err("choose what the rule does".to_owned());
    }
    let condition = condition(fields)?;
    if let Some(into) = fields.get("rule_into").filter(|into| into.starts_with(entry)) {
        let condition = condition.ok_or("choose what the condition is about")?;
        return Ok(Edit::push(format!("{into}/conditions"), condition));
    }
    let mut parts = vec![format!("\"conditions\":[{}]", condition.unwrap_or_default())];
    if let Some(message) = fields.get("rule_words") {
        parts.push(format!("\"on_deny\":{}", json!(message)));
    }
    if let Some(timeout) = fields.get("rule_timeout").filter(|_| kind == "approve_if") {
        parts.push(format!("\"timeout\":{}", duration(timeout)));
    }
    Ok(Edit::push(format!("{entry}/{kind}"), format!("{{{}}}", parts.join(","))))
}

/// The condition of the form as JSON; none for a rule that always holds.
fn condition(fields: &Fields<'_>) -> Result<Option<String>, String> {
    let Some(path) = fields.get("rule_other_path").or_else(|| fields.get("rule_path")) else {
        return Ok(None);
    };
    let name = fields.needed("rule_op", "the operator")?;
    let operator = policy::operators().iter().find(|operator| operator.name == name);
    let operator = operator.ok_or_else(|| format!("unknown operator `{name}`"))?;
    let kind =
        fields.paths.iter().find(|known| known.path == path).map_or("any", |known| known.kind);
    if !arguments::fits(name, kind) {
        return Err(format!("`{path}` is a {kind}, which `{name}` cannot compare"));
    }
    let mut parts = vec![format!("\"path\":{}", json!(path)), format!("\"op\":{}", json!(name))];
    let given = fields.get("rule_value").unwrap_or_default();
    if let Some(value) = operand(operator.takes, kind, given)? {
        parts.push(format!("\"value\":{value}"));
    }
    if fields.get("rule_missing").is_some() {
        parts.push("\"missing\":\"match\"".to_owned());
    }
    Ok(Some(format!("{{{}}}", parts.join(","))))
}

/// What an operator compares with, as JSON, from what was typed.
fn operand(takes: Takes, kind: &str, text: &str) -> Result<Option<String>, String> {
    if text.is_empty() && takes != Takes::Flag {
        return Err(format!("the value is missing: {}", takes.describe()));
    }
    let parts: Vec<&str> =
        text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).collect();
    Ok(Some(match takes {
        Takes::Flag if text.is_empty() || text == "true" => return Ok(None),
        Takes::Flag if text == "false" => "false".to_owned(),
        Takes::Flag => return Err("the value is `true` or `false`".to_owned()),
        Takes::Number | Takes::Count => number(text)?,
        Takes::Text => json!(text).to_string(),
        Takes::Scalar => scalar(kind, text)?,
        Takes::Scalars => {
            let values: Vec<String> =
                parts.iter().map(|part| scalar(kind, part)).collect::<Result<_, _>>()?;
            format!("[{}]", values.join(","))
        }
        Takes::Texts => match parts.as_slice() {
            [one] => json!(one).to_string(),
            several => json!(several).to_string(),
        },
    }))
}

/// A value of the type that the schema names; where it names none, what it looks like.
fn scalar(kind: &str, text: &str) -> Result<String, String> {
    match kind {
        "number" => number(text),
        "boolean" if matches!(text, "true" | "false") => Ok(text.to_owned()),
        "boolean" => Err("the value is `true` or `false`".to_owned()),
        "any" if is_number(text) || matches!(text, "true" | "false") => Ok(text.to_owned()),
        _ => Ok(json!(text).to_string()),
    }
}

fn add_limit(fields: &Fields<'_>) -> Result<Edit, String> {
    let entry = fields.needed("open", "the entry")?;
    let max = number(fields.needed("limit_max", "the maximum")?)?;
    let window = duration(fields.needed("limit_window", "the time")?);
    let mut parts = vec![format!("\"window\":{window}"), format!("\"max\":{max}")];
    for (name, key) in [("limit_scope", "scope"), ("limit_counter", "counter")] {
        if let Some(value) = fields.get(name).filter(|value| *value != "grant") {
            parts.push(format!("\"{key}\":{}", json!(value)));
        }
    }
    if let Some(increment) = fields.get("limit_increment").filter(|value| *value != "1") {
        let value =
            if is_number(increment) { increment.to_owned() } else { json!(increment).to_string() };
        parts.push(format!("\"increment\":{value}"));
    }
    Ok(Edit::push(format!("{entry}/limits"), format!("{{{}}}", parts.join(","))))
}

/// Seconds as a number, everything else as text.
fn duration(text: &str) -> String {
    if is_number(text) { text.to_owned() } else { json!(text).to_string() }
}

fn number(text: &str) -> Result<String, String> {
    if is_number(text) { Ok(text.to_owned()) } else { Err(format!("`{text}` is not a number")) }
}

/// Whether a text is a JSON number, whose digits are kept as they are.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && Doc::read(text.as_bytes(), &Bounds::POLICY).is_ok()
}

#[cfg(test)]
mod tests;

//! One tool: what it is, and a form to try it. The policy of a chosen grant judges the call before it runs, and
//! it runs as a call of that grant, decided and recorded like any other.

use askama::Template;
use http::StatusCode;
use policy::json::{Bounds, Doc, Kind};
use policy::{Call, Caller, Decision, Definition, Policy, Subject, ToolFacts};
use serde::Serialize;
use serde_json::{Value, json};
use store::effective::Effective;
use store::registry::{Grant, GrantState, Origin, Pin, PinState, PolicyText, Target};

use crate::app::App;
use crate::live::ToolTrial;
use crate::offer::pins;
use crate::page::{Chrome, render, segment};
use crate::pretty::pretty;
use crate::problem::Problem;
use crate::request::Visit;
use crate::response::Response;
use crate::time::{policy_time, span};
use store::tool_class::ToolClass;

/// One argument of the form.
#[derive(Serialize)]
struct ArgumentField {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    description: String,
    is_required: bool,
    choices: Vec<String>,
    #[serde(skip)]
    typed: String,
}

#[derive(Serialize)]
struct StepView {
    rule: String,
    checked: String,
    finding: String,
}

/// What the policy of the chosen grant says.
#[derive(Serialize)]
struct VerdictView {
    decision: &'static str,
    policy: String,
    rule: String,
    reason: Option<String>,
    holds: Vec<String>,
    steps: Vec<StepView>,
}

impl VerdictView {
    fn class(&self) -> &'static str {
        match self.decision {
            "allow" => "allowed",
            "ask" => "waiting",
            _ => "refused",
        }
    }

    fn message(&self) -> &'static str {
        match self.decision {
            "allow" => "would be allowed",
            "ask" => "would ask a person",
            "hide" => "hidden from this grant",
            _ => "would be denied",
        }
    }
}

#[derive(Template, Serialize)]
#[template(path = "tool.html")]
struct ToolPage {
    #[serde(skip)]
    chrome: Chrome,
    server: String,
    name: String,
    description: String,
    category: Option<&'static str>,
    risk: Option<&'static str>,
    evidence: Vec<String>,
    state: &'static str,
    definition: Value,
    arguments: Vec<ArgumentField>,
    /// The grants that have access to the server.
    grants: Vec<String>,
    grant: String,
    error: Option<String>,
    sent: Option<String>,
    verdict: Option<VerdictView>,
    result: Option<String>,
    is_error: bool,
    #[serde(skip)]
    definition_text: String,
    #[serde(skip)]
    typed_json: String,
    #[serde(skip)]
    path: String,
    #[serde(skip)]
    server_path: String,
}

pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Problem> {
    render(visit.format, StatusCode::OK, &tool_page(app, visit)?)
}

/// Judges the call of the form, and runs it if that was asked for and the policy allows it.
pub(crate) fn try_tool(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let mut view = tool_page(app, visit)?;
    let mut status = StatusCode::OK;
    if let Err(problem) = judge_and_run(app, visit, &mut view) {
        if problem.status != StatusCode::UNPROCESSABLE_ENTITY {
            return Err(problem);
        }
        (view.error, status) = (Some(problem.message), problem.status);
    }
    render(visit.format, status, &view)
}

fn judge_and_run(app: &App, visit: &Visit, view: &mut ToolPage) -> Result<(), Problem> {
    let sent = arguments(visit, &view.arguments)?;
    let label = visit.needed_field("grant", "the grant")?;
    let effective = app.effective()?;
    let grant =
        effective.grant(label).filter(|grant| grant.state(app.now_us()) == GrantState::Active);
    let grant =
        grant.ok_or_else(|| Problem::invalid(format!("there is no active grant `{label}`")))?;
    let policy = policy_of(app, &effective, grant, &view.server)?;
    let verdict = judge(app, visit, view, &policy, &sent)?;
    let is_allowed = verdict.decision == "allow";
    view.sent = Some(pretty(&sent));
    view.verdict = Some(verdict);
    if visit.field("do") != Some("run") {
        return Ok(());
    }
    if !is_allowed {
        return Err(Problem::invalid("not run: the policy of this grant does not allow it"));
    }
    let client = format!("dashboard ({})", visit.person.name);
    let trial = ToolTrial {
        grant: label,
        server: &view.server,
        tool: &view.name,
        arguments: &sent,
        client: &client,
    };
    let response = app.live.call_tool(&trial).map_err(Problem::invalid)?;
    let result = response.get("result");
    view.is_error = result.is_none()
        || result.and_then(|result| result.get("isError")?.as_bool()) == Some(true);
    view.result = Some(format!("{:#}", result.or(response.get("error")).unwrap_or(&response)));
    Ok(())
}

fn tool_page(app: &App, visit: &Visit) -> Result<ToolPage, Problem> {
    let effective = app.effective()?;
    let (server, name) = (visit.name("name"), visit.name("tool"));
    if !effective.servers.contains_key(server) {
        return Err(Problem::not_found(format!("there is no server `{server}`")));
    }
    let pins = pins(app, &effective, server)?;
    let pin = pins
        .iter()
        .find(|pin| pin.tool == name)
        .ok_or_else(|| Problem::not_found(format!("server `{server}` has no tool `{name}`")))?;
    let class = app.classes.class(server, pin, &pins);
    let definition = definition(pin);
    let holds = |grant: &&Grant| {
        grant.access(server).is_some() && grant.state(app.now_us()) == GrantState::Active
    };
    let grants: Vec<String> =
        effective.grants().iter().filter(holds).map(|grant| grant.label.clone()).collect();
    let server_path = format!("/servers/{}", segment(server));
    Ok(ToolPage {
        chrome: Chrome::new(app, visit, format!("Tool {name}")),
        server: server.to_owned(),
        name: name.to_owned(),
        description: text(&definition, "description"),
        category: class.as_ref().map(|class| class.category),
        risk: class.as_ref().map(|class| class.risk),
        evidence: class.map(|class: ToolClass| class.evidence).unwrap_or_default(),
        state: pin.state.as_str(),
        arguments: fields(&definition, visit),
        grant: visit
            .field("grant")
            .or(grants.first().map(String::as_str))
            .unwrap_or_default()
            .to_owned(),
        grants,
        error: None,
        sent: None,
        verdict: None,
        result: None,
        is_error: false,
        definition_text: format!("{definition:#}"),
        definition,
        typed_json: visit.text_field("json").unwrap_or_default(),
        path: format!("{server_path}/tools/{}", segment(name)),
        server_path,
    })
}

fn definition(pin: &Pin) -> Value {
    let pinned = pin.seen.as_ref().or(pin.accepted.as_ref());
    pinned.and_then(|pinned| serde_json::from_str(&pinned.definition).ok()).unwrap_or_default()
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// One field for each property of the input schema.
fn fields(definition: &Value, visit: &Visit) -> Vec<ArgumentField> {
    let schema = definition.get("inputSchema");
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let is_required = |name: &str| required.is_some_and(|list| list.iter().any(|one| one == name));
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    let field = |(name, schema): (&String, &Value)| {
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        ArgumentField {
            kind: kind(schema),
            description: text(schema, "description"),
            is_required: is_required(name),
            choices: listed
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect(),
            typed: visit.text_field(&format!("arg:{name}")).unwrap_or_default(),
            name: name.clone(),
        }
    };
    properties.into_iter().flatten().map(field).collect()
}

fn kind(schema: &Value) -> &'static str {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => "string",
        Some("number" | "integer") => "number",
        Some("boolean") => "boolean",
        _ => "json",
    }
}

/// The arguments as JSON: what was typed as a whole, or the filled fields.
fn arguments(visit: &Visit, fields: &[ArgumentField]) -> Result<String, Problem> {
    let whole = visit.text_field("json").filter(|text| !text.trim().is_empty());
    let text = if let Some(text) = whole {
        text
    } else {
        let mut parts = Vec::new();
        for field in fields.iter().filter(|field| !field.typed.trim().is_empty()) {
            parts.push(format!("{}:{}", json!(field.name), value_of(field)?));
        }
        format!("{{{}}}", parts.join(","))
    };
    let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE).map_err(|refusal| {
        let (line, column) = (refusal.line, refusal.column);
        Problem::invalid(format!(
            "the arguments are not JSON: line {line}, column {column}: {}",
            refusal.message
        ))
    })?;
    if doc.root().kind() != Kind::Object {
        return Err(Problem::invalid("the arguments are a JSON object"));
    }
    Ok(text)
}

fn value_of(field: &ArgumentField) -> Result<String, Problem> {
    let typed = field.typed.trim();
    let is_json = |wanted: &[Kind]| {
        Doc::read(typed.as_bytes(), &Bounds::MESSAGE)
            .is_ok_and(|doc| wanted.contains(&doc.root().kind()))
    };
    let wrong = |message: &str| Problem::invalid(format!("`{}` is not {message}", field.name));
    match field.kind {
        "string" => Ok(json!(field.typed.trim_end_matches('\n')).to_string()),
        "number" if is_json(&[Kind::Number]) => Ok(typed.to_owned()),
        "number" => Err(wrong("a number")),
        "boolean" if is_json(&[Kind::Bool]) => Ok(typed.to_owned()),
        "boolean" => Err(wrong("true or false")),
        _ if Doc::read(typed.as_bytes(), &Bounds::MESSAGE).is_ok() => Ok(typed.to_owned()),
        _ => Err(wrong("JSON")),
    }
}

/// The policy of a grant on a server, named or built in.
fn policy_of(
    app: &App,
    effective: &Effective,
    grant: &Grant,
    server: &str,
) -> Result<PolicyText, Problem> {
    let access = effective.access(grant, server).ok_or_else(|| {
        Problem::invalid(format!("grant `{}` has no access to server `{server}`", grant.label))
    })?;
    if let Some(policy) = access.policy {
        return Ok(policy.clone());
    }
    let own = match &access.server.target {
        Target::Builtin { service } if grant.origin == Origin::Registry => {
            app.live.own_policy(service)
        }
        _ => None,
    };
    own.ok_or_else(|| {
        Problem::invalid(format!(
            "grant `{}` has no policy on `{server}`, so every call is denied",
            grant.label
        ))
    })
}

fn judge(
    app: &App,
    visit: &Visit,
    view: &ToolPage,
    text: &PolicyText,
    sent: &str,
) -> Result<VerdictView, Problem> {
    let policy = Policy::compile(&text.source, text.format).map_err(|error| {
        Problem::invalid(format!("policy `{}` does not load: {error}", text.label()))
    })?;
    let doc = Doc::read(sent.as_bytes(), &Bounds::MESSAGE)
        .map_err(|refusal| Problem::invalid(refusal.message))?;
    let time = policy_time(app.now_us(), &app.zone);
    let client = format!("dashboard ({}) 1", visit.person.name);
    let call = Call {
        subject: Subject::Tool(&view.name),
        args: Some(doc.root()),
        params: None,
        caller: Caller { grant: &view.grant, session: None, client: Some(&client) },
        tool: ToolFacts {
            server: Some(&view.server),
            category: view.category,
            risk: view.risk,
            definition: definition_state(view.state),
            aggregates: connectors::aggregates(&view.server, &view.name),
            aggregate_days_of_grant: None,
        },
        time: time.ok_or_else(|| Problem::internal("the time is out of range"))?,
    };
    let (verdict, steps) = policy.explain(&call);
    let reason = match verdict.decision() {
        Decision::Allow => None,
        Decision::Ask(ask) => Some(ask.reason.clone()),
        Decision::Deny(denial) => Some(denial.reason.clone()),
        Decision::Hidden(hidden) => Some(hidden.denial().reason.clone()),
    };
    let hold = |hold: &policy::Hold| {
        format!(
            "takes {} of {} in {}, counted for each {}",
            hold.amount,
            hold.max,
            span(hold.window_ms / 1000),
            hold.scope.as_str()
        )
    };
    let step = |step: &policy::Step| StepView {
        rule: if step.pointer.is_empty() { "/".to_owned() } else { step.pointer.clone() },
        checked: step.looked_at.clone(),
        finding: step.finding.as_str().to_owned(),
    };
    Ok(VerdictView {
        decision: verdict.decision().as_str(),
        policy: text.label(),
        rule: verdict.rule().to_owned(),
        reason,
        holds: verdict.holds().iter().map(hold).collect(),
        steps: steps.iter().map(step).collect(),
    })
}

fn definition_state(state: &str) -> Definition {
    match state {
        state if state == PinState::Accepted.as_str() => Definition::Unchanged,
        state if state == PinState::New.as_str() => Definition::New,
        state if state == PinState::Conflict.as_str() => Definition::Conflict,
        _ => Definition::Changed,
    }
}

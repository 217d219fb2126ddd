//! Policies for an operator: list, show, and decide a call without making it.

use policy::json::{Bounds, Doc};
use policy::{Call, Caller, Decision, Definition, Policy, Subject, ToolFacts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::registry::{PolicyText, Target};
use store::tool_class;

use super::{Operator, Refusal};
use crate::arguments::NoArgs;

#[derive(Deserialize, JsonSchema)]
pub(super) struct NameArgs {
    /// The name of the policy.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SimulateArgs {
    /// Use this policy. Give either `policy`, or `grant` and `server`.
    policy: Option<String>,
    /// Use the policy of this grant on `server`.
    grant: Option<String>,
    /// The server of the call.
    server: Option<String>,
    #[serde(default)]
    kind: SubjectKind,
    /// The tool, URI, prompt or skill.
    name: String,
    /// The arguments of the call.
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SubjectKind {
    #[default]
    Tool,
    Resource,
    Prompt,
    // By its path, such as `acme/refunds`.
    Skill,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PolicyList {
    policies: Vec<PolicySummary>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PolicySummary {
    name: String,
    version: u64,
    /// `gate.db` or `tollgate.toml`.
    origin: String,
    /// Where it applies, as `grant on server`.
    used_by: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct PolicyDetail {
    #[serde(flatten)]
    summary: PolicySummary,
    /// The text of the policy.
    source: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Simulated {
    policy: String,
    /// `allow`, `ask`, `deny` or `hide`.
    decision: String,
    /// The part of the policy that decided, as a JSON pointer.
    rule: String,
    code: Option<String>,
    reason: Option<String>,
    steps: Vec<StepView>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct StepView {
    rule: String,
    checked: String,
    finding: String,
}

#[expect(
    clippy::unnecessary_wraps,
    clippy::trivially_copy_pass_by_ref,
    reason = "all functions of the table have one form"
)]
pub(super) fn list(operator: &Operator<'_>, _: &NoArgs) -> Result<PolicyList, Refusal> {
    let policies = operator.effective.policies.values();
    Ok(PolicyList { policies: policies.map(|policy| operator.policy_summary(policy)).collect() })
}

pub(super) fn show(operator: &Operator<'_>, args: &NameArgs) -> Result<PolicyDetail, Refusal> {
    let policy = operator.named(&args.name)?;
    Ok(PolicyDetail { summary: operator.policy_summary(policy), source: policy.source.clone() })
}

pub(super) fn simulate(operator: &Operator<'_>, args: &SimulateArgs) -> Result<Simulated, Refusal> {
    let (label, policy) = operator.policy_for(args)?;
    let text = Value::Object(args.arguments.clone()).to_string();
    let doc = Doc::read(text.as_bytes(), &Bounds::MESSAGE)
        .map_err(|refused| Refusal::invalid(format!("`arguments`: {}", refused.message)))?;
    let class = match (args.kind, args.server.as_deref()) {
        (SubjectKind::Tool, Some(server)) => operator.class(server, &args.name),
        _ => None,
    };
    let call = Call {
        subject: match args.kind {
            SubjectKind::Tool => Subject::Tool(&args.name),
            SubjectKind::Resource => Subject::Resource(&args.name),
            SubjectKind::Prompt => Subject::Prompt(&args.name),
            SubjectKind::Skill => Subject::Skill(&args.name),
        },
        args: Some(doc.root()),
        params: None,
        caller: Caller {
            grant: args.grant.as_deref().unwrap_or("unknown"),
            session: None,
            client: None,
        },
        tool: ToolFacts {
            server: args.server.as_deref(),
            category: class.as_ref().map(|class| class.category),
            risk: class.as_ref().map(|class| class.risk),
            aggregates: args
                .server
                .as_deref()
                .is_some_and(|server| crate::aggregates(server, &args.name)),
            definition: match args.kind {
                SubjectKind::Tool | SubjectKind::Skill => Definition::Unchanged,
                SubjectKind::Resource | SubjectKind::Prompt => Definition::Unknown,
            },
            aggregate_days_of_grant: None,
        },
        time: operator.gate.local_time(),
    };
    let (verdict, steps) = policy.explain(&call);
    let denial = match verdict.decision() {
        Decision::Deny(denial) => Some(denial),
        Decision::Hidden(hidden) => Some(hidden.denial()),
        Decision::Allow | Decision::Ask(_) => None,
    };
    let asked = match verdict.decision() {
        Decision::Ask(ask) => Some(ask.reason.clone()),
        _ => None,
    };
    Ok(Simulated {
        policy: label,
        decision: verdict.decision().as_str().to_owned(),
        rule: verdict.rule().to_owned(),
        code: denial.map(|denial| denial.code.as_str().to_owned()),
        reason: denial.map(|denial| denial.reason.clone()).or(asked),
        steps: steps
            .into_iter()
            .map(|step| StepView {
                rule: step.pointer,
                checked: step.looked_at,
                finding: step.finding.as_str().to_owned(),
            })
            .collect(),
    })
}

impl Operator<'_> {
    fn named(&self, name: &str) -> Result<&PolicyText, Refusal> {
        let found = self.effective.policies.get(name);
        found.ok_or_else(|| Refusal::not_found("there is no policy with this name"))
    }

    fn policy_summary(&self, policy: &PolicyText) -> PolicySummary {
        let live = self.effective.grants().iter().filter(|grant| grant.revoked_at_us.is_none());
        let used_by = live.flat_map(|grant| {
            let held = grant.server_access.iter();
            let here = held.filter(|held| held.policy.as_ref() == Some(&policy.name));
            here.map(move |held| format!("{} on {}", grant.label, held.server))
        });
        PolicySummary {
            name: policy.name.clone(),
            version: policy.number(),
            origin: policy.origin.as_str().to_owned(),
            used_by: used_by.collect(),
        }
    }

    /// The policy to decide by, and what to call it.
    fn policy_for(&self, args: &SimulateArgs) -> Result<(String, Policy), Refusal> {
        let (label, source, format) = match (&args.policy, &args.grant, &args.server) {
            (Some(name), None, _) => {
                let text = self.named(name)?;
                (text.label(), text.source.as_str(), text.format)
            }
            (None, Some(grant), Some(server)) => self.policy_of(grant, server)?,
            _ => return Err(Refusal::invalid("give either `policy`, or `grant` and `server`")),
        };
        let policy = Policy::compile(source, format)
            .map_err(|error| Refusal::unavailable(format!("`{label}` does not load: {error}")))?;
        Ok((label, policy))
    }

    fn policy_of(
        &self,
        grant: &str,
        server: &str,
    ) -> Result<(String, &str, policy::Format), Refusal> {
        let found = self.effective.grant(grant);
        let found = found.ok_or_else(|| Refusal::not_found("there is no grant with this label"))?;
        let access = self.effective.access(found, server);
        let access =
            access.ok_or_else(|| Refusal::not_found("the grant has no access to this server"))?;
        if let Some(text) = access.policy {
            return Ok((text.label(), text.source.as_str(), text.format));
        }
        let is_unnamed = found.access(server).is_some_and(|access| access.policy.is_none());
        let built_in = match &access.server.target {
            Target::Builtin { service } if is_unnamed => crate::connector(service),
            _ => None,
        };
        let source = built_in.and_then(crate::Connector::default_policy);
        let source = source.ok_or_else(|| {
            Refusal::not_found("the grant has no policy there, so every call is denied")
        })?;
        Ok((format!("{server} (built in)"), source, policy::Format::Json))
    }

    fn class(&self, server: &str, tool: &str) -> Option<tool_class::ToolClass> {
        let pins = self.gate.registry.pins(server).ok()?;
        let pin = pins.iter().find(|pin| pin.tool == tool)?;
        tool_class::class(server, pin, &pins)
    }
}

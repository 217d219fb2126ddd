//! Decides whether a call may happen. Nothing here waits, reads or writes. Deciding and explaining are
//! the same walk over the rules; only the recorder differs.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::call::{Call, Definition, Subject, ToolFacts, described};
use crate::condition::{APPROVAL_SECONDS, Quantifier, Rule};
use crate::entry::{Action, Entry, OnChange, Rules};
use crate::explain::{Finding, May, Recorder, Silent, Step, Trace};
use crate::limits::Limit;
use crate::names::Name;
use crate::pointer;
use crate::policy::{AGGREGATE_ONLY, Found, Policy, hide_pointer};
use crate::predict::{ArgumentRules, Prediction};
use crate::reached::{ReachedRule, ReachedRules};
use crate::truth_value::TruthValue;
use crate::verdict::{Ask, Code, Decision, Denial, Effects, HiddenAs, Hold, Verdict, Via};

impl Policy {
    /// The decision of this policy for this call.
    pub fn decide(&self, call: &Call<'_>) -> Verdict {
        Walk::new(self, call, Silent).run().0
    }

    /// The same decision with every step that led to it.
    pub fn explain(&self, call: &Call<'_>) -> (Verdict, Vec<Step>) {
        let (verdict, trace) = Walk::new(self, call, Trace::default()).run();
        (verdict, trace.steps)
    }

    /// What can be said about a call whose arguments are unknown; the arguments of `call` are ignored.
    pub fn predict(&self, call: &Call<'_>) -> Prediction {
        let (verdict, foresight) = Walk::new(self, call, ArgumentRules::default()).run();
        foresight.into_prediction(verdict)
    }

    /// The rules that the walk reaches for a call whose arguments are unknown, in order; the arguments of
    /// `call` are ignored.
    pub fn reached(&self, call: &Call<'_>) -> Vec<ReachedRule> {
        Walk::new(self, call, ReachedRules::default()).run().1.rules
    }
}

/// Continues with a value, or stops with the verdict.
type Flow<T> = ControlFlow<Verdict, T>;

/// Where rules come from: an entry, or `all_tools`.
struct Source<'w> {
    rules: &'w Rules,
    entry: Option<&'w Entry>,
}

impl Source<'_> {
    /// The owner's message: that of the rule, otherwise that of the entry.
    fn reason(&self, rule: &Rule) -> Option<String> {
        let reason = self.entry.and_then(|entry| entry.reason.as_deref());
        rule.on_deny.as_deref().or(reason).map(str::to_owned)
    }
}

struct Walk<'w, R> {
    policy: &'w Policy,
    call: &'w Call<'w>,
    recorder: R,
    warnings: Vec<String>,
}

impl<'w, R: Recorder> Walk<'w, R> {
    fn new(policy: &'w Policy, call: &'w Call<'w>, recorder: R) -> Self {
        Walk { policy, call, recorder, warnings: Vec::new() }
    }

    fn run(mut self) -> (Verdict, R) {
        let mut verdict = match self.order() {
            ControlFlow::Break(verdict) | ControlFlow::Continue(verdict) => verdict,
        };
        if !self.warnings.is_empty() {
            verdict.warning = Some(self.warnings.join("; "));
        }
        (verdict, self.recorder)
    }

    /// The order of the language: hidden, entry or default, `require`, `deny_if`, `aggregate_only`,
    /// definition, approvals, limits. Denials come before approvals, and amounts that cannot be counted deny even then.
    fn order(&mut self) -> Flow<Verdict> {
        let entry = self.entry()?;
        self.require(entry)?;
        self.deny_if(entry)?;
        let aggregate_days = self.aggregate_only()?;
        self.definition(entry)?;
        let ask = self.approval(entry);
        let holds = self.limits(entry)?;
        let effects = entry.map_or_else(Effects::default, |entry| entry.effects.clone());
        let (decision, rule) = match ask {
            Some(ask) => {
                let rule = Arc::from(ask.rule.as_str());
                (Decision::Ask(ask), rule)
            }
            None => (Decision::Allow, self.allowing_rule(entry)),
        };
        Flow::Continue(Verdict { decision, rule, holds, effects, warning: None, aggregate_days })
    }

    fn allowing_rule(&mut self, entry: Option<&Entry>) -> Arc<str> {
        let rule = entry.map_or(&self.policy.default_rule, |entry| &entry.pointer);
        self.note(rule, "no rule denies it", Finding::Allows);
        Arc::clone(rule)
    }

    fn note(&mut self, pointer: &str, looked_at: &str, finding: Finding) {
        self.recorder.note(|| Step {
            pointer: pointer.to_owned(),
            looked_at: looked_at.to_owned(),
            finding,
        });
    }

    /// The entry for the name; none when the default allows it.
    fn entry(&mut self) -> Flow<Option<&'w Entry>> {
        let subject = self.call.subject;
        let name = Name::of(subject.name());
        if let Some(deceptive) = name.deceptive {
            self.warnings.push(format!(
                "the name of {} {}",
                described(subject),
                deceptive.message()
            ));
        }
        match self.policy.find(subject, &name) {
            Found::Hidden(index) => {
                let pointer = hide_pointer(index);
                self.note(&pointer, "the name", Finding::Hides);
                Flow::Break(self.hidden(&pointer))
            }
            Found::Entry(entry) => {
                self.note(&entry.pointer, "the name", Finding::Matches);
                self.action(entry)?;
                Flow::Continue(Some(entry))
            }
            Found::Doubtful(pointer) => {
                self.note(&pointer, "a name it could be confused with", Finding::Denies);
                let reason = format!(
                    "{} could be taken for a name that the policy speaks of; \
                     the owner can name it exactly to allow it",
                    self.described()
                );
                Flow::Break(deny(Code::DeniedByRule, &pointer, reason))
            }
            Found::Nothing => self.by_default(),
        }
    }

    /// What happens to a name without an entry.
    fn by_default(&mut self) -> Flow<Option<&'w Entry>> {
        self.note("/default", "the name; no entry matches", Finding::NoMatch);
        if self.policy.allows_unnamed {
            return Flow::Continue(None);
        }
        self.note("/default", "the default", Finding::Denies);
        let reason = format!(
            "no rule allows {}; this policy denies what it does not name",
            self.described()
        );
        Flow::Break(deny(Code::DeniedByDefault, "/default", reason))
    }

    /// `deny` and `hide` end the walk before any rule is evaluated.
    fn action(&mut self, entry: &Entry) -> Flow<()> {
        if !matches!(entry.action, Action::Deny | Action::Hide) {
            return Flow::Continue(());
        }
        let pointer = pointer::member(&entry.pointer, "action");
        if entry.action == Action::Hide {
            self.note(&pointer, "the action", Finding::Hides);
            return Flow::Break(self.hidden(&pointer));
        }
        self.note(&pointer, "the action", Finding::Denies);
        let reason = match &entry.reason {
            Some(reason) => reason.to_string(),
            None => format!("{} is denied by the policy", self.described()),
        };
        Flow::Break(deny(Code::DeniedByRule, &pointer, reason))
    }

    /// The agent gets the same response as for a name that does not exist; the audit row names the
    /// rule.
    fn hidden(&self, pointer: &str) -> Verdict {
        let definition = match self.call.subject {
            Subject::Tool(_) => Definition::New,
            _ => Definition::Unknown,
        };
        // No fact about the real one may leak.
        let tool = ToolFacts { definition, ..ToolFacts::default() };
        let call = Call { tool, ..*self.call };
        let told = match Walk::new(self.policy, &call, Silent).made_up() {
            Flow::Break(Verdict { decision: Decision::Deny(denial), .. })
                if denial.code != Code::ToolChanged =>
            {
                HiddenAs::Denied(denial)
            }
            _ => {
                let reason = format!("unknown {}", self.described());
                HiddenAs::Unknown(Denial::new(Code::DeniedByDefault, "/default", reason))
            }
        };
        Verdict::refusing(Decision::Hidden(told), pointer.into())
    }

    /// The same order for a name without an exact entry, as far as it can stop a call.
    fn made_up(&mut self) -> Flow<()> {
        let entry = match self.policy.find_for_made_up(self.call.subject) {
            Some(entry) => {
                self.action(entry)?;
                Some(entry)
            }
            None => self.by_default()?,
        };
        self.require(entry)?;
        self.deny_if(entry)?;
        self.aggregate_only()?;
        self.definition(entry)?;
        self.limits(entry).map_continue(drop)
    }

    fn described(&self) -> String {
        described(self.call.subject)
    }

    /// The rules for all tools, then the entry's own. Resources, prompts and skills have only their own.
    fn rules(&self, entry: Option<&'w Entry>) -> impl Iterator<Item = Source<'w>> + use<'w, R> {
        let shared =
            matches!(self.call.subject, Subject::Tool(_)).then_some(&self.policy.all_tools);
        let own = entry.map(|entry| Source { rules: &entry.rules, entry: Some(entry) });
        shared.map(|rules| Source { rules, entry: None }).into_iter().chain(own)
    }

    fn require(&mut self, entry: Option<&'w Entry>) -> Flow<()> {
        for source in self.rules(entry) {
            for rule in &source.rules.require {
                let truth = rule.truth(self.call, Quantifier::Every, &mut self.recorder);
                let Some(truth) = truth else {
                    self.recorder.may(May::Deny, &rule.pointer);
                    continue;
                };
                if truth != TruthValue::Holds {
                    let needs = || format!("{} needs {}", self.described(), rule.reason());
                    let reason = source.reason(rule).unwrap_or_else(needs);
                    self.note(&rule.pointer, "what is required", Finding::Denies);
                    return Flow::Break(deny(Code::DeniedByRule, &rule.pointer, reason));
                }
            }
        }
        Flow::Continue(())
    }

    fn deny_if(&mut self, entry: Option<&'w Entry>) -> Flow<()> {
        for source in self.rules(entry) {
            for rule in &source.rules.deny_if {
                let truth = rule.truth(self.call, Quantifier::Any, &mut self.recorder);
                let Some(truth) = truth else {
                    self.recorder.may(May::Deny, &rule.pointer);
                    continue;
                };
                if truth != TruthValue::Fails {
                    let because = || self.denied_because(rule, truth);
                    let reason = source.reason(rule).unwrap_or_else(because);
                    self.note(&rule.pointer, "what is denied", Finding::Denies);
                    return Flow::Break(deny(Code::DeniedByRule, &rule.pointer, reason));
                }
            }
        }
        Flow::Continue(())
    }

    fn denied_because(&self, rule: &Rule, truth: TruthValue) -> String {
        let (subject, reason) = (self.described(), rule.reason());
        match truth {
            _ if reason.is_empty() => format!("{subject} is denied by the policy"),
            TruthValue::Indeterminate => format!(
                "{subject} is denied because the policy cannot tell whether {reason}; \
                 send plain values of the expected type"
            ),
            _ => format!("{subject} is denied because {reason}"),
        }
    }

    /// Where only aggregates may leave, a subject that does not declare that it honours the bound is denied.
    fn aggregate_only(&mut self) -> Flow<Option<u32>> {
        let honours = matches!(self.call.subject, Subject::Tool(_)) && self.call.tool.aggregates;
        let of_grant = self.call.tool.aggregate_days_of_grant.filter(|_| honours);
        let Some(days) = self.policy.aggregate_days else { return Flow::Continue(of_grant) };
        if honours {
            self.note(AGGREGATE_ONLY, "whether it honours the bound", Finding::Matches);
            return Flow::Continue(of_grant.max(Some(days)));
        }
        self.note(AGGREGATE_ONLY, "whether it honours the bound", Finding::Denies);
        let reason = format!(
            "{} is denied because only aggregates of at least {days} days may leave this server; \
             call a tool that says in its description that it honours `aggregate_only`",
            self.described()
        );
        Flow::Break(deny(Code::DeniedByRule, AGGREGATE_ONLY, reason))
    }

    fn definition(&mut self, entry: Option<&Entry>) -> Flow<()> {
        let (state, next) = match self.call.tool.definition {
            Definition::Unchanged | Definition::Unknown => return Flow::Continue(()),
            Definition::Changed => ("changed since the owner accepted it", "accept it again"),
            Definition::New => ("is new and the owner has not accepted it", "accept it"),
            Definition::Conflict => {
                ("is offered more than once under one name", "have the server offer one of them")
            }
        };
        let text = format!("{} {state}", self.described());
        let (on_change, pointer) = match entry.and_then(|entry| Some((entry.on_change?, entry))) {
            Some((own, entry)) => (own, pointer::member(&entry.pointer, "on_change")),
            None => (self.policy.on_change, "/on_change".to_owned()),
        };
        match on_change {
            OnChange::Allow => Flow::Continue(()),
            OnChange::Warn => {
                self.note(&pointer, "the definition", Finding::Warns);
                self.warnings.push(text);
                Flow::Continue(())
            }
            OnChange::Refuse => {
                self.note(&pointer, "the definition", Finding::Denies);
                let server = self.call.tool.server.unwrap_or("SERVER");
                let reason = format!(
                    "{text}; the owner can look at the difference (`tollgate server pins {server}`) and {next}"
                );
                Flow::Break(deny(Code::ToolChanged, &pointer, reason))
            }
        }
    }

    /// The first that requires the owner's approval: a rule of `all_tools`, the entry's action, a rule of the
    /// entry. Only if there is none, the first that asks the client's user.
    fn approval(&mut self, entry: Option<&'w Entry>) -> Option<Ask> {
        let mut of_client = None;
        for source in self.rules(entry) {
            if let Some(ask) = source.entry.and_then(|entry| self.ask_by_action(entry)) {
                return Some(ask);
            }
            for rule in &source.rules.approve_if {
                let truth = rule.truth(self.call, Quantifier::Any, &mut self.recorder);
                let Some(truth) = truth else {
                    self.recorder.may(May::Ask, &rule.pointer);
                    continue;
                };
                if truth != TruthValue::Fails {
                    let reason = source.reason(rule).unwrap_or_else(|| self.needs_approval());
                    if rule.via == Via::Owner {
                        return Some(self.ask(&rule.pointer, reason, rule.timeout_seconds));
                    }
                    of_client = of_client.or(Some((rule, reason)));
                }
            }
        }
        let (rule, reason) = of_client?;
        let ask = self.ask(&rule.pointer, reason, rule.timeout_seconds);
        Some(Ask { via: Via::Client, ..ask })
    }

    fn ask_by_action(&mut self, entry: &Entry) -> Option<Ask> {
        if entry.action != Action::RequireApproval {
            return None;
        }
        let pointer = pointer::member(&entry.pointer, "action");
        let reason = entry.reason.as_deref().map_or_else(|| self.needs_approval(), str::to_owned);
        Some(self.ask(&pointer, reason, APPROVAL_SECONDS))
    }

    fn ask(&mut self, pointer: &str, reason: String, timeout_seconds: u64) -> Ask {
        self.note(pointer, "what a human decides", Finding::Asks);
        Ask { rule: pointer.to_owned(), reason, timeout_seconds, via: Via::Owner }
    }

    fn needs_approval(&self) -> String {
        format!("{} needs the owner's approval", self.described())
    }

    fn limits(&mut self, entry: Option<&'w Entry>) -> Flow<Vec<Hold>> {
        let count = self.rules(entry).map(|source| source.rules.limits.len()).sum();
        let mut holds = Vec::with_capacity(count);
        for source in self.rules(entry) {
            for limit in &source.rules.limits {
                if !R::KNOWS_ARGUMENTS && limit.counts_arguments() {
                    self.recorder.may(May::Deny, &limit.pointer);
                    continue;
                }
                holds.push(self.hold(limit)?);
            }
        }
        Flow::Continue(holds)
    }

    fn hold(&mut self, limit: &Limit) -> Flow<Hold> {
        match limit.hold(self.call) {
            Ok(hold) => {
                self.note(&limit.pointer, "what the call counts", Finding::Holds);
                Flow::Continue(hold)
            }
            Err(why) => {
                self.note(&limit.pointer, "what the call counts", Finding::Denies);
                let reason = format!("{} is denied because {why}", self.described());
                Flow::Break(deny(Code::DeniedByRule, &limit.pointer, reason))
            }
        }
    }
}

fn deny(code: Code, rule: &str, reason: String) -> Verdict {
    Verdict::refusing(Decision::Deny(Denial::new(code, rule, reason)), rule.into())
}

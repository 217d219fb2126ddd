//! The tests inside a policy. They run through the same walk as every call.

use crate::call::{Call, Caller, Definition, LocalTime, Subject, ToolFacts, Weekday};
use crate::json::Doc;
use crate::loader::Loader;
use crate::pointer;
use crate::policy::Policy;
use crate::problem::{Complaint, Position, Problem};
use crate::shape::whole;
use crate::tree::{BOUNDS, Node, NodeValue};

/// One test, with defaults filled in.
#[derive(Debug)]
pub(crate) struct SelfTest {
    position: Position,
    pointer: String,
    name: String,
    kind: TargetKind,
    target: String,
    args: Option<String>,
    params: Option<String>,
    grant: String,
    session: String,
    client: Option<String>,
    category: Option<String>,
    risk: Option<String>,
    definition: Definition,
    aggregates: bool,
    time: LocalTime,
    expected: String,
    rule: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum TargetKind {
    Tool,
    Resource,
    Prompt,
    Skill,
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestOutcome {
    pub name: String,
    /// JSON pointer of the test.
    pub pointer: String,
    pub line: usize,
    pub column: usize,
    pub passed: bool,
    /// `allow`, `deny`, `ask` or `hide`.
    pub expected: String,
    pub got: String,
    pub expected_rule: Option<String>,
    /// JSON pointer of the rule that decided.
    pub rule: String,
}

impl TestOutcome {
    pub(crate) fn to_problem(&self) -> Problem {
        let by = |rule: &Option<String>| rule.as_ref().map(|rule| format!(" by `{rule}`"));
        let words = format!(
            "the test `{}` expects {}{}, got {} by `{}`",
            self.name,
            self.expected,
            by(&self.expected_rule).unwrap_or_default(),
            self.got,
            self.rule
        );
        let position = Position { line: self.line, column: self.column };
        Problem::new(position, self.pointer.as_str(), Complaint::new(words))
    }
}

impl Policy {
    /// Runs the policy's own tests, in order.
    pub fn run_tests(&self) -> Vec<TestOutcome> {
        self.tests.iter().map(|test| test.run(self)).collect()
    }
}

impl SelfTest {
    fn run(&self, policy: &Policy) -> TestOutcome {
        // The arguments were read once with these bounds, so they are read again.
        let doc = self.args.as_ref().and_then(|args| Doc::read(args.as_bytes(), &BOUNDS).ok());
        let params = self.params.as_ref();
        let params = params.and_then(|params| Doc::read(params.as_bytes(), &BOUNDS).ok());
        let target = self.target.as_str();
        let call = Call {
            subject: match self.kind {
                TargetKind::Tool => Subject::Tool(target),
                TargetKind::Resource => Subject::Resource(target),
                TargetKind::Prompt => Subject::Prompt(target),
                TargetKind::Skill => Subject::Skill(target),
            },
            args: doc.as_ref().map(Doc::root),
            params: params.as_ref().map(Doc::root),
            caller: Caller {
                grant: &self.grant,
                session: Some(&self.session),
                client: self.client.as_deref(),
            },
            tool: ToolFacts {
                category: self.category.as_deref(),
                risk: self.risk.as_deref(),
                definition: self.definition,
                server: None,
                aggregates: self.aggregates,
                aggregate_days_of_grant: None,
            },
            time: self.time,
        };
        let verdict = policy.decide(&call);
        let got = verdict.decision().as_str();
        let by_rule = self.rule.as_deref().is_none_or(|rule| rule == verdict.rule());
        TestOutcome {
            name: self.name.clone(),
            pointer: self.pointer.clone(),
            line: self.position.line,
            column: self.position.column,
            passed: got == self.expected && by_rule,
            expected: self.expected.clone(),
            got: got.to_owned(),
            expected_rule: self.rule.clone(),
            rule: verdict.rule().to_owned(),
        }
    }
}

pub(crate) fn compile(list: Option<&Node>, loader: &mut Loader) -> Vec<SelfTest> {
    let tests = list.map(Node::items).unwrap_or_default().iter().enumerate();
    tests.filter_map(|(index, node)| compile_test(node, index, loader)).collect()
}

fn compile_test(node: &Node, index: usize, loader: &mut Loader) -> Option<SelfTest> {
    let pointer = pointer::item("/tests", index);
    let (kind, target) = loader.take(node, &pointer, read_target(node))?;
    let own = |name: &str| node.text_of(name).map(str::to_owned);
    let caller = |name: &str| node.get("caller").and_then(|caller| caller.text_of(name));
    let caller_or_default = |name: &str| caller(name).unwrap_or("test").to_owned();
    Some(SelfTest {
        position: node.position,
        name: own("name").unwrap_or_else(|| format!("test {index}")),
        kind,
        target,
        args: node.get("args").map(Node::to_json),
        params: node.get("params").map(Node::to_json),
        grant: caller_or_default("grant"),
        session: caller_or_default("session"),
        client: caller("client").map(str::to_owned),
        category: own("category"),
        risk: own("risk"),
        definition: read_definition(node),
        aggregates: node.get("aggregates").is_some_and(|node| node.value == NodeValue::Bool(true)),
        time: read_time(node.get("time")),
        expected: read_expected(node.text_of("expect")?),
        rule: own("rule"),
        pointer,
    })
}

fn read_target(node: &Node) -> Result<(TargetKind, String), Complaint> {
    let kinds = [
        ("tool", TargetKind::Tool),
        ("resource", TargetKind::Resource),
        ("prompt", TargetKind::Prompt),
        ("skill", TargetKind::Skill),
    ];
    let mut found = kinds.iter().filter_map(|(field, kind)| Some((*kind, node.text_of(field)?)));
    match (found.next(), found.next()) {
        (Some((kind, target)), None) => Ok((kind, target.to_owned())),
        _ => Err(Complaint::new("a test needs one of `tool`, `resource`, `prompt` and `skill`")),
    }
}

/// The name of the action is accepted for the decision too.
fn read_expected(word: &str) -> String {
    if word == "require_approval" { "ask".to_owned() } else { word.to_owned() }
}

fn read_definition(node: &Node) -> Definition {
    match node.text_of("definition") {
        Some("changed") => Definition::Changed,
        Some("new") => Definition::New,
        Some("conflict") => Definition::Conflict,
        _ => Definition::Unchanged,
    }
}

fn read_time(node: Option<&Node>) -> LocalTime {
    let hour = node.and_then(|time| whole(time.get("hour")?)).and_then(|hour| hour.try_into().ok());
    let weekday = node.and_then(|time| Weekday::from_name(time.text_of("weekday")?));
    LocalTime { hour: hour.unwrap_or(12), weekday: weekday.unwrap_or(Weekday::Monday) }
}

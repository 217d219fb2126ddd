//! Every field of the language, as tables. A new field is a new row here, read where its object is compiled.

use crate::shape::{Field, Object, Shape};

/// Every kind of object, outermost first.
pub fn fields() -> &'static [&'static Object] {
    &OBJECTS
}

static OBJECTS: [&Object; 11] = [
    &POLICY,
    &ALL_TOOLS,
    &ENTRY,
    &RULE,
    &APPROVAL_RULE,
    &CONDITION,
    &LIMIT,
    &RATE_LIMIT,
    &TEST,
    &CALLER,
    &TIME,
];

const fn required(name: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { name, required: true, shape, description }
}

const fn optional(name: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { name, required: false, shape, description }
}

pub(crate) const DEFAULTS: &[&str] = &["deny", "allow"];
pub(crate) const ACTIONS: &[&str] = &["allow", "deny", "hide", "require_approval"];
pub(crate) const ON_CHANGE: &[&str] = &["refuse", "warn", "allow"];
pub(crate) const SERVER_REQUESTS: &[&str] = &["elicitation", "sampling", "roots"];
pub(crate) const SCOPES: &[&str] = &["grant", "session", "server", "everyone"];
pub(crate) const WINDOWS: &[&str] = &["second", "minute", "hour", "day"];
pub(crate) const VIA: &[&str] = &["owner", "client"];
/// The decisions, and the action that leads to `ask`.
pub(crate) const EXPECTATIONS: &[&str] = &["allow", "deny", "ask", "hide", "require_approval"];
/// The longest block of days that aggregates are made of.
const AGGREGATE_DAYS_MAX: u64 = 448;
const DEFINITIONS: &[&str] = &["unchanged", "changed", "new", "conflict"];
const WEEKDAYS: &[&str] =
    &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const RULES: Shape = Shape::List(&Shape::Object(&RULE));
const APPROVAL_RULES: Shape = Shape::List(&Shape::Object(&APPROVAL_RULE));
const LIMITS: Shape = Shape::List(&Shape::Object(&LIMIT));

const REQUIRE: Field = optional("require", RULES, "every rule must hold");
const DENY_IF: Field = optional("deny_if", RULES, "any rule that holds denies");
const APPROVE_IF: Field =
    optional("approve_if", APPROVAL_RULES, "any rule that holds asks a human");
const LIMITS_FIELD: Field =
    optional("limits", LIMITS, "how much is admitted in any interval; all are held, or none");
const ON_CHANGE_WORDS: &str = "what happens to a tool or skill whose definition is new or changed since the owner accepted it; `refuse` unless said";

pub(crate) static POLICY: Object = Object {
    name: "policy",
    description: "the whole document",
    fields: &[
        required("version", Shape::Word(&["1"]), "the version of the language, as text"),
        required("default", Shape::Word(DEFAULTS), "what happens to names that no entry names"),
        optional("$schema", Shape::Text, "where an editor finds the schema; not read"),
        optional("description", Shape::Text, "what this policy is for"),
        optional(
            "hide",
            Shape::List(&Shape::Pattern),
            "left out of lists; a call is answered like a call to something that does not exist",
        ),
        optional("all_tools", Shape::Object(&ALL_TOOLS), "rules for every tool, before its own"),
        optional("tools", Shape::Named(&ENTRY), "tools by exact name or glob; `{}` allows"),
        optional("resources", Shape::Named(&ENTRY), "resources by URI or glob; `{}` allows"),
        optional("prompts", Shape::Named(&ENTRY), "prompts by exact name or glob; `{}` allows"),
        optional(
            "skills",
            Shape::Named(&ENTRY),
            "skills by path or glob, such as `acme/refunds` for `skill://acme/refunds/SKILL.md`; `{}` allows the skill and its files",
        ),
        optional("on_change", Shape::Word(ON_CHANGE), ON_CHANGE_WORDS),
        optional(
            "aggregate_only",
            Shape::Whole(AGGREGATE_DAYS_MAX),
            "only aggregates of at least so many days leave; tools that cannot aggregate, resources, prompts and skills are denied",
        ),
        optional(
            "server_requests",
            Shape::List(&Shape::Word(SERVER_REQUESTS)),
            "what a server may ask of the client; everything unless said",
        ),
        optional("tests", Shape::List(&Shape::Object(&TEST)), "run whenever the policy is loaded"),
    ],
};

pub(crate) static ALL_TOOLS: Object = Object {
    name: "all_tools",
    description: "rules for every tool, looked at before the tool's own",
    fields: &[REQUIRE, DENY_IF, APPROVE_IF, LIMITS_FIELD],
};

pub(crate) static ENTRY: Object = Object {
    name: "entry",
    description: "what holds for one name, or for the names of one glob",
    fields: &[
        optional("action", Shape::Word(ACTIONS), "`allow` unless said; `deny` stays visible"),
        optional("reason", Shape::Text, "shown to the agent when this entry stops a call"),
        REQUIRE,
        DENY_IF,
        APPROVE_IF,
        LIMITS_FIELD,
        optional("rate_limit", Shape::Object(&RATE_LIMIT), "short form of one limit per grant"),
        optional(
            "redact",
            Shape::List(&Shape::ResultPath),
            "removed from the result before the agent sees it",
        ),
        optional(
            "result_bytes_max",
            Shape::Whole(u64::MAX),
            "a larger result is refused with a clear error, never cut",
        ),
        optional("on_change", Shape::Word(ON_CHANGE), ON_CHANGE_WORDS),
    ],
};

const CONDITION_LIST: Shape = Shape::List(&Shape::Object(&CONDITION));
const CONDITIONS: Field =
    required("conditions", CONDITION_LIST, "all must hold; an empty list always holds");
const ON_DENY: Field = optional("on_deny", Shape::Text, "what the agent is told");

pub(crate) static RULE: Object = Object {
    name: "rule",
    description: "conditions and what to say",
    fields: &[CONDITIONS, ON_DENY],
};

pub(crate) static APPROVAL_RULE: Object = Object {
    name: "approval rule",
    description: "a rule of `approve_if`",
    fields: &[
        CONDITIONS,
        ON_DENY,
        optional("timeout", Shape::Duration(&[]), "when the question ends; 30 minutes unless said"),
        optional(
            "via",
            Shape::Word(VIA),
            "who decides; `owner` unless said. `client` asks the client's own user, if the client can ask",
        ),
    ],
};

pub(crate) static CONDITION: Object = Object {
    name: "condition",
    description: "one comparison",
    fields: &[
        required(
            "path",
            Shape::Path,
            "what is looked at: `args…`, `params…`, `caller.grant`, `caller.session`, `caller.client`, `tool.category`, `tool.risk`, `time.hour`, `time.weekday`",
        ),
        required("op", Shape::Operator, "how it is compared"),
        optional("value", Shape::Operand, "what it is compared with"),
        optional(
            "missing",
            Shape::Word(&["match"]),
            "with `match` the condition holds when the value is missing",
        ),
    ],
};

const MAX: Field = required("max", Shape::Amount, "the most that is admitted in any interval");
const SCOPE: Shape = Shape::Word(SCOPES);

pub(crate) static LIMIT: Object = Object {
    name: "limit",
    description: "a cap on calls, or on an amount in their arguments",
    fields: &[
        required("window", Shape::Duration(WINDOWS), "the length of the interval"),
        MAX,
        optional("counter", Shape::Text, "limits with one counter and scope share an allowance"),
        optional("scope", SCOPE, "who shares the counter; `grant` unless said"),
        optional(
            "increment",
            Shape::Either(&Shape::Amount, &Shape::Path),
            "what a call counts: a number, or a path such as `args.amount`; 1 unless said",
        ),
        ON_DENY,
    ],
};

pub(crate) static RATE_LIMIT: Object = Object {
    name: "rate_limit",
    description: "short form of one limit",
    fields: &[
        MAX,
        required("window", Shape::Duration(WINDOWS), "the length of the interval, in seconds"),
        optional("scope", SCOPE, "who shares the counter; `grant` unless said"),
        ON_DENY,
    ],
};

pub(crate) static TEST: Object = Object {
    name: "test",
    description: "a call and what must come of it",
    fields: &[
        required("expect", Shape::Word(EXPECTATIONS), "the decision; `require_approval` is `ask`"),
        optional("name", Shape::Text, "what the test shows"),
        optional("tool", Shape::Text, "the tool that is called"),
        optional("resource", Shape::Text, "or the URI that is read"),
        optional("prompt", Shape::Text, "or the prompt that is fetched"),
        optional("skill", Shape::Text, "or the skill that is read"),
        optional("args", Shape::Data, "the arguments; none unless said"),
        optional(
            "params",
            Shape::Data,
            "all params of the request, for paths that begin with `params`; none unless said",
        ),
        optional("rule", Shape::Text, "JSON pointer of the rule that must decide"),
        optional("caller", Shape::Object(&CALLER), "who calls"),
        optional("time", Shape::Object(&TIME), "when; Monday at 12 unless said"),
        optional("category", Shape::Text, "`tool.category`; missing unless said"),
        optional("risk", Shape::Text, "`tool.risk`; missing unless said"),
        optional(
            "aggregates",
            Shape::Bool,
            "whether the server declares that the tool honours `aggregate_only`; false unless said",
        ),
        optional(
            "definition",
            Shape::Word(DEFINITIONS),
            "how the tool's definition stands; `unchanged` unless said",
        ),
    ],
};

pub(crate) static CALLER: Object = Object {
    name: "caller",
    description: "who calls, in a test",
    fields: &[
        optional("grant", Shape::Text, "`caller.grant`; `test` unless said"),
        optional("session", Shape::Text, "`caller.session`; `test` unless said"),
        optional("client", Shape::Text, "`caller.client`; missing unless said"),
    ],
};

pub(crate) static TIME: Object = Object {
    name: "time",
    description: "the owner's time, in a test",
    fields: &[
        optional("hour", Shape::Whole(23), "`time.hour`; 12 unless said"),
        optional("weekday", Shape::Word(WEEKDAYS), "`time.weekday`; `monday` unless said"),
    ],
};

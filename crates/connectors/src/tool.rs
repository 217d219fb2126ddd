//! A tool: its row in a service's table, the types of its arguments and output, and its answer.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use insights::BlockLength;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Caller, ConnectorContext, GateStores, JsonText, sync};

/// One row of a service's table.
#[derive(Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub effect: Effect,
    /// The tool set it is shown in: `main`, `classic` and so on.
    pub set: &'static str,
    /// Whether it sends requests outside this machine.
    pub reach: Reach,
    /// What the owner must have granted for it to work.
    pub scopes: &'static [&'static str],
    /// It honours `aggregate_only`: with a bound it answers from means of whole blocks of days alone, or its
    /// answer has no data of any day.
    pub aggregates: bool,
    pub(crate) handler: Handler,
}

impl Tool {
    pub fn input_schema(&self) -> Value {
        (self.handler.input)()
    }

    pub fn output_schema(&self) -> Value {
        (self.handler.output)()
    }
}

/// The function of a tool, with the schemas of its types.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) input: fn() -> Value,
    pub(crate) output: fn() -> Value,
    pub(crate) run: Run,
}

/// Whether a tool sends requests outside this machine; becomes MCP's `openWorldHint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It answers from local data.
    Here,
    /// It sends requests to a service on the internet, or may have to.
    Outside,
}

/// The set whose tools are shown unless another is asked for.
pub const MAIN_SET: &str = "main";

/// What a tool does to the world; becomes the MCP annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Adds,
    Destroys,
    /// Starts work that changes nothing of the owner's at a service, such as a sync or an export.
    Runs,
}

/// An effect in the words of MCP's annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
}

impl Effect {
    pub fn hints(self) -> Hints {
        Hints {
            read_only: self == Effect::Reads,
            destructive: self == Effect::Destroys,
            idempotent: matches!(self, Effect::Reads | Effect::Runs),
        }
    }
}

/// What the function of a tool works with, besides its arguments.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    pub ctx: &'a ConnectorContext,
    pub caller: &'a Caller,
    /// The stores of the gate, for the operator server only.
    pub gate: Option<&'a GateStores>,
    /// Receives the progress of long work, where the caller wants it.
    pub on_progress: Option<sync::OnProgress<'a>>,
    /// Only means of whole blocks of this length may leave. Set from the permit, whatever the caller says.
    pub bound: Option<BlockLength>,
}

pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
pub(crate) type Run = for<'a> fn(ToolCall<'a>, &'a Map<String, Value>) -> AnswerFuture<'a>;

/// The answer of a tool.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// A value, shown structured and as compact JSON text.
    Found(Value),
    /// The same with the JSON text already built: an object.
    Json(Arc<JsonText>),
    /// A plain sentence, with the value behind it.
    Text { text: String, value: Value },
    /// A failure; the agent sees an error.
    Failed { code: &'static str, message: String },
    /// A failure with a code: an error shown structured and as text.
    Refused(Value),
}

impl From<Value> for Answer {
    fn from(value: Value) -> Answer {
        Answer::Found(value)
    }
}

/// What the function of a tool returns: an output, with or without a text for people.
pub(crate) trait ToolOutput {
    type Output: Serialize + JsonSchema;

    fn into_parts(self) -> (Option<String>, Self::Output);
}

/// An output that is shown as JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize + JsonSchema> ToolOutput for Json<T> {
    type Output = T;

    fn into_parts(self) -> (Option<String>, T) {
        (None, self.0)
    }
}

/// A text for people, shown as it is and under `result` after the data.
#[derive(Debug)]
pub(crate) struct Text<T> {
    pub(crate) text: String,
    pub(crate) data: T,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WithResult<T> {
    #[serde(flatten)]
    data: T,
    result: String,
}

impl<T: Serialize + JsonSchema> ToolOutput for Text<T> {
    type Output = WithResult<T>;

    fn into_parts(self) -> (Option<String>, WithResult<T>) {
        (Some(self.text.clone()), WithResult { data: self.data, result: self.text })
    }
}

// The data of a tool that has only a text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NoData {}

impl From<String> for Text<NoData> {
    fn from(text: String) -> Text<NoData> {
        Text { text, data: NoData {} }
    }
}

/// The status of an output that always says `success`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Success;

impl Serialize for Success {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("success")
    }
}

impl JsonSchema for Success {
    fn schema_name() -> Cow<'static, str> {
        "Success".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": "success" })
    }
}

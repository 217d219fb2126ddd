//! Runs WHOOP's tools: parses arguments, and shows outputs and failures as clients know them.

use std::future::{Future, ready};
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::problem::WhoopProblem;
use crate::arguments::{self, BadArgument, Blank};
use crate::tool::Json;
use crate::{Answer, AnswerFuture, JsonText, ToolCall, schema};

/// The handler of a function `async fn(ToolCall, Args) -> Result<impl Shown, impl Failure>`.
macro_rules! handler {
    ($function:expr) => {
        $crate::tool::Handler {
            input: || $crate::whoop::handler::input_schema($function),
            output: || $crate::whoop::handler::output_schema($function),
            run: |call, arguments| $crate::whoop::handler::run(call, arguments, $function),
        }
    };
}
pub(super) use handler;

/// Why a tool has no result.
pub(super) trait Failure: From<BadArgument> {
    fn into_answer(self) -> Answer;

    /// Writes the properties of an input schema as clients know them.
    fn adapt_property(property: &mut Map<String, Value>);

    /// Adds to an output schema what a failure looks like.
    fn adapt_output(properties: &mut Map<String, Value>);
}

/// What a tool returns.
pub(super) trait Shown {
    type Output: JsonSchema;

    fn into_answer(self) -> Answer;
}

impl<T: Serialize + JsonSchema> Shown for Json<T> {
    type Output = T;

    fn into_answer(self) -> Answer {
        Answer::Found(serde_json::to_value(self.0).unwrap_or_default())
    }
}

/// An output `T` that is assembled as text, because its records are stored as text.
pub(super) struct AssembledText<T>(Arc<JsonText>, PhantomData<fn() -> T>);

impl<T> AssembledText<T> {
    pub(super) fn new(text: Arc<JsonText>) -> AssembledText<T> {
        AssembledText(text, PhantomData)
    }
}

impl<T: JsonSchema> Shown for AssembledText<T> {
    type Output = T;

    fn into_answer(self) -> Answer {
        Answer::Json(self.0)
    }
}

/// A sentence, with the output behind it.
pub(super) struct TextOutput<T> {
    pub(super) text: String,
    pub(super) output: T,
}

impl<T: Serialize + JsonSchema> Shown for TextOutput<T> {
    type Output = T;

    fn into_answer(self) -> Answer {
        let value = serde_json::to_value(self.output).unwrap_or_default();
        Answer::Text { text: self.text, value }
    }
}

/// A failure in the main tool set.
#[derive(Debug)]
pub(super) enum ToolError {
    /// The arguments do not fit the tool: an `isError` answer.
    BadArgument(BadArgument),
    /// A domain error: an ordinary answer with the envelope.
    Problem(WhoopProblem),
}

impl From<BadArgument> for ToolError {
    fn from(bad: BadArgument) -> ToolError {
        ToolError::BadArgument(bad)
    }
}

impl From<WhoopProblem> for ToolError {
    fn from(problem: WhoopProblem) -> ToolError {
        ToolError::Problem(problem)
    }
}

impl Failure for ToolError {
    fn into_answer(self) -> Answer {
        match self {
            ToolError::Problem(problem) => Answer::Found(problem.envelope()),
            ToolError::BadArgument(bad) => {
                Answer::Failed { code: "invalid_arguments", message: bad.to_string() }
            }
        }
    }

    /// The public server writes `anyOf` for a value that may be null.
    fn adapt_property(property: &mut Map<String, Value>) {
        let Some(kind) = without_null(property.get("type")) else { return };
        let mut value = Map::from_iter([("type".to_owned(), kind)]);
        value.extend(property.shift_remove("items").map(|items| ("items".to_owned(), items)));
        property.shift_remove("type");
        property.insert("anyOf".to_owned(), json!([value, { "type": "null" }]));
    }

    fn adapt_output(properties: &mut Map<String, Value>) {
        let text = json!({ "type": "string" });
        let members = json!({ "code": text, "message": text, "endpoint": text });
        let error = json!({ "type": "object", "properties": members });
        properties.insert("error".to_owned(), error);
    }
}

/// A failure of the classic set.
#[derive(Debug)]
pub(super) struct ClassicFailure {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl ClassicFailure {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> ClassicFailure {
        ClassicFailure { code, message: message.into() }
    }

    /// An argument that cannot be used.
    pub(super) fn invalid(message: impl Into<String>) -> ClassicFailure {
        ClassicFailure::new("invalid_arguments", message)
    }
}

impl From<BadArgument> for ClassicFailure {
    fn from(bad: BadArgument) -> ClassicFailure {
        ClassicFailure::invalid(bad.to_string())
    }
}

impl From<WhoopProblem> for ClassicFailure {
    fn from(problem: WhoopProblem) -> ClassicFailure {
        ClassicFailure::new(problem.code.as_str(), problem.message)
    }
}

impl Failure for ClassicFailure {
    fn into_answer(self) -> Answer {
        Answer::Failed { code: self.code, message: self.message }
    }

    /// These tools announce no null, though they accept it.
    fn adapt_property(property: &mut Map<String, Value>) {
        if let Some(kind) = without_null(property.get("type")) {
            property.insert("type".to_owned(), kind);
        }
    }

    /// A failure has no structured content.
    fn adapt_output(_: &mut Map<String, Value>) {}
}

/// The type of a value that may also be null.
fn without_null(types: Option<&Value>) -> Option<Value> {
    match types?.as_array()?.as_slice() {
        [kind, Value::String(null)] if null == "null" => Some(kind.clone()),
        _ => None,
    }
}

pub(super) fn input_schema<'a, A: JsonSchema, S, E: Failure, F>(
    _: impl FnOnce(ToolCall<'a>, A) -> F,
) -> Value
where
    F: Future<Output = Result<S, E>>,
{
    let mut schema = schema::of_arguments::<A>();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        property.as_object_mut().into_iter().for_each(E::adapt_property);
    }
    Value::Object(schema)
}

pub(super) fn output_schema<'a, A, S: Shown, E: Failure, F>(
    _: impl FnOnce(ToolCall<'a>, A) -> F,
) -> Value
where
    F: Future<Output = Result<S, E>>,
{
    let mut schema = Value::Object(schema::of_output::<S::Output>());
    require_nothing(&mut schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        E::adapt_output(properties);
    }
    schema
}

/// Any output may be an error instead, and records that older versions derived may lack a member.
fn require_nothing(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("required").is_some_and(Value::is_array) {
                members.shift_remove("required");
            }
            members.values_mut().for_each(require_nothing);
        }
        Value::Array(items) => items.iter_mut().for_each(require_nothing),
        _ => {}
    }
}

pub(super) fn run<'a, A: DeserializeOwned, S: Shown, E: Failure, F>(
    call: ToolCall<'a>,
    held: &Map<String, Value>,
    function: impl FnOnce(ToolCall<'a>, A) -> F,
) -> AnswerFuture<'a>
where
    F: Future<Output = Result<S, E>> + Send + 'a,
{
    match arguments::parse(held, Blank::IsValue) {
        Ok(args) => {
            let work = function(call, args);
            Box::pin(async { work.await.map_or_else(E::into_answer, S::into_answer) })
        }
        Err(bad) => Box::pin(ready(E::from(bad).into_answer())),
    }
}

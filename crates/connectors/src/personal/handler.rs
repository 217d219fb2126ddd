//! Runs the tools of the personal services: parses arguments, cuts long responses, shows problems.

use std::future::{Future, ready};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Problem, truncate};
use crate::arguments::{self, BadArgument, Blank};
use crate::tool::ToolOutput;
use crate::{Answer, AnswerFuture, ToolCall, schema};

/// The handler of a function `async fn(ToolCall, Args) -> Result<impl ToolOutput, Problem>` of a service.
macro_rules! handler {
    ($service:expr, $function:expr) => {
        $crate::tool::Handler {
            input: || $crate::personal::handler::input_schema($function),
            output: || $crate::personal::handler::output_schema($function),
            run: |call, arguments| {
                $crate::personal::handler::run($service, call, arguments, $function)
            },
        }
    };
}
pub(crate) use handler;

pub(crate) fn input_schema<'a, A: JsonSchema, F>(_: impl FnOnce(ToolCall<'a>, A) -> F) -> Value {
    let mut schema = schema::of_arguments::<A>();
    schema.insert("additionalProperties".to_owned(), false.into());
    Value::Object(schema)
}

pub(crate) fn output_schema<'a, A, R: ToolOutput, F: Future<Output = Result<R, Problem>>>(
    _: impl FnOnce(ToolCall<'a>, A) -> F,
) -> Value {
    Value::Object(schema::of_output::<R::Output>())
}

pub(crate) fn run<'a, A: DeserializeOwned, R: ToolOutput, F>(
    service: &'static str,
    call: ToolCall<'a>,
    held: &Map<String, Value>,
    function: impl FnOnce(ToolCall<'a>, A) -> F,
) -> AnswerFuture<'a>
where
    F: Future<Output = Result<R, Problem>> + Send + 'a,
{
    match arguments::parse(held, Blank::IsAbsent) {
        Ok(args) => {
            let work = function(call, args);
            Box::pin(async { work.await.map_or_else(|problem| refused(&problem), answer) })
        }
        Err(bad) => Box::pin(ready(refused(&bad.problem(service)))),
    }
}

fn refused(problem: &Problem) -> Answer {
    Answer::Refused(problem.envelope())
}

fn answer(reply: impl ToolOutput) -> Answer {
    let (text, output) = reply.into_parts();
    let value = truncate::fit(serde_json::to_value(output).unwrap_or_default());
    match text {
        Some(text) => Answer::Text { text, value },
        None => Answer::Found(value),
    }
}

impl BadArgument {
    pub(crate) fn problem(&self, service: &'static str) -> Problem {
        let name = &self.name;
        let hint = match self.expected {
            Some(_) => format!("call again with another `{name}`"),
            None => format!("call again with `{name}`"),
        };
        Problem::invalid(service, self.to_string(), hint)
    }
}

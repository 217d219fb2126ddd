//! What a request is about, in the words that a policy is asked with.

use policy::Subject;

use crate::call::Ask;
use crate::lists::List;
use crate::wire::{Era, Named, Refused, TASKS};

/// What a policy is asked about.
pub(crate) enum About<'a> {
    Tool(&'a str),
    Resource(&'a str),
    Prompt(&'a str),
    Method(&'a str),
    /// A follow-up on a task, which was admitted as a call of these tools.
    Task(Vec<String>),
    /// The protocol's own business: lists are filtered on their way back.
    Nothing,
}

impl About<'_> {
    pub(crate) fn as_subject(&self) -> Option<Subject<'_>> {
        Some(match self {
            About::Tool(name) => Subject::Tool(name),
            About::Resource(uri) => Subject::Resource(uri),
            About::Prompt(name) => Subject::Prompt(name),
            About::Method(name) => Subject::Method(name),
            About::Task(_) | About::Nothing => return None,
        })
    }

    pub(crate) fn task_of(&self) -> Option<&[String]> {
        match self {
            About::Task(tools) => Some(tools),
            _ => None,
        }
    }
}

pub(crate) fn subject<'a>(
    ask: &'a Ask<'_>,
    server: &str,
    named: &'a Named<'_>,
) -> Result<About<'a>, Refused> {
    Ok(match named {
        Named::Tool(name) => About::Tool(name),
        Named::Resource(uri) => About::Resource(uri),
        Named::Prompt(name) => About::Prompt(name),
        Named::Task(id) => match ask.scene.gate.tasks.tools_of(ask.scene, server, id) {
            Some(tools) => About::Task(tools),
            // Another's, or unknown: the policy cannot be asked without the tool, so it is refused.
            None => return Err(no_such_task(ask)),
        },
        Named::Nothing if List::of_method(&ask.request.method_name).is_some() => About::Nothing,
        Named::Nothing => About::Method(&ask.request.method_name),
    })
}

/// A task that is not the caller's. A newer client that does not declare tasks is told that first, as a
/// server would tell it.
pub(crate) fn no_such_task(ask: &Ask<'_>) -> Refused {
    let refused = if ask.era == Era::Modern && !ask.takes.takes_tasks() {
        Refused::undeclared(TASKS)
    } else {
        Refused::params("there is no such task")
    };
    refused.with_id(&ask.request.id)
}

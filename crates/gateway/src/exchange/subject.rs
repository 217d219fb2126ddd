//! What a request names, as a policy judges it.

use policy::Subject;

use crate::exchange::call::IncomingRequest;
use crate::exchange::skills;
use crate::upstream::lists::List;
use mcp::{Era, Named, ProtocolError, TASKS};

/// What a policy judges.
pub(crate) enum RequestSubject<'a> {
    Tool(&'a str),
    Resource(&'a str),
    Prompt(&'a str),
    /// A skill or one of its files, by the name of the skill.
    Skill(String),
    Method(&'a str),
    /// A follow-up on a task that was created by these tools.
    Task(Vec<String>),
    /// A protocol message. Lists are filtered on the way back.
    Nothing,
}

impl RequestSubject<'_> {
    pub(crate) fn as_subject(&self) -> Option<Subject<'_>> {
        Some(match self {
            RequestSubject::Tool(name) => Subject::Tool(name),
            RequestSubject::Resource(uri) => Subject::Resource(uri),
            RequestSubject::Prompt(name) => Subject::Prompt(name),
            RequestSubject::Skill(name) => Subject::Skill(name),
            RequestSubject::Method(name) => Subject::Method(name),
            RequestSubject::Task(_) | RequestSubject::Nothing => return None,
        })
    }

    /// The subject by the server's own name, if the client used another one.
    pub(crate) fn renamed<'s>(&'s self, own: Option<&'s str>) -> Option<Subject<'s>> {
        match (own, self.as_subject()) {
            (Some(own), Some(Subject::Tool(_))) => Some(Subject::Tool(own)),
            (Some(own), Some(Subject::Prompt(_))) => Some(Subject::Prompt(own)),
            (_, subject) => subject,
        }
    }

    pub(crate) fn task_of(&self) -> Option<&[String]> {
        match self {
            RequestSubject::Task(tools) => Some(tools),
            _ => None,
        }
    }
}

pub(crate) fn subject<'a>(
    incoming: &'a IncomingRequest<'_>,
    server: &str,
    named: &'a Named<'_>,
) -> Result<RequestSubject<'a>, ProtocolError> {
    Ok(match named {
        Named::Tool(name) => RequestSubject::Tool(name),
        Named::Resource(uri) => match skills::judged_name(incoming, server, uri)? {
            Some(skill) => RequestSubject::Skill(skill),
            None => RequestSubject::Resource(uri),
        },
        Named::Prompt(name) => RequestSubject::Prompt(name),
        Named::Task(id) => {
            match incoming.context.state.tasks.tools_of(incoming.context, server, id) {
                Some(tools) => RequestSubject::Task(tools),
                // The task of another caller, or unknown: refused, because the policy needs the tool.
                None => return Err(unknown_task(incoming)),
            }
        }
        Named::Nothing if List::of_method(&incoming.request.method_name).is_some() => {
            RequestSubject::Nothing
        }
        Named::Nothing => RequestSubject::Method(&incoming.request.method_name),
    })
}

/// A task that does not belong to the caller. A modern client that does not declare tasks gets that error
/// first, as from a server.
pub(crate) fn unknown_task(incoming: &IncomingRequest<'_>) -> ProtocolError {
    let refused = if incoming.era == Era::Modern && !incoming.client_capabilities.accepts_tasks() {
        ProtocolError::undeclared(TASKS)
    } else {
        ProtocolError::params("unknown task")
    };
    refused.with_id(&incoming.request.id)
}

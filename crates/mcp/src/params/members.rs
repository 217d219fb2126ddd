//! The members of the params of each method, over all revisions. A member that a method does not
//! have is refused, so that nothing reaches a server without being judged.

use crate::method::Method;

/// Allowed in the params of every method.
pub(super) const META: &str = "_meta";

/// The members besides `_meta`. `None` for extensions, whose members are unknown, and for methods
/// that only servers send, which are refused as a whole.
pub(super) const fn of(method: Method) -> Option<&'static [&'static str]> {
    Some(match method {
        Method::Initialize => &["protocolVersion", "capabilities", "clientInfo"],
        Method::Listen => &["notifications"],
        Method::ToolsCall => &["name", "arguments", "task", "inputResponses", "requestState"],
        Method::PromptsGet => &["name", "arguments", "inputResponses", "requestState"],
        Method::ResourcesRead => &["uri", "inputResponses", "requestState"],
        Method::ResourcesSubscribe | Method::ResourcesUnsubscribe | Method::SkillsGet => &["uri"],
        Method::DirectoryRead => &["uri", "cursor"],
        Method::Complete => &["ref", "argument", "context"],
        Method::SetLevel => &["level"],
        Method::ToolsList
        | Method::ResourcesList
        | Method::ResourcesTemplatesList
        | Method::PromptsList
        | Method::SkillsList
        | Method::TasksList => &["cursor"],
        Method::TasksGet | Method::TasksResult | Method::TasksCancel => &["taskId"],
        Method::TasksUpdate => &["taskId", "inputResponses", "requestState"],
        Method::Cancelled => &["requestId", "reason"],
        Method::Progress => &["progressToken", "progress", "total", "message"],
        Method::TaskStatus => &[
            "taskId",
            "status",
            "statusMessage",
            "createdAt",
            "lastUpdatedAt",
            "ttl",
            "pollInterval",
        ],
        Method::Ping | Method::Discover | Method::Initialized | Method::RootsChanged => &[],
        Method::CreateMessage
        | Method::RootsList
        | Method::Elicit
        | Method::LogMessage
        | Method::ToolsChanged
        | Method::PromptsChanged
        | Method::ResourcesChanged
        | Method::ResourceUpdated
        | Method::Acknowledged
        | Method::ElicitationComplete
        | Method::TasksNotification
        | Method::Other => return None,
    })
}

/// Whether a method has a member of this name.
pub(super) fn has(method: Method, member: &str) -> bool {
    member == META || of(method).is_none_or(|members| members.contains(&member))
}

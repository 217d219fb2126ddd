//! The table of methods of all revisions.

use crate::revision::Revision;

/// Whether a method is a request or a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    Request,
    Notification,
}

/// Who may send a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
    Either,
}

macro_rules! methods {
    ($($variant:ident $name:literal $kind:ident $sender:ident $first:ident $last:ident;)*) => {
        /// A method by its exact name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $($variant,)*
            /// An extension, or a method of a revision that we do not know.
            Other,
        }

        impl Method {
            /// Every known method.
            pub const KNOWN: &[Method] = &[$(Method::$variant,)*];

            pub fn parse(name: &str) -> Method {
                match name {
                    $($name => Method::$variant,)*
                    _ => Method::Other,
                }
            }

            /// The method's name; `None` for [`Method::Other`].
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Method::$variant => Some($name),)*
                    Method::Other => None,
                }
            }

            const fn facts(self) -> Option<Facts> {
                match self {
                    $(Method::$variant => Some(Facts {
                        kind: MethodKind::$kind,
                        sender: Sender::$sender,
                        first: Revision::$first,
                        last: Revision::$last,
                    }),)*
                    Method::Other => None,
                }
            }
        }
    };
}

struct Facts {
    kind: MethodKind,
    sender: Sender,
    first: Revision,
    last: Revision,
}

methods! {
    Initialize "initialize" Request Client V2024_11_05 V2025_11_25;
    Ping "ping" Request Either V2024_11_05 V2025_11_25;
    Discover "server/discover" Request Client V2026_07_28 V2026_07_28;
    Listen "subscriptions/listen" Request Client V2026_07_28 V2026_07_28;
    ToolsList "tools/list" Request Client V2024_11_05 V2026_07_28;
    ToolsCall "tools/call" Request Client V2024_11_05 V2026_07_28;
    ResourcesList "resources/list" Request Client V2024_11_05 V2026_07_28;
    ResourcesTemplatesList "resources/templates/list" Request Client V2024_11_05 V2026_07_28;
    ResourcesRead "resources/read" Request Client V2024_11_05 V2026_07_28;
    ResourcesSubscribe "resources/subscribe" Request Client V2024_11_05 V2025_11_25;
    ResourcesUnsubscribe "resources/unsubscribe" Request Client V2024_11_05 V2025_11_25;
    PromptsList "prompts/list" Request Client V2024_11_05 V2026_07_28;
    PromptsGet "prompts/get" Request Client V2024_11_05 V2026_07_28;
    SkillsList "skills/list" Request Client V2024_11_05 V2026_07_28;
    SkillsGet "skills/get" Request Client V2024_11_05 V2026_07_28;
    DirectoryRead "resources/directory/read" Request Client V2024_11_05 V2026_07_28;
    Complete "completion/complete" Request Client V2024_11_05 V2026_07_28;
    SetLevel "logging/setLevel" Request Client V2024_11_05 V2025_11_25;
    TasksGet "tasks/get" Request Either V2025_11_25 V2026_07_28;
    TasksResult "tasks/result" Request Either V2025_11_25 V2025_11_25;
    TasksList "tasks/list" Request Either V2025_11_25 V2025_11_25;
    TasksUpdate "tasks/update" Request Client V2026_07_28 V2026_07_28;
    TasksCancel "tasks/cancel" Request Either V2025_11_25 V2026_07_28;
    CreateMessage "sampling/createMessage" Request Server V2024_11_05 V2025_11_25;
    RootsList "roots/list" Request Server V2024_11_05 V2025_11_25;
    Elicit "elicitation/create" Request Server V2025_06_18 V2025_11_25;
    Initialized "notifications/initialized" Notification Client V2024_11_05 V2025_11_25;
    Cancelled "notifications/cancelled" Notification Either V2024_11_05 V2026_07_28;
    Progress "notifications/progress" Notification Either V2024_11_05 V2026_07_28;
    LogMessage "notifications/message" Notification Server V2024_11_05 V2026_07_28;
    RootsChanged "notifications/roots/list_changed" Notification Client V2024_11_05 V2025_11_25;
    ToolsChanged "notifications/tools/list_changed" Notification Server V2024_11_05 V2026_07_28;
    PromptsChanged "notifications/prompts/list_changed" Notification Server V2024_11_05 V2026_07_28;
    ResourcesChanged "notifications/resources/list_changed" Notification Server V2024_11_05 V2026_07_28;
    ResourceUpdated "notifications/resources/updated" Notification Server V2024_11_05 V2026_07_28;
    Acknowledged "notifications/subscriptions/acknowledged" Notification Server V2026_07_28 V2026_07_28;
    ElicitationComplete "notifications/elicitation/complete" Notification Server V2025_11_25 V2025_11_25;
    TaskStatus "notifications/tasks/status" Notification Either V2025_11_25 V2025_11_25;
    TasksNotification "notifications/tasks" Notification Server V2026_07_28 V2026_07_28;
}

impl Method {
    /// Request or notification; `None` for an unknown method.
    pub fn kind(self) -> Option<MethodKind> {
        self.facts().map(|facts| facts.kind)
    }

    /// Who may send it; an unknown method may come from either side.
    pub fn sender(self) -> Sender {
        self.facts().map_or(Sender::Either, |facts| facts.sender)
    }

    /// Whether a revision has it. An unknown method may be an extension of any revision.
    pub fn is_in(self, revision: Revision) -> bool {
        self.facts().is_none_or(|facts| (facts.first..=facts.last).contains(&revision))
    }

    /// Whether it reads or changes a task.
    pub fn follows_up_a_task(self) -> bool {
        matches!(
            self,
            Method::TasksGet | Method::TasksResult | Method::TasksUpdate | Method::TasksCancel
        )
    }

    /// Whether it changes state that a server keeps for the session.
    pub fn changes_server_state(self) -> bool {
        matches!(self, Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe)
    }

    /// The known method that differs from a name only in case or slashes.
    pub(super) fn near_miss(name: &str) -> Option<Method> {
        if Method::parse(name) != Method::Other {
            return None;
        }
        let slashless = |name: &str| name.replace(['/', '\\'], "").to_ascii_lowercase();
        let wanted = slashless(name);
        let near = |method: &&Method| method.name().is_some_and(|known| slashless(known) == wanted);
        Method::KNOWN.iter().find(near).copied()
    }
}

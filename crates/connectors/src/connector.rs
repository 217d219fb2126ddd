//! One `Connector` value per service: everything that tollgate knows about it. Shared code reads these
//! fields and never names a service.

use insights::Units;
use insights::health::HealthData;
use store::records::{Records, RecordsError};

use crate::account::Account;
use crate::activity::Activity;
use crate::app::App;
use crate::daily_metrics::Metrics;
use crate::personal::archive::ArchiveImport;
use crate::prompt::Prompt;
use crate::resource::{Resource, Template};
use crate::service::Service;
use crate::skill::Skill;
use crate::sync::Mirror;
use crate::webhook::Webhook;
use crate::{Answer, Tool};

/// A built-in server.
pub struct Connector {
    pub service: &'static Service,
    /// Shown to agents: what the server as a whole is for.
    pub instructions: &'static str,
    pub tools: &'static [Tool],
    pub resources: &'static [Resource],
    pub templates: &'static [Template],
    /// Instructions for models, with their files.
    pub skills: &'static [Skill],
    pub prompts: &'static [Prompt],
    /// The policy (JSON text) that applies unless the owner names another.
    pub policy: &'static str,
    /// The local mirror of the owner's records.
    pub mirror: Option<&'static Mirror>,
    /// The archive that the service sends its users on request.
    pub archive: Option<&'static ArchiveImport>,
    /// Notifications that the service sends to the gate.
    pub webhook: Option<&'static Webhook>,
    /// Set where agents may export files.
    pub agent_exports: Option<&'static AgentExports>,
    /// Answers a call while the vault key cannot be used, where the service documents such answers.
    pub vault_locked: Option<fn(&Tool, i64) -> Answer>,
    /// The part of the service in the `personal` server.
    pub personal: Option<&'static Personal>,
    /// Named selections of the tools.
    pub profiles: &'static [ToolProfile],
    /// A call that the demo shows for this server.
    pub demo: Option<&'static DemoCall>,
    /// Only operator grants can use it, and its tools get the stores of the gate.
    pub needs_operator: bool,
    /// The mirror as daily health data, for pages and the report.
    pub health: Option<LoadHealth>,
    /// Pages that chat clients show for some tools.
    pub apps: &'static [App],
    /// What the mirror says about how the owner spends time.
    pub activity: Option<&'static Activity>,
    /// Its metrics by local day.
    pub metrics: Option<&'static Metrics>,
}

/// Reads daily health data: records, now in microseconds, the days before now or all, units. None where
/// there is no scored record.
pub type LoadHealth =
    fn(&Records, i64, Option<i32>, Units) -> Result<Option<HealthData>, RecordsError>;

/// The owner's choice of a folder that agents may export to.
pub struct AgentExports {
    /// An example for the question.
    pub example: &'static str,
    pub is_requested: fn(&Records) -> Result<bool, RecordsError>,
    pub allow: fn(&Records, &str) -> Result<(), RecordsError>,
}

/// How a service takes part in the `personal` server.
pub struct Personal {
    /// Its position among the services there, from 1.
    pub position: u8,
    /// Its tools in the profile `safe`.
    pub safe_tools: &'static [&'static str],
    /// Help text of `tollgate personal SERVICE`.
    pub about: &'static str,
    /// The commands of `tollgate personal SERVICE`.
    pub commands: &'static [PersonalCommand],
}

/// A tool as a command.
pub struct PersonalCommand {
    pub name: &'static str,
    pub about: &'static str,
    pub run: CommandRun,
}

impl PersonalCommand {
    /// `credentials`: checks the account with one request.
    pub(crate) const fn credentials(about: &'static str) -> PersonalCommand {
        PersonalCommand { name: "credentials", about, run: CommandRun::Check }
    }

    /// Calls a tool.
    pub(crate) const fn tool(
        name: &'static str,
        about: &'static str,
        tool: &'static str,
        options: &'static [CommandOption],
    ) -> PersonalCommand {
        PersonalCommand { name, about, run: CommandRun::Tool { name: tool, options } }
    }
}

impl CommandOption {
    /// `--limit N`: the number of entries.
    pub(crate) const fn limit() -> CommandOption {
        CommandOption {
            field: "limit",
            long: "limit",
            short: None,
            value_name: "N",
            about: "How many",
            value: OptionValue::Number("20"),
        }
    }
}

/// What a command does.
pub enum CommandRun {
    /// Checks the credentials with one request.
    Check,
    /// Calls a tool.
    Tool { name: &'static str, options: &'static [CommandOption] },
}

/// An argument of a tool as an option of a command.
pub struct CommandOption {
    /// The field of the arguments.
    pub field: &'static str,
    pub long: &'static str,
    pub short: Option<char>,
    pub value_name: &'static str,
    pub about: &'static str,
    pub value: OptionValue,
}

/// The type of an option, and its value where none is given.
pub enum OptionValue {
    Required,
    Text(&'static str),
    Number(&'static str),
    /// Null where none is given.
    Optional,
}

/// A named selection of a server's tools.
pub struct ToolProfile {
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Whether a tool of this name is in it.
    pub holds: fn(&str) -> bool,
}

/// A call for people to try.
pub struct DemoCall {
    pub tool: &'static str,
    /// A JSON object.
    pub arguments: &'static str,
    /// Whether the mirror must be filled before the demo shows the call.
    pub needs_mirror: bool,
}

impl Connector {
    /// A server without tools, to be completed by its own fields.
    pub(crate) const fn of(service: &'static Service) -> Connector {
        Connector {
            service,
            instructions: "",
            tools: &[],
            resources: &[],
            templates: &[],
            skills: &[],
            prompts: &[],
            policy: "",
            mirror: None,
            archive: None,
            webhook: None,
            agent_exports: None,
            vault_locked: None,
            personal: None,
            profiles: &[],
            demo: None,
            needs_operator: false,
            health: None,
            apps: &[],
            activity: None,
            metrics: None,
        }
    }

    pub fn name(&self) -> &'static str {
        self.service.name
    }

    pub fn title(&self) -> &'static str {
        self.service.title
    }

    pub fn account(&self) -> Option<&'static Account> {
        self.service.account
    }

    pub fn tool(&self, name: &str) -> Option<&'static Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether its tools show the owner's own data.
    pub fn is_owners(&self) -> bool {
        self.service.account.is_some() || !self.profiles.is_empty()
    }

    /// The policy of a grant that names none. A server of the owner's accounts was connected to be read,
    /// and an operator grant was marked as such.
    pub fn default_policy(&self) -> Option<&'static str> {
        (self.is_owners() || self.needs_operator).then_some(self.policy)
    }

    /// The app of a tool.
    pub fn app(&self, tool: &str) -> Option<&'static App> {
        self.apps.iter().find(|app| app.tool == tool)
    }

    pub fn profile(&self, word: &str) -> Option<&'static ToolProfile> {
        self.profiles.iter().find(|profile| profile.name.eq_ignore_ascii_case(word.trim()))
    }

    /// Whether a word selects this tool: its name, its set, or a profile that holds it.
    pub fn selects(&self, word: &str, tool: &Tool) -> bool {
        let in_profile = || self.profile(word).is_some_and(|profile| (profile.holds)(tool.name));
        tool.set == word || tool.name == word || in_profile()
    }
}

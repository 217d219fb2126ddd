//! `tollgate personal SERVICE`: the commands that each service declares for its own tools.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use connectors::personal_server::{MEMBERS, Member};
use connectors::{CommandOption, CommandRun, OptionValue, PersonalCommand};
use serde_json::{Map, Value};

use super::call;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

/// A command of a service, with its arguments.
pub(crate) struct ToolCommand {
    service: &'static str,
    command: &'static PersonalCommand,
    arguments: Value,
}

/// One command with its own commands for each service of the personal server.
pub(super) fn commands() -> impl Iterator<Item = Command> {
    MEMBERS.iter().map(|member| {
        Command::new(member.connector.name())
            .about(member.part.about)
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(member.part.commands.iter().map(command))
    })
}

pub(super) fn is_service(name: &str) -> bool {
    member(name).is_some()
}

fn member(name: &str) -> Option<Member> {
    MEMBERS.iter().copied().find(|member| member.connector.name() == name)
}

fn command(declared: &PersonalCommand) -> Command {
    let args = options(declared).iter().map(arg);
    Command::new(declared.name).about(declared.about).args(args)
}

fn options(declared: &PersonalCommand) -> &'static [CommandOption] {
    match declared.run {
        CommandRun::Check => &[],
        CommandRun::Tool { options, .. } => options,
    }
}

fn arg(option: &CommandOption) -> Arg {
    let arg =
        Arg::new(option.field).long(option.long).value_name(option.value_name).help(option.about);
    let arg = match option.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match option.value {
        OptionValue::Required => arg.required(true),
        OptionValue::Text(default) => arg.default_value(default),
        OptionValue::Number(default) => arg.default_value(default).value_parser(value_parser!(u32)),
        OptionValue::Optional => arg,
    }
}

impl ToolCommand {
    /// The command that was given, if it is of a service.
    pub(super) fn from_matches(matches: &ArgMatches) -> Option<ToolCommand> {
        let (service, matches) = matches.subcommand()?;
        let member = member(service)?;
        let (name, matches) = matches.subcommand()?;
        let command = member.part.commands.iter().find(|command| command.name == name)?;
        let field = |option: &CommandOption| (option.field.to_owned(), value(option, matches));
        let arguments: Map<String, Value> = options(command).iter().map(field).collect();
        let service = member.connector.name();
        Some(ToolCommand { service, command, arguments: Value::Object(arguments) })
    }

    pub(super) fn run(&self, context: &Context, out: &mut Out) -> Result<Ending> {
        match self.command.run {
            CommandRun::Check => call::credentials(self.service, context, out),
            CommandRun::Tool { name, .. } => call::show(name, &self.arguments, context, out),
        }
    }
}

fn value(option: &CommandOption, matches: &ArgMatches) -> Value {
    match option.value {
        OptionValue::Number(_) => matches.get_one::<u32>(option.field).copied().into(),
        _ => matches.get_one::<String>(option.field).cloned().into(),
    }
}

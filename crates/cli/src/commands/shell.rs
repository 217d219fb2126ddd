//! Completions and the manual page, generated from the arguments.

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::failure::Ending;
use crate::output::Out;

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(
    args: &CompletionsArgs,
    whole: &clap::Command,
    out: &mut Out,
) -> Result<Ending> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible_command(whole), "tollgate", &mut script);
    out.raw(&script)?;
    Ok(Ending::Yes)
}

/// The command without hidden subcommands, which the generators would include.
fn visible_command(whole: &clap::Command) -> clap::Command {
    let visible = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let visible: Vec<clap::Command> = visible.collect();
    clap::Command::new("tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(whole.get_arguments().cloned())
        .subcommands(visible)
}

/// One page for the whole program: the overview, then every command with its options.
pub(crate) fn man(command: &clap::Command, out: &mut Out) -> Result<Ending> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    writeln!(page, ".TH TOLLGATE 1 \"\" \"tollgate {}\"", env!("CARGO_PKG_VERSION"))?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        section(sub, "tollgate", &mut page)?;
    }
    page.extend_from_slice(ENDINGS.as_bytes());
    man.render_version_section(&mut page)?;
    out.raw(&page)?;
    Ok(Ending::Yes)
}

/// Sections that apply to every command.
const ENDINGS: &str = ".SH EXIT STATUS
0 yes, 1 no, 2 could not. Data goes to stdout, messages to stderr.
.SH ENVIRONMENT
.TP
\\fBTOLLGATE_HOME\\fR, \\fBTOLLGATE_CONFIG\\fR, \\fBTOLLGATE_LOG\\fR, \\fBTOLLGATE_LOG_FORMAT\\fR
Same as the options of these names.
.TP
\\fBTOLLGATE_VAULT_KEY\\fR
The key that seals secrets, instead of vault.key or the program it names.
.TP
\\fBTOLLGATE_METRICS_TOKEN\\fR
The token for /metrics of a running gate.
.TP
\\fBNO_COLOR\\fR
Any value turns colour off.
.SH FILES
.TP
\\fI~/.local/share/tollgate\\fR
The default home: gate.db, audit, vault.key and, if it exists, tollgate.toml.
";

/// A command with its arguments, then its subcommands.
fn section(command: &clap::Command, above: &str, page: &mut Vec<u8>) -> Result<()> {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    writeln!(page, ".SS \"{name}\"\n{}", roff(&about))?;
    for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", roff(&spelled(argument)), roff(&help))?;
    }
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        section(sub, &name, page)?;
    }
    Ok(())
}

/// `-n, --number <N>`, or `<NAME>` for a positional argument.
fn spelled(argument: &clap::Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let values = argument.get_value_names().unwrap_or_default().iter();
    let values: Vec<String> = values.map(|value| format!("<{value}>")).collect();
    let message: Vec<String> = short.into_iter().chain(long).collect();
    let takes_values = argument.get_action().takes_values();
    match (message.is_empty(), takes_values) {
        (true, _) => values.join(" "),
        (false, true) => format!("{} {}", message.join(", "), values.join(" ")),
        (false, false) => message.join(", "),
    }
}

/// A line that begins with a full stop or an apostrophe would be a request to the formatter.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

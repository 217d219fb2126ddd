//! Completions and the manual page, made from the arguments themselves.

use std::io::Write as _;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::failure::Ending;
use crate::output::Out;

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to write them for
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, out: &mut Out) -> Result<Ending> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::command(), "tollgate", &mut script);
    out.raw(&script)?;
    Ok(Ending::Yes)
}

/// One page for the whole program: the overview, then every command with its options.
pub(crate) fn man(out: &mut Out) -> Result<Ending> {
    let command = crate::cli::plain_command();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        section(sub, &mut page)?;
    }
    man.render_version_section(&mut page)?;
    out.raw(&page)?;
    Ok(Ending::Yes)
}

fn section(command: &clap::Command, page: &mut Vec<u8>) -> Result<()> {
    let name = command.get_name();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    writeln!(page, ".SS \"tollgate {name}\"\n{}", roff(&about))?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(page, ".TP\n\\fB{name} {}\\fR\n{}", sub.get_name(), roff(&about))?;
    }
    Ok(())
}

/// A line that begins with a full stop or an apostrophe would be a request to the formatter.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

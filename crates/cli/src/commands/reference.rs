//! The pages of `docs/reference`, generated from the tables that the program uses.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::failure::Ending;
use crate::output::Out;

mod audit;
mod patterns;
mod settings;

#[derive(Args)]
pub(crate) struct ReferenceArgs {
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, ValueEnum)]
enum Page {
    Cli,
    Policy,
    PolicySchema,
    Settings,
    Audit,
    Patterns,
}

pub(crate) fn run(args: &ReferenceArgs, whole: clap::Command, out: &mut Out) -> Result<Ending> {
    let text = match args.page {
        Page::Cli => cli_page(whole),
        Page::Policy => policy_page(),
        Page::PolicySchema => format!("{}\n", serde_json::to_string_pretty(&policy::schema())?),
        Page::Settings => settings::page(),
        Page::Audit => audit::page(),
        Page::Patterns => patterns::page(),
    };
    out.raw(text.as_bytes())?;
    Ok(Ending::Yes)
}

fn opening(title: &str, message: &str) -> String {
    format!("# {title}\n\n{message}\n\nWritten by `cargo xtask docs`; edit the program instead.\n")
}

fn cli_page(whole: clap::Command) -> String {
    let mut page = opening("The command line", "Every command and option of `tollgate`.");
    let command = whole.term_width(100);
    push_command(&command, "tollgate", &mut page);
    page
}

fn push_command(command: &clap::Command, path: &str, page: &mut String) {
    let mut shown = command.clone().bin_name(path).term_width(100);
    let help = shown.render_long_help().to_string();
    let _ = write!(page, "\n## `{path}`\n\n```text\n");
    for line in help.trim_end().lines() {
        let _ = writeln!(page, "{}", line.trim_end());
    }
    page.push_str("```\n");
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        push_command(sub, &format!("{path} {}", sub.get_name()), page);
    }
}

fn policy_page() -> String {
    let mut page = opening(
        "The policy language",
        "Every field and operator. `tollgate policy schema` prints the same as a JSON Schema.",
    );
    for object in policy::fields() {
        let _ = write!(page, "\n## {}\n\n{}.\n\n", object.name, capital(object.description));
        page.push_str("| Field | Required | Value | Meaning |\n| --- | --- | --- | --- |\n");
        for field in object.fields {
            let required = if field.required { "yes" } else { "" };
            let (holds, message) = (cell(&field.shape.describe()), cell(field.description));
            let _ = writeln!(page, "| `{}` | {required} | {holds} | {message} |", field.name);
        }
    }
    page.push_str(
        "\n## Operators\n\n| Operator | Compared with | True when |\n| --- | --- | --- |\n",
    );
    for operator in policy::operators() {
        let takes = operator.takes.describe();
        let _ =
            writeln!(page, "| `{}` | {takes} | {} |", operator.name, cell(operator.description));
    }
    page
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

/// Escapes `|`, which would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

//! Pages as Markdown, for a terminal or a file. What a stranger wrote cannot become markup, and no
//! hidden character survives.

use std::fmt::Write as _;

use serde_json::Value;

use crate::pins::visible;
use crate::view::{Question, ServerPage, ToolPage, capital};

pub fn server(page: &ServerPage) -> String {
    let mut out = format!("# {}\n\n", text(heading(&page.title, &page.name)));
    if !page.description.is_empty() {
        let _ = writeln!(out, "{}\n", text(&page.description));
    }
    let risk = page.risk.map_or("unknown: no tools are known", |risk| risk.as_str());
    fact(&mut out, "Name", &code(&page.name));
    fact(&mut out, "Risk", risk);
    let counts: Vec<String> = page.categories.iter().map(|(c, n)| format!("{n} {c}")).collect();
    fact(&mut out, "Tools", &format!("{} ({})", page.tools.len(), counts.join(", ")));
    fact(&mut out, "Version", &text(&page.version));
    fact(&mut out, "Updated", &text(&page.updated));
    fact(&mut out, "Website", &page.website);
    fact(&mut out, "Source", &page.repository);
    for origin in &page.origins {
        fact(&mut out, "From", &code(origin));
    }
    if !page.findings.is_empty() {
        out.push_str("\n## Findings\n\n");
        for finding in &page.findings {
            let _ = writeln!(out, "- {}", text(finding));
        }
    }
    if !page.tools.is_empty() {
        out.push_str("\n## Tools\n\n| Risk | Category | Tool | Recommended | What it says |\n| --- | --- | --- | --- | --- |\n");
        for tool in &page.tools {
            let mark = if tool.reported { " (its definition speaks to the model)" } else { "" };
            let _ = writeln!(
                out,
                "| {} | {} | {}{mark} | {} | {} |",
                tool.risk,
                tool.category,
                code(&tool.name),
                text(&tool.effect),
                text(&tool.does)
            );
        }
        let _ =
            writeln!(out, "\n## Recommended policy\n\n{}\n\n{}", page.effect, block(&page.policy));
    }
    questions(&mut out, &page.questions);
    out
}

pub fn tool(page: &ToolPage) -> String {
    let mut out = format!("# {}\n\n", text(heading(&page.title, &page.name)));
    if !page.does.is_empty() {
        let _ = writeln!(out, "{}\n", text(&page.does));
    }
    fact(&mut out, "Tool", &format!("{} of {}", code(&page.name), code(&page.server)));
    fact(&mut out, "Category", page.category.as_str());
    fact(&mut out, "Risk", page.risk.as_str());
    fact(&mut out, "Fingerprint", page.fingerprint.get(..12).unwrap_or_default());
    if page.poison.is_reported() {
        let _ = writeln!(
            out,
            "\n## Its definition speaks to the model ({})\n",
            page.poison.suspicion.as_str()
        );
        for finding in &page.poison.findings {
            let _ = writeln!(
                out,
                "- {}: {} ({})",
                code(&finding.place),
                text(&finding.words),
                code(&finding.quote)
            );
        }
    }
    out.push_str("\n## Why\n\n");
    for evidence in &page.evidence {
        let _ = writeln!(
            out,
            "- {} in the {}: {}",
            code(&evidence.words),
            text(&evidence.place),
            text(&evidence.meaning)
        );
    }
    for claim in &page.contradictions {
        let _ = writeln!(out, "- claims {}, but {}", code(&claim.claim), text(&claim.finding));
    }
    for signal in &page.signals {
        let _ = writeln!(
            out,
            "- {} ({}: {})",
            signal.kind.words(),
            text(&signal.place),
            code(&signal.words)
        );
    }
    parameters(&mut out, page);
    patterns(&mut out, page);
    let _ = writeln!(
        out,
        "\n## Recommended rule\n\n{}, because {}.\n\n{}",
        text(&capital(&page.rule.effect)),
        text(&page.rule.reason),
        block(&page.rule.policy)
    );
    questions(&mut out, &page.questions);
    if !page.description.is_empty() && page.description != page.does {
        out.push_str("\n## What its author says\n\n");
        for line in page.description.lines() {
            let _ = writeln!(out, "> {}", text(line));
        }
    }
    out
}

fn parameters(out: &mut String, page: &ToolPage) {
    if page.parameters.is_empty() {
        return;
    }
    out.push_str(
        "\n## Parameters\n\n| Name | Type | Required | What it says |\n| --- | --- | --- | --- |\n",
    );
    for parameter in &page.parameters {
        let choices: Vec<String> = parameter.choices.iter().map(|c| code(c)).collect();
        let choices = if choices.is_empty() {
            String::new()
        } else {
            format!(" One of {}.", choices.join(", "))
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {}{choices} |",
            code(&parameter.name),
            text(&parameter.kind),
            if parameter.required { "yes" } else { "no" },
            text(&parameter.description)
        );
    }
}

fn patterns(out: &mut String, page: &ToolPage) {
    if page.patterns.is_empty() {
        return;
    }
    out.push_str("\n## Attacks that use this access\n");
    for exposure in &page.patterns {
        let because: Vec<String> = exposure.because.iter().map(|b| text(b)).collect();
        let _ = writeln!(out, "\n### {}\n\nExposed: {}.", exposure.title, because.join("; "));
        if let Some(pattern) = crate::patterns::pattern(exposure.id) {
            let _ = writeln!(out, "\n{}", pattern.how);
        }
        let _ = writeln!(out, "\n{}", exposure.effect);
    }
}

fn questions(out: &mut String, questions: &[Question]) {
    if questions.is_empty() {
        return;
    }
    out.push_str("\n## Questions\n");
    for question in questions {
        let _ = writeln!(out, "\n### {}\n\n{}", text(&question.question), question.answer);
        if let Some(policy) = &question.policy {
            let _ = writeln!(out, "\n{}", block(policy));
        }
    }
}

fn heading<'a>(title: &'a str, name: &'a str) -> &'a str {
    if title.trim().is_empty() { name } else { title }
}

fn fact(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        let _ = writeln!(out, "- **{name}:** {value}");
    }
}

/// Somebody's text on one line, without anything that Markdown would act on.
fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() + 8);
    let line: Vec<&str> = raw.split_whitespace().collect();
    let line = visible(&line.join(" "));
    for (at, c) in line.chars().enumerate() {
        let starts = at == 0 && "#>+-=~".contains(c);
        if starts || "\\`*_[]<>|&!{}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A short literal. More backticks around it than there are in it.
fn code(raw: &str) -> String {
    let shown = visible(raw).replace('|', "\\|");
    let most = shown.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(most + 1);
    let pad =
        if shown.starts_with('`') || shown.ends_with('`') || shown.is_empty() { " " } else { "" };
    format!("{fence}{pad}{shown}{pad}{fence}")
}

fn block(policy: &Value) -> String {
    let text = format!("{policy:#}");
    let text: Vec<String> = text.lines().map(visible).collect();
    format!("```json\n{}\n```", text.join("\n"))
}

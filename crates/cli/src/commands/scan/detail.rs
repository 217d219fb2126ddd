//! Everything about one tool, as text.

use std::fmt::Write as _;

use catalog::assess::AssessedTool;
use catalog::poison::{Poison, Suspicion};

use crate::output::{Paint, visible, visible_lines};

/// Lines of a description that are shown; `--json` has all.
const DESCRIPTION_LINES_MAX: usize = 12;

pub(super) fn tool(tool: &AssessedTool, paint: Paint) -> String {
    let mut text = String::new();
    let class = &tool.classification;
    let _ = writeln!(
        text,
        "{} {}, {} risk",
        paint.bold(visible(&tool.name)),
        class.category,
        class.risk
    );
    for line in visible_lines(&tool.description).take(DESCRIPTION_LINES_MAX) {
        let _ = writeln!(text, "  {}", paint.dim(line));
    }
    section(
        &mut text,
        "why",
        class
            .evidence
            .iter()
            .map(|e| format!("{}: \"{}\" ({})", e.location, visible(&e.text), e.meaning)),
    );
    section(
        &mut text,
        "signals",
        class
            .signals
            .iter()
            .map(|s| format!("{}: \"{}\" ({})", s.kind.describe(), visible(&s.text), s.location)),
    );
    section(
        &mut text,
        "contradictions",
        class.contradictions.iter().map(|c| format!("claims `{}`, but {}", c.claim, c.finding)),
    );
    section(
        &mut text,
        "characters",
        tool.oddities.iter().map(|o| format!("{}: {}", o.location, o.message)),
    );
    section(
        &mut text,
        "attacks",
        tool.patterns.iter().map(|p| {
            let because: Vec<String> = p.because.iter().map(|message| visible(message)).collect();
            format!("{} ({}): {}. Rule: {}", p.title, p.id, because.join("; "), p.effect)
        }),
    );
    if tool.poison.is_reported() {
        text.push_str(&poison("definition", &tool.poison, paint));
    }
    section(
        &mut text,
        "recommended",
        [format!("{} ({})", tool.recommended.effect, tool.recommended.reason)].into_iter(),
    );
    let policy = serde_json::to_string(&tool.recommended.policy).unwrap_or_default();
    let _ = writeln!(text, "  {}", visible(&policy));
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(text, "{title}:");
    }
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
}

/// The passages that address the model, each with its position.
pub(super) fn poison(what: &str, poison: &Poison, paint: Paint) -> String {
    const PASSAGES_MAX: usize = 6;
    let word = match poison.suspicion {
        Suspicion::Poisoned => paint.bad("poisoned:"),
        _ => paint.careful("suspicious:"),
    };
    let mut text = format!("{word} {what}\n");
    for finding in poison.findings.iter().take(PASSAGES_MAX) {
        let location = visible(&finding.location);
        let _ = writeln!(text, "  {location}: \"{}\" {}", finding.quote, visible(&finding.message));
    }
    if poison.findings.len() > PASSAGES_MAX {
        let _ = writeln!(text, "  and {} more", poison.findings.len() - PASSAGES_MAX);
    }
    text
}

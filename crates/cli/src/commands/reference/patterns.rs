//! The page of attack patterns, generated from the table that the program uses.

use std::fmt::Write as _;

use catalog::patterns::{PATTERNS, PATTERNS_VERSION, Pattern, Sign};

pub(super) fn page() -> String {
    let message = format!(
        "How tools are abused against their owner, version {PATTERNS_VERSION} of the table. A tool shows \
         a pattern when all signs of one line under \"Exposed\" are true of it."
    );
    let mut page = super::opening("Attack patterns", &message);
    for pattern in PATTERNS {
        push(pattern, &mut page);
    }
    page
}

fn push(pattern: &Pattern, page: &mut String) {
    let _ = write!(page, "\n## {}\n\n`{}`\n\n{}\n\n", pattern.title, pattern.id, pattern.how);
    match pattern.example {
        Some(example) => {
            let _ =
                writeln!(page, "Seen: {}, {} ({}).\n", example.date, example.what, example.source);
        }
        None => page.push_str("Seen: no public case is known to us.\n\n"),
    }
    page.push_str("Exposed:\n\n");
    for signs in pattern.exposed {
        let signs: Vec<String> = signs.iter().copied().map(sign).collect();
        let _ = writeln!(page, "- {}", signs.join(", and "));
    }
    let rule = pattern.rule_for("the_tool", Some("the_parameter"));
    let _ = write!(page, "\nThe rule: {}.\n\n```json\n{rule:#}\n```\n", pattern.effect);
}

fn sign(sign: Sign) -> String {
    match sign {
        Sign::Signal(kind) => kind.describe().to_owned(),
        Sign::Takes(kind) => format!("{} in a parameter", kind.describe()),
        Sign::Is(category) => format!("is {category}"),
        Sign::AtLeast(risk) => format!("has {risk} risk or more"),
        Sign::Poisoned => "has a definition that gives the model instructions".to_owned(),
        Sign::Poison(kind) => format!("has a definition that {}", kind.describe()),
        Sign::Contradicted => "claims what its definition contradicts".to_owned(),
        Sign::Drifted => "is not what was pinned".to_owned(),
        Sign::LooksLikeAnother => "has almost the same name as another tool".to_owned(),
        Sign::Does(behavior) => behavior.describe().to_owned(),
    }
}

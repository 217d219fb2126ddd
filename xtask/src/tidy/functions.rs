//! No function over 70 lines: a longer one has more than one subject. Tests are free.

use super::{Finding, SourceFile};

const LINES_MAX: usize = 70;

/// Functions that are long for a reason: the file, the function and the reason.
const LONG_FOR_A_REASON: &[(&str, &str, &str)] = &[];

pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_source(file)) {
        for function in functions(&without_tests(&blanked(&file.text))) {
            let has_reason = LONG_FOR_A_REASON
                .iter()
                .any(|(path, name, _)| *path == file.path && *name == function.name);
            if function.lines > LINES_MAX && !has_reason {
                findings.push(Finding {
                    place: format!("{}:{}", file.path, function.at),
                    words: format!(
                        "`{}` has {} lines, more than {LINES_MAX}; split it, or give the reason in xtask/src/tidy/functions.rs",
                        function.name, function.lines
                    ),
                });
            }
        }
    }
    findings
}

fn is_source(file: &SourceFile) -> bool {
    let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    file.has_extension("rs") && file.path.contains("/src/") && !is_test
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// The line of its `fn`, from 1.
    at: usize,
    lines: usize,
}

/// What a character belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    /// A raw string that ends with a quote and so many `#`.
    RawText(usize),
}

/// The source with comments, strings and characters blanked, line for line.
pub(super) fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let (mut index, mut inside) = (0, Inside::Code);
    while index < chars.len() {
        let (now, next) = (at(index), at(index + 1));
        let (skip, then) = match inside {
            Inside::Code => code_step(&chars, index),
            Inside::LineComment if now == '\n' => (1, Inside::Code),
            Inside::BlockComment(depth) if now == '/' && next == '*' => {
                (2, Inside::BlockComment(depth + 1))
            }
            Inside::BlockComment(1) if now == '*' && next == '/' => (2, Inside::Code),
            Inside::BlockComment(depth) if now == '*' && next == '/' => {
                (2, Inside::BlockComment(depth - 1))
            }
            Inside::Text if now == '\\' => (2, Inside::Text),
            Inside::Text if now == '"' => (1, Inside::Code),
            Inside::RawText(hashes)
                if now == '"' && (1..=hashes).all(|step| at(index + step) == '#') =>
            {
                (1 + hashes, Inside::Code)
            }
            same => (1, same),
        };
        for step in index..index + skip {
            let kept = inside == Inside::Code && then == Inside::Code && skip == 1;
            out.push(if kept || at(step) == '\n' { at(step) } else { ' ' });
        }
        index += skip;
        inside = then;
    }
    out
}

/// How many characters of code to take, and what comes after them.
fn code_step(chars: &[char], index: usize) -> (usize, Inside) {
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let after_name = index > 0 && is_name(at(index - 1));
    match (at(index), at(index + 1)) {
        ('/', '/') => (2, Inside::LineComment),
        ('/', '*') => (2, Inside::BlockComment(1)),
        ('"', _) => (1, Inside::Text),
        ('r', '"' | '#') if !after_name || at(index - 1) == 'b' => {
            let hashes = chars.iter().skip(index + 1).take_while(|c| **c == '#').count();
            if at(index + 1 + hashes) == '"' {
                (2 + hashes, Inside::RawText(hashes))
            } else {
                (1, Inside::Code)
            }
        }
        ('\'', '\\') => {
            let end = (2..14).find(|step| at(index + step) == '\'' && *step > 2);
            (end.map_or(1, |end| end + 1), Inside::Code)
        }
        ('\'', _) if at(index + 2) == '\'' => (3, Inside::Code),
        _ => (1, Inside::Code),
    }
}

const TEST_MARK: &str = "#[cfg(test)]";

/// The source without items behind `#[cfg(test)]`, line for line.
pub(super) fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(TEST_MARK) {
        let (before, item) = rest.split_at(at);
        out.push_str(before);
        let end = if is_item(item) { end_of_item(item) } else { TEST_MARK.len() };
        let (test, after) = item.split_at(end.min(item.len()));
        out.extend(test.chars().filter(|c| *c == '\n'));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Whether the mark stands before an item, not before a field or an expression.
fn is_item(marked: &str) -> bool {
    let mut rest = marked;
    while let Some(attribute) = rest.trim_start().strip_prefix("#[") {
        rest = attribute.split_once(']').map_or("", |(_, after)| after);
    }
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("pub(crate)").or(rest.strip_prefix("pub(super)")).unwrap_or(rest);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("pub ").unwrap_or(rest);
    ["mod ", "impl", "fn ", "async fn ", "use ", "struct ", "const ", "static "]
        .iter()
        .any(|word| rest.starts_with(word))
}

fn end_of_item(item: &str) -> usize {
    item.find(['{', ';']).map_or(item.len(), |open| match item.get(open..) {
        Some(body) if body.starts_with('{') => open + closing(body) + 1,
        _ => open + 1,
    })
}

/// Where the brace that opens the text is closed.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (index, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return index,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len().saturating_sub(1)
}

fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = code.get(..at).is_none_or(|before| {
            !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        });
        let Some(rest) = code.get(at..).filter(|_| is_word) else { continue };
        let name: String =
            rest.chars().skip(3).take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let Some(body) = body_of(rest).filter(|_| !name.is_empty()) else { continue };
        let end = body + rest.get(body..).map_or(0, closing);
        let lines = rest.get(..end).map_or(0, |text| text.matches('\n').count()) + 1;
        let before = code.get(..at).map_or(0, |text| text.matches('\n').count());
        found.push(Function { name, at: before + 1, lines });
    }
    found
}

/// The bodies of all functions with this name, without comments, strings and tests.
pub(super) fn bodies(text: &str, name: &str) -> Vec<String> {
    let code = without_tests(&blanked(text));
    let starts = code.match_indices("fn ").filter_map(|(at, _)| {
        let rest = code.get(at..)?;
        let is_named = rest.get(3..)?.strip_prefix(name)?.starts_with(['(', '<']);
        let body = body_of(rest).filter(|_| is_named)?;
        let open = rest.get(body..)?;
        open.get(..=closing(open)).map(str::to_owned)
    });
    starts.collect()
}

/// Where the body of a function begins; nothing of a declaration without one.
fn body_of(rest: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (index, c) in rest.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile { path: path.into(), text: text.into() };
        check(&[file]).into_iter().map(|finding| finding.place).collect()
    }

    fn long(lines: usize) -> String {
        format!("//! Doc.\n\nfn f() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_71_lines_is_found_and_one_of_70_is_not() {
        assert_eq!(findings("crates/a/src/b.rs", &long(70)), Vec::<String>::new());
        assert_eq!(findings("crates/a/src/b.rs", &long(71)), ["crates/a/src/b.rs:3"]);
        assert_eq!(findings("crates/a/src/b/tests.rs", &long(71)), Vec::<String>::new());
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", long(80));
        assert_eq!(findings("crates/a/src/b.rs", &test), Vec::<String>::new());
    }

    #[test]
    fn braces_in_strings_characters_and_comments_do_not_count() {
        let text = "fn a() {\n    let s = \"{\\\"{\"; // {\n    let c = '{';\n    let r = r#\"{\"#;\n    /* { /* { */ */\n}\nfn b() {}\n";
        let found = functions(&without_tests(&blanked(text)));
        let sizes: Vec<(&str, usize, usize)> =
            found.iter().map(|one| (one.name.as_str(), one.at, one.lines)).collect();
        assert_eq!(sizes, [("a", 1, 6), ("b", 7, 1)]);
    }

    #[test]
    fn a_field_only_for_tests_ends_nothing() {
        let text =
            "fn a() {\n    S {\n        #[cfg(test)]\n        fail: false,\n    }\n}\nfn b() {}\n";
        let sizes: Vec<usize> =
            functions(&without_tests(&blanked(text))).iter().map(|one| one.lines).collect();
        assert_eq!(sizes, [6, 1]);
    }

    #[test]
    fn lifetimes_and_declarations_are_no_bodies() {
        let text = "trait T {\n    fn a<'a>(&'a self, of: [u8; 2]) -> &'a str;\n    fn b<'a>(&'a self) {\n    }\n}\n";
        let found = functions(&without_tests(&blanked(text)));
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["b"]);
    }
}

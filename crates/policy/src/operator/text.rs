//! Text: regular expressions, globs, beginnings, endings, parts and lengths. Characters are Unicode
//! scalar values; nothing folds case.

use regex::RegexBuilder;

use super::compare::Scalar;
use super::{Case, Test, fails, holds, unclear};
use crate::path::Seen;
use crate::problem::Complaint;
use crate::shape::whole;
use crate::tree::Node;
use crate::truth_value::TruthValue;

/// A compiled pattern is charged the smallest of these that it fits into, and refused beyond the last.
const PATTERN_BYTES: [usize; 6] =
    [16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 10_240 * KIB];
const KIB: usize = 1024;

/// Memory that matching may use in addition to the pattern.
const MATCHING_BYTES_MAX: usize = 1024 * KIB;

/// The total size of all compiled patterns of one policy.
pub(crate) const PATTERN_BYTES_MAX: usize = 64 * KIB * KIB;

/// The total size of patterns that may be built and discarded because they were too large. A mebibyte
/// takes about 15 ms, so a policy that cannot be loaded is rejected well within a second.
const WASTED_BYTES_MAX: usize = 16 * KIB * KIB;

/// A class of Unicode characters is this large before anything is compiled.
const CLASS_BYTES: usize = 4 * KIB;

/// The budget of memory and work that all patterns of one document share.
#[derive(Debug, Default)]
pub(crate) struct PatternBudget {
    kept_bytes: usize,
    wasted_bytes: usize,
    /// The error was reported; the remaining patterns are not compiled.
    is_over: bool,
}

impl PatternBudget {
    fn waste(&mut self, bytes: usize) -> Result<(), Complaint> {
        self.wasted_bytes = self.wasted_bytes.saturating_add(bytes);
        if self.wasted_bytes > WASTED_BYTES_MAX {
            return Err(self.over());
        }
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<(), Complaint> {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes > PATTERN_BYTES_MAX {
            return Err(self.over());
        }
        Ok(())
    }

    fn over(&mut self) -> Complaint {
        self.is_over = true;
        Complaint::new("the patterns of this policy up to this one are too large in total")
            .hint("use `in`, `starts_with` or `ends_with` where possible, and smaller repetitions")
    }
}

pub(super) fn regex(value: &Node, budget: &mut PatternBudget) -> Result<Test, Complaint> {
    build(value.as_text().unwrap_or_default(), budget)
}

fn build(pattern: &str, budget: &mut PatternBudget) -> Result<Test, Complaint> {
    if budget.is_over {
        // The policy is already rejected, so this pattern is not compiled.
        return Ok(Test::new(|_| TruthValue::Fails));
    }
    budget.waste(classes(pattern).saturating_mul(CLASS_BYTES))?;
    for pattern_bytes in PATTERN_BYTES {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(pattern_bytes).dfa_size_limit(MATCHING_BYTES_MAX).nest_limit(64);
        match builder.build() {
            Ok(regex) => {
                budget.keep(pattern_bytes)?;
                return Ok(Test::on_text(move |text| TruthValue::of(regex.is_match(text))));
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                // The first tier costs next to nothing, and most patterns that leave it fit the second.
                if pattern_bytes > 64 * KIB {
                    budget.waste(pattern_bytes)?;
                }
            }
            Err(error) => return Err(complain(&error)),
        }
    }
    budget.is_over = true;
    Err(Complaint::new("the pattern is too large when compiled")
        .hint("use smaller repetitions, `[a-z]` for `\\w`, or add `length_lte`"))
}

/// How often a pattern names a large class of characters.
fn classes(pattern: &str) -> usize {
    let bytes = pattern.as_bytes();
    let is_class = |pair: &&[u8]| matches!(pair, [b'\\', b'w' | b'W' | b'p' | b'P']);
    bytes.windows(2).filter(is_class).count()
}

fn complain(error: &regex::Error) -> Complaint {
    let description = error.to_string();
    // The last line says what is wrong; the lines before it draw the pattern.
    let reason = description.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    Complaint::new(format!("the pattern does not compile: {reason}"))
        .hint("patterns have no look-around and no back-references")
}

pub(super) fn glob(value: &Node, budget: &mut PatternBudget) -> Result<Test, Complaint> {
    let mut pattern = String::from(r"(?s)\A");
    let mut characters = value.as_text().unwrap_or_default().chars();
    while let Some(c) = characters.next() {
        match c {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            '\\' => {
                let literal = characters.next().ok_or_else(|| {
                    Complaint::new("the pattern ends in a single backslash").hint("write `\\\\`")
                })?;
                pattern.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
            }
            _ => pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern.push_str(r"\z");
    build(&pattern, budget)
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
pub(super) fn starts_with(value: &Node) -> Result<Test, Complaint> {
    let value: Box<str> = value.as_text().unwrap_or_default().into();
    Ok(Test::on_text(move |text| TruthValue::of(text.starts_with(&*value))))
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
pub(super) fn ends_with(value: &Node) -> Result<Test, Complaint> {
    let value: Box<str> = value.as_text().unwrap_or_default().into();
    Ok(Test::on_text(move |text| TruthValue::of(text.ends_with(&*value))))
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
pub(super) fn contains(value: &Node) -> Result<Test, Complaint> {
    let value = Scalar::of(value);
    Ok(Test::new(move |seen| match (seen, &value) {
        (Seen::Text(text), Scalar::Text(value)) => TruthValue::of(text.contains(&**value)),
        // An element of another type leaves it open whether the value is hidden in there.
        (Seen::List(list), value) => {
            let elements = list.items().map(|item| value.equals(&Seen::of(item)));
            elements.fold(TruthValue::Fails, TruthValue::or)
        }
        _ => TruthValue::Indeterminate,
    }))
}

pub(super) fn length_lte(value: &Node) -> Result<Test, Complaint> {
    length(value, |length, value| length <= value)
}

pub(super) fn length_gte(value: &Node) -> Result<Test, Complaint> {
    length(value, |length, value| length >= value)
}

#[expect(clippy::unnecessary_wraps, reason = "all compile functions have one signature")]
fn length(value: &Node, test: fn(u64, u64) -> bool) -> Result<Test, Complaint> {
    let value = whole(value).unwrap_or_default();
    let check =
        move |length: usize| TruthValue::of(test(length.try_into().unwrap_or(u64::MAX), value));
    Ok(Test::new(move |seen| match seen {
        Seen::Text(given) => check(given.chars().count()),
        Seen::List(list) => check(list.len()),
        _ => TruthValue::Indeterminate,
    }))
}

pub(super) const REGEX: &[Case] = &[
    holds("\"b+\"", "\"abbc\""),
    fails("\"^b+\"", "\"abbc\""),
    holds("\"^[a-z]+@corp\\\\.com$\"", "\"ann@corp.com\""),
    fails("\"^[a-z]+@corp\\\\.com$\"", "\"ann@corp.com.evil.org\""),
    fails("\"^a$\"", "\"a\\n\""),
    holds("\"(?i)DROP\"", "\"drop table\""),
    unclear("\"1\"", "1"),
    unclear("\"a\"", "[\"a\"]"),
    unclear("\"a\"", "null"),
];

pub(super) const CONTAINS: &[Case] = &[
    holds("\"--force\"", "\"push --force\""),
    fails("\"--force\"", "\"push\""),
    holds("\"\"", "\"anything\""),
    holds("\"x\"", "[\"w\",\"x\"]"),
    fails("\"x\"", "[\"w\",\"xx\"]"),
    fails("\"x\"", "[]"),
    holds("5", "[1,5.0]"),
    holds("\"x\"", "[1,\"x\"]"),
    unclear("\"x\"", "[[\"x\"]]"),
    unclear("\"x\"", "[1,\"w\"]"),
    unclear("5", "\"15\""),
    unclear("\"x\"", "{\"x\":1}"),
    unclear("\"x\"", "null"),
];

pub(super) const STARTS_WITH: &[Case] = &[
    holds("\"get_\"", "\"get_user\""),
    fails("\"get_\"", "\"forget_user\""),
    fails("\"get_\"", "\"GET_user\""),
    holds("\"\"", "\"\""),
    unclear("\"1\"", "12"),
    unclear("\"a\"", "[\"ab\"]"),
];

pub(super) const ENDS_WITH: &[Case] = &[
    holds("\"@corp.com\"", "\"ann@corp.com\""),
    fails("\"@corp.com\"", "\"ann@corp.com.evil.org\""),
    unclear("\"2\"", "12"),
    unclear("\"a\"", "null"),
];

pub(super) const GLOB: &[Case] = &[
    holds("\"report-*.csv\"", "\"report-2026/05.csv\""),
    fails("\"report-*.csv\"", "\"my report-1.csv\""),
    fails("\"report-*.csv\"", "\"report-1.csv \""),
    holds("\"report-?.csv\"", "\"report-\\u00e9.csv\""),
    fails("\"report-?.csv\"", "\"report-10.csv\""),
    holds("\"a*\"", "\"a\\nb\""),
    holds("\"5\\\\*5\"", "\"5*5\""),
    fails("\"5\\\\*5\"", "\"5x5\""),
    holds("\"[a].(b)\"", "\"[a].(b)\""),
    fails("\"\"", "\"a\""),
    unclear("\"*\"", "5"),
    unclear("\"*\"", "null"),
];

pub(super) const LENGTH_LTE: &[Case] = &[
    holds("3", "\"abc\""),
    fails("3", "\"abcd\""),
    holds("1", "\"\\u00e9\""),
    holds("2", "[1,2]"),
    fails("2", "[1,2,3]"),
    unclear("3", "123"),
    unclear("3", "{\"a\":1}"),
    unclear("3", "null"),
];

pub(super) const LENGTH_GTE: &[Case] = &[
    holds("3", "\"abc\""),
    fails("3", "\"ab\""),
    holds("0", "\"\""),
    holds("1", "[null]"),
    fails("1", "[]"),
    unclear("1", "1"),
    unclear("0", "null"),
];

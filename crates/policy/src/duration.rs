//! Lengths of time as policies write them: seconds, `"90s"`, `"15m"`, `"6h"`, `"7d"`, or a word.

use crate::problem::Complaint;
use crate::shape::whole;
use crate::tree::Node;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The longest window and the longest wait for an approval.
pub(crate) const SECONDS_MAX: u64 = 366 * DAY;

const WORDS: [(&str, u64); 4] = [("second", 1), ("minute", MINUTE), ("hour", HOUR), ("day", DAY)];

/// A window: a word, or anything a timeout may be.
pub(crate) fn window_seconds(node: &Node) -> Result<u64, Complaint> {
    let word = node.as_text().and_then(|text| WORDS.iter().find(|(word, _)| *word == text));
    match word {
        Some((_, seconds)) => Ok(*seconds),
        None => seconds(node).ok_or_else(|| {
            complain("window", node, "`second`, `minute`, `hour`, `day`, a whole number of seconds")
        }),
    }
}

pub(crate) fn timeout_seconds(node: &Node) -> Result<u64, Complaint> {
    seconds(node).ok_or_else(|| complain("timeout", node, "a whole number of seconds"))
}

fn complain(what: &str, node: &Node, known: &str) -> Complaint {
    let given = node.as_text().or(node.as_number()).unwrap_or_default();
    Complaint::new(format!("unknown {what} `{given}`"))
        .hint(format!("write {known}, or text such as `\"15m\"`, from 1 second to 366 days"))
}

fn seconds(node: &Node) -> Option<u64> {
    let seconds = match node.as_text() {
        Some(text) => {
            let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let unit = match unit {
                "s" => 1,
                "m" => MINUTE,
                "h" => HOUR,
                "d" => DAY,
                _ => return None,
            };
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(unit)?
        }
        None => whole(node)?,
    };
    (1..=SECONDS_MAX).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::{timeout_seconds, window_seconds};
    use crate::problem::Position;
    use crate::tree::{Node, NodeValue};

    fn text(text: &str) -> Node {
        Node { position: Position::default(), value: NodeValue::Text(text.into()) }
    }

    fn number(number: &str) -> Node {
        Node { position: Position::default(), value: NodeValue::Number(number.into()) }
    }

    #[test]
    fn windows_are_words_seconds_or_counted_units() {
        let cases = [
            (text("second"), Some(1)),
            (text("minute"), Some(60)),
            (text("hour"), Some(3_600)),
            (text("day"), Some(86_400)),
            (number("60"), Some(60)),
            (text("90s"), Some(90)),
            (text("15m"), Some(900)),
            (text("6h"), Some(21_600)),
            (text("7d"), Some(604_800)),
            (text("366d"), Some(31_622_400)),
            (text("367d"), None),
            (text("fortnight"), None),
            (text("60"), None),
            (text("s"), None),
            (text(""), None),
            (text("1.5h"), None),
            (text("-1s"), None),
            (text("+1s"), None),
            (text("1 m"), None),
            (text("1é"), None),
            (text("99999999999999999999d"), None),
            (number("0"), None),
            (number("-60"), None),
            (number("0.5"), None),
            (number("6e1"), Some(60)),
            (number("60.0"), Some(60)),
            (number("60.5"), None),
        ];
        for (node, expected) in cases {
            assert_eq!(window_seconds(&node).ok(), expected, "{node:?}");
        }
    }

    #[test]
    fn a_timeout_is_no_word() {
        assert_eq!(timeout_seconds(&text("30m")), Ok(1_800));
        assert_eq!(timeout_seconds(&number("5")), Ok(5));
        assert!(timeout_seconds(&text("minute")).is_err());
    }
}

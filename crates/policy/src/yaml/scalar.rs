//! What a plain YAML scalar means. Only forms that every YAML version and JSON read alike are values;
//! `yes`, `no`, `on` and `off` stay text; number forms with two readings are refused.

use crate::amount::is_number;
use crate::problem::Complaint;
use crate::tree::{BOUNDS, NodeValue};

pub(super) fn resolve(text: &str) -> Result<NodeValue, Complaint> {
    match text {
        "" => Err(Complaint::new("a value is missing here")
            .hint("write `{}` for an empty object, `\"\"` for empty text")),
        "~" | "null" | "Null" | "NULL" => Ok(NodeValue::Null),
        "true" | "True" | "TRUE" => Ok(NodeValue::Bool(true)),
        "false" | "False" | "FALSE" => Ok(NodeValue::Bool(false)),
        _ if is_number(text) => number(text),
        _ if looks_numeric(text) => {
            Err(Complaint::new("a number that YAML versions read differently")
                .hint("write it as a plain decimal, or in quotes as text"))
        }
        _ => Ok(NodeValue::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Result<NodeValue, Complaint> {
    if text.len() > BOUNDS.number_bytes_max {
        let message = format!("a number longer than {} characters", BOUNDS.number_bytes_max);
        return Err(Complaint::new(message));
    }
    Ok(NodeValue::Number(text.to_owned()))
}

/// Octal, hexadecimal, binary, underscores, a bare point, a plus sign, infinities and base 60.
fn looks_numeric(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = body.to_ascii_lowercase();
    if lower == ".inf" || lower == ".nan" {
        return true;
    }
    let radix = ["0x", "0o", "0b"].iter().find_map(|mark| lower.strip_prefix(mark));
    if let Some(digits) = radix {
        return !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '_');
    }
    let (mantissa, exponent) = match lower.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (lower.as_str(), None),
    };
    is_mantissa(mantissa) && exponent.is_none_or(is_exponent)
}

fn is_mantissa(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let points = text.matches('.').count();
    let sixties = text.matches(':').count();
    let others = text.chars().any(|c| !c.is_ascii_digit() && !matches!(c, '_' | '.' | ':'));
    let starts = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    starts && digits > 0 && !others && points <= 1 && (sixties == 0 || points == 0)
}

fn is_exponent(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

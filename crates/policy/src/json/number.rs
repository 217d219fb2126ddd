//! JSON numbers: finding their end, their exact value, and whether common readers keep it.

use super::refusal::RefusalKind;

/// Every whole number up to here has a double of its own.
const DOUBLE_WHOLE_MAX: u64 = 1 << 53;

/// The offset after the number that begins at `start`, by the grammar of RFC 8259.
pub(super) fn scan(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
    at = match bytes.get(at) {
        Some(b'0') => at + 1,
        Some(b'1'..=b'9') => skip_digits(bytes, at),
        _ => return Err(at),
    };
    if bytes.get(at) == Some(&b'.') {
        at = some_digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let signed = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = some_digits(bytes, at + 1 + usize::from(signed))?;
    }
    Ok(at)
}

#[inline]
fn skip_digits(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

fn some_digits(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let end = skip_digits(bytes, start);
    if end == start { Err(start) } else { Ok(end) }
}

/// Refuses a number that a reader into `f64` or `i64` would change.
#[inline]
pub(super) fn check_exact(text: &str) -> Result<(), (RefusalKind, &'static str)> {
    // Fifteen digits without exponent always survive a double.
    let short = text.len() <= 15 && !text.bytes().any(|byte| byte | 0x20 == b'e');
    if short || survives(text) {
        return Ok(());
    }
    Err((
        RefusalKind::NumberNotExact,
        "a number does not keep its value in a double or a 64-bit integer; write it as a string",
    ))
}

fn survives(text: &str) -> bool {
    if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return survives_double(text);
    }
    text.parse::<i64>().is_ok_and(|whole| {
        whole.unsigned_abs() <= DOUBLE_WHOLE_MAX
            || (survives_double(text) && double_is_exactly(text))
    })
}

/// Whether a writer of the nearest double would write this value: the shortest text that reads back.
fn survives_double(text: &str) -> bool {
    let Ok(double) = text.parse::<f64>() else { return false };
    match ExactNumber::of(text) {
        Some(value) if value.digits.is_empty() => true,
        Some(value) if double.is_finite() => {
            let shortest = ExactNumber::of(&format!("{double:e}"));
            shortest.is_some_and(|shortest| shortest == value || is_tie(&shortest, &value, double))
        }
        _ => false,
    }
}

/// Whether a double lies exactly between two shortest texts. Writers then choose differently: of
/// `1323669654323664.2` and `.3` scripts write the even one, others the larger.
fn is_tie(a: &ExactNumber, b: &ExactNumber, double: f64) -> bool {
    let (Some(a_digits), Some(b_digits)) = (a.digits_value(), b.digits_value()) else {
        return false;
    };
    let lesser = if a_digits < b_digits { a } else { b };
    let middle = ExactNumber { digits: [&lesser.digits, b"5".as_slice()].concat(), ..*lesser };
    a_digits.abs_diff(b_digits) == 1
        && a.digits.len() == b.digits.len()
        && (a.negative, a.point) == (b.negative, b.point)
        && ExactNumber::of(&format!("{double:.800e}")) == Some(middle)
}

/// Whether the nearest double is this very whole number: `9223372036854776000` is the shortest text of
/// a double that is really `9223372036854775808`.
fn double_is_exactly(whole: &str) -> bool {
    whole.parse::<f64>().is_ok_and(|double| format!("{double:.0}") == whole)
}

/// An exact decimal: `0.DIGITS` times ten to the `point`, without zeros at either end of the digits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExactNumber {
    negative: bool,
    digits: Vec<u8>,
    point: i64,
}

impl ExactNumber {
    /// `None` when the exponent itself does not fit.
    pub(super) fn of(text: &str) -> Option<ExactNumber> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole.as_bytes(), fraction.as_bytes()].concat();
        let Some(first) = all.iter().position(|&digit| digit != b'0') else {
            return Some(ExactNumber { negative: false, digits: Vec::new(), point: 0 });
        };
        let last = all.iter().rposition(|&digit| digit != b'0')?;
        let shift = i64::try_from(whole.len()).ok()? - i64::try_from(first).ok()?;
        let point = exponent.parse::<i64>().ok()?.checked_add(shift)?;
        Some(ExactNumber { negative, digits: all.get(first..=last)?.to_vec(), point })
    }

    /// The digits as a whole number, when they are as few as a double's.
    fn digits_value(&self) -> Option<u64> {
        std::str::from_utf8(&self.digits).ok()?.parse().ok()
    }

    /// Writes it as ECMAScript and RFC 8785 do: plain between 1e-6 and 1e21, else with an exponent.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.digits.is_empty() {
            out.push(b'0');
            return;
        }
        if self.negative {
            out.push(b'-');
        }
        match self.point {
            1..=21 => self.write_plain(out),
            -5..=0 => {
                out.extend_from_slice(b"0.");
                out.extend((self.point..0).map(|_| b'0'));
                out.extend_from_slice(&self.digits);
            }
            _ => self.write_scientific(out),
        }
    }

    fn write_plain(&self, out: &mut Vec<u8>) {
        let whole_len = usize::try_from(self.point).unwrap_or(0);
        match self.digits.split_at_checked(whole_len) {
            Some((whole, [])) => out.extend_from_slice(whole),
            Some((whole, fraction)) => {
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            None => {
                out.extend_from_slice(&self.digits);
                out.extend((self.digits.len()..whole_len).map(|_| b'0'));
            }
        }
    }

    fn write_scientific(&self, out: &mut Vec<u8>) {
        if let Some((first, rest)) = self.digits.split_first() {
            out.push(*first);
            if !rest.is_empty() {
                out.push(b'.');
                out.extend_from_slice(rest);
            }
        }
        let exponent = self.point.saturating_sub(1);
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{}", exponent.unsigned_abs()).as_bytes());
    }
}

//! Parses Google's localised timestamps: `Nov 5, 2023, 9:15:30 PM
//! CET`, `05.11.2023, 21:15:30 MEZ`, `2023年11月5日 GMT+8 21:15:30`.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// Unix seconds. The owner's zone applies if the text names no known zone, or one that several
/// countries use.
pub(super) fn read(text: &str, zone: &TimeZone) -> Option<i64> {
    let tokens = tokens(text);
    let (clock_at, clock) = clock(&tokens)?;
    let rest: Vec<&Token> = tokens
        .iter()
        .enumerate()
        .filter(|(at, _)| !(clock_at..clock_at + 5).contains(at))
        .map(|(_, token)| token)
        .collect();
    let (offset, rest) = offset(&rest);
    let (hour, minute, second) = clock;
    let hour = half_of_day(&rest).map_or(Some(hour), |is_late| match (hour, is_late) {
        (1..=11, true) => Some(hour + 12),
        (12, false) => Some(0),
        (0..=23, _) => Some(hour),
        _ => None,
    })?;
    let (year, month, day) = date(&rest)?;
    let at = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    Some(match offset {
        Some(minutes) => {
            Offset::from_seconds(minutes * 60).ok()?.to_timestamp(at).ok()?.as_second()
        }
        None => named(at, &rest, zone)?,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Its value and how many digits it has.
    Number(i64, usize),
    /// In lower case.
    Word(String),
    Sign(char),
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for letter in text.trim().chars().take(120) {
        if let Some(digit) = digit(letter) {
            match tokens.last_mut() {
                Some(Token::Number(value, digits)) if *digits < 9 => {
                    *value = *value * 10 + digit;
                    *digits += 1;
                }
                _ => tokens.push(Token::Number(digit, 1)),
            }
        } else if letter.is_alphabetic() {
            let lower = letter.to_lowercase();
            match tokens.last_mut() {
                Some(Token::Word(word)) => word.extend(lower),
                _ => tokens.push(Token::Word(lower.collect())),
            }
        } else if letter.is_whitespace() {
            // White space separates tokens.
            tokens.push(Token::Sign(' '));
        } else {
            tokens.push(Token::Sign(letter));
        }
    }
    tokens
}

/// Also Arabic, Persian and Hindi digits.
fn digit(letter: char) -> Option<i64> {
    let code = u32::from(letter);
    let zero =
        [0x30, 0x660, 0x6f0, 0x966].into_iter().find(|zero| (*zero..*zero + 10).contains(&code))?;
    Some(i64::from(code - zero))
}

/// Hours, minutes and seconds, and their position: `21:15:30`, or `21.15.30` in Nordic languages.
fn clock(tokens: &[Token]) -> Option<(usize, (i8, i8, i8))> {
    let find = |mark: char| {
        tokens.windows(5).enumerate().find_map(|(at, window)| match window {
            [
                Token::Number(hour, 1 | 2),
                Token::Sign(one),
                Token::Number(minute, 2),
                Token::Sign(two),
                Token::Number(second, 2),
            ] if *one == mark && *two == mark => {
                let small = |number: &i64| i8::try_from(*number).ok();
                Some((at, (small(hour)?, small(minute)?, small(second)?)))
            }
            _ => None,
        })
    };
    find(':').or_else(|| find('.'))
}

/// `GMT+8`, `UTC-03:30`: minutes east of Greenwich, and the tokens without it.
fn offset<'a>(tokens: &[&'a Token]) -> (Option<i32>, Vec<&'a Token>) {
    let is_zero =
        |token: &Token| matches!(token, Token::Word(word) if word == "gmt" || word == "utc");
    let Some(begin) = tokens.iter().position(|token| is_zero(token)) else {
        return (None, tokens.to_vec());
    };
    let tail: Vec<&Token> = tokens.iter().skip(begin + 1).take(4).copied().collect();
    let (minutes, used) = match tail.as_slice() {
        [
            Token::Sign(sign),
            Token::Number(hours, 1 | 2),
            Token::Sign(':'),
            Token::Number(minutes, 2),
        ] if is_sign(*sign) => (signed(*sign, *hours * 60 + *minutes), 4),
        [Token::Sign(sign), Token::Number(hours, 1 | 2), ..] if is_sign(*sign) => {
            (signed(*sign, *hours * 60), 2)
        }
        _ => (0, 0),
    };
    let rest = tokens.iter().enumerate();
    let rest = rest.filter(|(at, _)| !(begin..=begin + used).contains(at)).map(|(_, token)| *token);
    (Some(minutes), rest.collect())
}

fn is_sign(sign: char) -> bool {
    "+-\u{2212}\u{2013}".contains(sign)
}

fn signed(sign: char, minutes: i64) -> i32 {
    let minutes = i32::try_from(minutes).unwrap_or_default();
    if sign == '+' { minutes } else { -minutes }
}

/// Is it p.m.? `None` if the text does not say.
fn half_of_day(tokens: &[&Token]) -> Option<bool> {
    let message: Vec<&str> = tokens.iter().filter_map(|token| word(token)).collect();
    let halves = message.windows(2).find_map(|pair| match pair {
        ["a" | "π", "m" | "μ"] => Some(false),
        ["p" | "μ", "m" | "μ"] => Some(true),
        _ => None,
    });
    let whole = message.iter().find_map(|word| match *word {
        "am" | "上午" | "午前" | "오전" | "πμ" | "öö" | "ص" => Some(false),
        "pm" | "下午" | "午後" | "오후" | "μμ" | "ös" | "م" => Some(true),
        _ => None,
    });
    whole.or(halves)
}

fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}

fn date(tokens: &[&Token]) -> Option<(i16, i8, i8)> {
    let numbers: Vec<(i64, usize)> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Number(value, digits) => Some((*value, *digits)),
            _ => None,
        })
        .collect();
    let year_at = numbers.iter().position(|(_, digits)| *digits == 4)?;
    let year = numbers.get(year_at)?.0;
    // Thailand uses the Buddhist era.
    let year = i16::try_from(if year > 2_400 { year - 543 } else { year }).ok()?;
    let others: Vec<i64> = numbers
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != year_at)
        .map(|(_, (value, _))| *value)
        .collect();
    let month = tokens.iter().filter_map(|token| word(token)).find_map(month_of);
    let (month, day) = match (month, others.as_slice()) {
        (Some(month), [day, ..]) => (month, *day),
        (None, [month, day, ..]) if year_at == 0 || *day > 12 => (*month, *day),
        (None, [day, month, ..]) => (*month, *day),
        _ => return None,
    };
    Some((year, i8::try_from(month).ok()?, i8::try_from(day).ok()?))
}

/// Prefixes of the month names, by language.
const MONTHS: [&[&str]; 12] = [
    &["jan", "ene", "gen", "ian", "sty", "oca", "янв", "січ", "ιαν", "يناير"],
    &["feb", "fév", "fev", "lut", "şub", "фев", "лют", "φεβ", "فبراير"],
    &["mar", "mär", "mrt", "már", "мар", "бер", "μαρ", "مارس", "maa"],
    &["apr", "avr", "abr", "ápr", "kwi", "nis", "апр", "кві", "απρ", "أبريل", "huh"],
    &["may", "mai", "mag", "maj", "mei", "máj", "мая", "май", "тра", "μαΐ", "μαϊ", "مايو", "tou"],
    &["jun", "juin", "giu", "jún", "cze", "haz", "iun", "июн", "чер", "ιουν", "يونيو", "kes"],
    &["jul", "juil", "lug", "júl", "lip", "tem", "iul", "июл", "лип", "ιουλ", "يوليو", "hei"],
    &["aug", "aoû", "aou", "ago", "agu", "sie", "ağu", "авг", "сер", "αυγ", "أغسطس", "elo"],
    &["sep", "set", "wrz", "sze", "eyl", "сен", "вер", "σεπ", "سبتمبر", "syy"],
    &["oct", "okt", "ott", "out", "paź", "eki", "окт", "жов", "οκτ", "أكتوبر", "lok"],
    &["nov", "lis", "kas", "ноя", "лис", "νοε", "نوفمبر"],
    &["dec", "dez", "déc", "dic", "des", "dés", "gru", "ara", "дек", "гру", "δεκ", "ديسمبر", "jou"],
];

fn month_of(word: &str) -> Option<i64> {
    let begins = |names: &&[&str]| names.iter().any(|name| word.starts_with(name));
    // Finnish November is `marras`, Icelandic August `ágúst`.
    let rare = [("marras", 11), ("ágú", 8), ("tammi", 1), ("helmi", 2), ("joulu", 12)];
    if let Some((_, month)) = rare.iter().find(|(name, _)| word.starts_with(name)) {
        return Some(*month);
    }
    let at = MONTHS.iter().position(begins)?;
    i64::try_from(at + 1).ok()
}

/// Zones by abbreviation, in minutes east of Greenwich.
const ZONES: &[(&str, i32)] = &[
    ("wet", 0),
    ("wez", 0),
    ("z", 0),
    ("bst", 60),
    ("west", 60),
    ("wesz", 60),
    ("cet", 60),
    ("mez", 60),
    ("wat", 60),
    ("cest", 120),
    ("mesz", 120),
    ("eet", 120),
    ("oez", 120),
    ("sast", 120),
    ("cat", 120),
    ("eest", 180),
    ("oesz", 180),
    ("idt", 180),
    ("msk", 180),
    ("trt", 180),
    ("eat", 180),
    ("gst", 240),
    ("pkt", 300),
    ("ist", 330),
    ("npt", 345),
    ("ict", 420),
    ("wib", 420),
    ("hkt", 480),
    ("sgt", 480),
    ("pht", 480),
    ("awst", 480),
    ("wita", 480),
    ("jst", 540),
    ("kst", 540),
    ("wit", 540),
    ("acst", 570),
    ("aest", 600),
    ("acdt", 630),
    ("aedt", 660),
    ("nzst", 720),
    ("nzdt", 780),
    ("ndt", -150),
    ("brt", -180),
    ("art", -180),
    ("adt", -180),
    ("clst", -180),
    ("nst", -210),
    ("ast", -240),
    ("edt", -240),
    ("clt", -240),
    ("est", -300),
    ("cdt", -300),
    ("cot", -300),
    ("pet", -300),
    ("cst", -360),
    ("mdt", -360),
    ("mst", -420),
    ("pdt", -420),
    ("pst", -480),
    ("akdt", -480),
    ("akst", -540),
    ("hst", -600),
];

/// By a zone abbreviation: the owner's zone if it uses it, else the best-known one.
fn named(at: DateTime, tokens: &[&Token], zone: &TimeZone) -> Option<i64> {
    let here = zone.to_ambiguous_timestamp(at).compatible().ok()?;
    let own = zone.to_offset_info(here).abbreviation().to_lowercase();
    let message: Vec<&str> = tokens.iter().filter_map(|token| word(token)).collect();
    if message.contains(&own.as_str()) {
        return Some(here.as_second());
    }
    let found = message.iter().rev().find_map(|word| ZONES.iter().find(|(name, _)| name == word));
    match found {
        Some((_, minutes)) => {
            Some(Offset::from_seconds(minutes * 60).ok()?.to_timestamp(at).ok()?.as_second())
        }
        None => Some(here.as_second()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn timestamps_are_parsed_in_googles_languages() {
        let zone = TimeZone::fixed(Offset::from_seconds(3_600).unwrap());
        // All of them are 2023-11-05T20:15:30Z.
        for text in [
            "Nov 5, 2023, 9:15:30\u{202f}PM CET",
            "5 Nov 2023, 20:15:30 UTC",
            "05.11.2023, 21:15:30 MEZ",
            "5 nov. 2023, 21:15:30 CET",
            "5 nov. 2023 à 21:15:30 UTC+1",
            "5 nov 2023, 15:15:30 GMT-5",
            "5 nov 2023, 3:15:30 p. m. EST",
            "5 de nov. de 2023, 17:15:30 BRT",
            "2023/11/06 5:15:30 JST",
            "2023. 11. 6. 오전 5:15:30 KST",
            "2023年11月6日 GMT+8 04:15:30",
            "2023年11月6日 上午4:15:30 GMT+08:00",
            "5 нояб. 2023 г., 23:15:30 MSK",
            "5 lis 2023, 21:15:30 CET",
            "5.11.2023 klo 22.15.30 EET",
            "5. nov. 2023 kl. 21.15.30 CET",
            "2023. nov. 5. 21:15:30 CET",
            "5 Kas 2023 23:15:30 TRT",
            "6 thg 11, 2023, 03:15:30 ICT",
            "5 Nov 2566 21:15:30",
            "06/11/2023, 01:45:30 GMT+05:30",
            "Nov 5, 2023, 9:15:30 PM",
        ] {
            assert_eq!(read(text, &zone), Some(1_699_215_330), "{text}");
        }
    }

    #[test]
    fn the_owners_zone_resolves_an_ambiguous_abbreviation() {
        let Ok(zone) = TimeZone::get("Asia/Shanghai") else { return };
        assert_eq!(read("Nov 6, 2023, 4:15:30 AM CST", &zone), Some(1_699_215_330));
        assert_eq!(read("Nov 5, 2023, 2:15:30 PM CST", &TimeZone::UTC), Some(1_699_215_330));
    }

    #[test]
    fn other_text_is_not_a_timestamp() {
        for text in [
            "",
            "yesterday",
            "Nov 5, 2023",
            "21:15:30",
            "32.13.2023, 21:15:30",
            "99:99:99 1 Nov 2023",
        ] {
            assert_eq!(read(text, &TimeZone::UTC), None, "{text}");
        }
    }
}

//! `notices` of `[services.NAME]`: one sentence per rule, such as `hrv below for 3 days`.

use std::fmt;
use std::str::FromStr;

/// A run of more days would be older than its baseline.
const DAYS_MAX: i32 = 30;

/// A metric that leaves its usual range for some days in a row is a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRule {
    /// The connectors know which exist.
    pub metric: String,
    pub side: RuleSide,
    pub days: i32,
}

/// The side of the usual range that is a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSide {
    Below,
    Above,
    Outside,
}

impl RuleSide {
    const ALL: [RuleSide; 3] = [RuleSide::Below, RuleSide::Above, RuleSide::Outside];

    pub fn as_str(self) -> &'static str {
        match self {
            RuleSide::Below => "below",
            RuleSide::Above => "above",
            RuleSide::Outside => "outside",
        }
    }
}

/// A text that is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARule;

impl FromStr for NoticeRule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<NoticeRule, NotARule> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [metric, side, "for", days, "day" | "days"] = words.as_slice() else {
            return Err(NotARule);
        };
        let is_name =
            metric.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let side = RuleSide::ALL.into_iter().find(|own| own.as_str() == *side).ok_or(NotARule)?;
        let days: i32 = days.parse().map_err(|_| NotARule)?;
        if !is_name || metric.len() > 64 || !(1..=DAYS_MAX).contains(&days) {
            return Err(NotARule);
        }
        Ok(NoticeRule { metric: (*metric).to_owned(), side, days })
    }
}

impl fmt::Display for NoticeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.days == 1 { "day" } else { "days" };
        write!(f, "{} {} for {} {unit}", self.metric, self.side.as_str(), self.days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_sentence_and_nothing_else_is_one() {
        for text in [
            "hrv below for 3 days",
            "resting_heart_rate above for 1 day",
            "strain outside for 30 days",
        ] {
            assert_eq!(
                text.parse::<NoticeRule>().map(|rule| rule.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "",
            "hrv",
            "hrv below",
            "hrv under for 3 days",
            "hrv below for 0 days",
            "hrv below for 31 days",
            "hrv below for three days",
            "HRV below for 3 days",
            "hrv below for 3 days or more",
            "a;b below for 3 days",
        ] {
            assert_eq!(text.parse::<NoticeRule>(), Err(NotARule), "{text}");
        }
    }
}

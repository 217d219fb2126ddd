//! The report of the mirror as one page.

use insights::Units;
use insights::report::{ReportData, html};
use store::records::Records;

use super::daily;
use super::drivers::survey;
use super::metrics::{
    ASLEEP, HRV, PAIRS, RECOVERY, RESPIRATORY_RATE, RESTING_HEART_RATE, SLEEP_NEED, WORKOUT_ENERGY,
};
use super::{SURVEY_DAYS, glance, sleep_and_load};
use crate::connector::{Report, ReportError};

const LINES: &[&str] = &[RECOVERY, HRV, RESTING_HEART_RATE, ASLEEP, RESPIRATORY_RATE];

pub(crate) const REPORT: Report = Report { html: page };

fn page(records: &Records, now_us: i64, days: i32, units: Units) -> Result<String, ReportError> {
    let before_days = SURVEY_DAYS.max(days);
    let data = daily::load(records, now_us, Some(before_days))?;
    // Today is complete only tomorrow.
    let to = data.newest().ok_or(ReportError::NoData)?.min(data.today.plus(-1));
    let from = to.plus(1 - days);
    let claims = survey(&data).claims(to.plus(1 - before_days), to);
    let measured = data.measured();
    let page = html(&ReportData {
        source: crate::whoop::SERVICE.title,
        from,
        to,
        measured: &measured,
        lines: LINES,
        calendar: RECOVERY,
        asleep: ASLEEP,
        sleep_need_metric: SLEEP_NEED,
        load_metric: WORKOUT_ENERGY,
        claims: &claims,
        pairs: PAIRS,
        regularity: sleep_and_load::regularity_of(&data, from, to),
        sleep_need: glance::need(&data, to, days),
        training_load: sleep_and_load::load_of(&data, WORKOUT_ENERGY),
        units,
    });
    page.map_err(|error| ReportError::Page(error.to_string()))
}

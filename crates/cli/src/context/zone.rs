//! The owner's time zone.

use jiff::tz::TimeZone;

use super::Context;
use crate::output::Out;

/// The zone that the gate uses: from the settings file, or the machine's.
pub(crate) fn owners_zone(context: &Context, out: &Out) -> TimeZone {
    let named = if let Ok(settings) = context.settings() {
        settings.time_zone
    } else {
        out.warn("the settings file does not load, so times are in the machine's zone");
        None
    };
    let zone = named.and_then(|name| TimeZone::get(&name).ok());
    zone.unwrap_or_else(TimeZone::system)
}

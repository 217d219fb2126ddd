//! Journal entries: the owner's answers about a day. Only the export has them, so they are a
//! separate kind.

use jiff::tz::Offset;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::records::{Column as Shown, View};

use super::cells::{ExportRow, Moment};
use super::columns::Column;
use super::rows::ID_PREFIX;

/// The kind in the mirror.
pub const KIND: &str = "journal";

/// The answers as a table. They are not part of an export of everything, which programs expect to be
/// six files.
pub const VIEW: View = View {
    name: "whoop_journal",
    service: "whoop",
    kind: KIND,
    columns: &[
        Shown::text("date"),
        Shown::text("question"),
        Shown::bool("answered_yes"),
        Shown::text("notes"),
        Shown::text("start_utc"),
        Shown::text("end_utc"),
        Shown::text("timezone_offset"),
    ],
    except_state: None,
};

/// One answer, with the row it came from.
#[derive(Debug)]
pub(super) struct JournalAnswer {
    pub(super) id: String,
    pub(super) start: Moment,
    pub(super) end: Option<Moment>,
    pub(super) raw: String,
    pub(super) flat: String,
}

pub(super) fn answer(cells: &ExportRow<'_>, offset: Offset) -> Result<JournalAnswer, String> {
    let start = cells.moment(Column::CycleStart, offset)?.ok_or("CycleStart is empty")?;
    let end = cells.moment(Column::CycleEnd, offset)?;
    let question = cells.text(Column::Question).ok_or("Question is empty")?;
    let answered = cells.truth(Column::AnsweredYes)?;
    let raw = json!({ "source": "whoop_export", "row": cells.row.iter().collect::<Vec<_>>() });
    let flat = json!({
        "start_utc": start.utc(),
        "end_utc": end.map(Moment::utc),
        "date": start_date(end.unwrap_or(start)),
        "timezone_offset": start.offset_text(),
        "question": question,
        "answered_yes": answered,
        "notes": cells.text(Column::Notes),
    });
    Ok(JournalAnswer {
        id: id(start, question),
        start,
        end,
        raw: raw.to_string(),
        flat: flat.to_string(),
    })
}

/// One question is asked once a cycle, so both together name the answer whatever it says.
fn id(start: Moment, question: &str) -> String {
    let digest = Sha256::digest(question.as_bytes());
    let short: u64 = digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    format!("{ID_PREFIX}journal:{}:{short:016x}", start.utc())
}

/// The owner's day: the one the cycle ended on, or began on while it is open.
fn start_date(moment: Moment) -> Value {
    json!(moment.at.to_zoned(jiff::tz::TimeZone::fixed(moment.offset)).date().to_string())
}

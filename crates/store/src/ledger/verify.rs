//! Verifies the whole chain and reports the first record that was changed. With a checkpoint that
//! was kept elsewhere, it also detects removed rows at the end and a rewritten log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Ledger;
use super::chain::{self, Hash, Line};
use super::error::LedgerError;
use super::journal::Head;
use super::reader::{Reader, lines};
use super::row::{AuditRow, RowKind};
use super::sync_mark::Position;
use super::witness::{Alarm, Witness};

/// A row of the chain, to be kept where the log's owner cannot change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Hash of the ledger's first row: its id.
    pub ledger: String,
    pub seq: u64,
    pub hash: String,
    pub time: String,
}

impl Checkpoint {
    /// What is missing in a log that ends with `last` if this row was once in it.
    pub fn missed_in(&self, last: &Checkpoint) -> Option<String> {
        let Checkpoint { seq, time, .. } = self;
        if self.ledger != last.ledger {
            return Some(format!(
                "the audit log of this home, which had {seq} rows at {time}, is gone and was replaced by another"
            ));
        }
        (self.seq > last.seq).then(|| {
            format!(
                "the audit log ends with row {}, and had {seq} at {time}: its end was cut off, or an older copy put back",
                last.seq
            )
        })
    }
}

/// A valid chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub ledger: String,
    pub first_seq: u64,
    pub last_seq: u64,
    pub hash: String,
    pub segments: usize,
    /// Retired rows, as recorded in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired: Option<Retired>,
    /// Bytes at the end that are the start of a row: it is being written, or its writer died.
    pub unfinished_bytes: u64,
    /// Notes that this was not the expected log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
}

impl Verified {
    pub fn last_row(&self) -> Checkpoint {
        Checkpoint {
            ledger: self.ledger.clone(),
            seq: self.last_seq,
            hash: self.hash.clone(),
            time: String::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retired {
    pub last_seq: u64,
    pub time: String,
}

/// The first problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub path: PathBuf,
    /// 1 is the first; 0 when it concerns the file.
    pub line: u64,
    /// The row that should be there.
    pub seq: u64,
    pub words: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Finding { path, line, seq, words } = self;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match line {
            0 => write!(f, "row {seq} (`{name}`): {words}"),
            _ => write!(f, "row {seq} (`{name}`, line {line}): {words}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("the audit log is not as it was written\nfirst bad record: {0}")]
    Found(Finding),
    /// The rest is valid, but the row of the checkpoint was retired and nothing left contains its
    /// hash: a rewritten log could look the same.
    #[error(
        "the row of the checkpoint was retired, and no remaining row proves that it was in this log\nhint: verify with a newer checkpoint"
    )]
    Unproven(Box<Verified>),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Ledger {
    /// A checkpoint of the last row, which is flushed first.
    pub fn checkpoint(&self) -> Result<Checkpoint, LedgerError> {
        let checkpoint = self.last_row()?;
        self.flush()?;
        Ok(checkpoint)
    }

    /// The last row, which may not be on disk yet.
    pub fn last_row(&self) -> Result<Checkpoint, LedgerError> {
        self.shared.with_lock(|locked| Ok(locked.head()))
    }
}

impl Reader {
    pub fn verify(&self, checkpoint: Option<&Checkpoint>) -> Result<Verified, VerifyError> {
        self.verify_with(checkpoint.map(Witness::Given).as_slice())
    }

    /// Verifies the chain, and that it contains rows that were learned before this call.
    pub fn verify_with(&self, witnesses: &[Witness<'_>]) -> Result<Verified, VerifyError> {
        loop {
            // The mark first: a log that grows during the check contains at least what was flushed
            // before.
            let flushed = self.source.flushed();
            let segments = self.source.segments()?;
            match self.try_verify(&segments, flushed, witnesses) {
                Ok(Some(verified)) => return Ok(verified),
                Err(found) if self.source.segments()?.first() == segments.first() => {
                    return Err(found);
                }
                // The oldest rows were retired while the log was being listed or read: start again.
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// None if rows were retired while they were being read.
    fn try_verify(
        &self,
        segments: &[u32],
        flushed: Option<Position>,
        witnesses: &[Witness<'_>],
    ) -> Result<Option<Verified>, VerifyError> {
        let mut check = Check::new(self, witnesses);
        for (index, number) in segments.iter().enumerate() {
            if index > 0 && *number != check.segment + 1 {
                return Err(check.file(check.segment + 1, "this segment is missing"));
            }
            check.segment = *number;
            let last = index + 1 == segments.len();
            let Some(bytes) = self.segment(*number)? else { return Ok(None) };
            check.segment(&bytes, index == 0, last)?;
        }
        check.finish(segments.len(), flushed).map(Some)
    }
}

const SEALED_IS_RETIRED: &str =
    "the sealed row is among the retired rows, and nothing proves that it was in this log";

/// What a valid chain proves about the checkpoint, if there is one.
enum Proof {
    Whole,
    /// Its row is gone, and nothing contains its hash.
    Gone,
}

struct Check<'a> {
    reader: &'a Reader,
    /// Each with whether its row was found.
    witnesses: Vec<(Witness<'a>, bool)>,
    alarms: Vec<Alarm>,
    segment: u32,
    head: Head,
    ledger: String,
    first: Head,
    /// The retired rows according to the log: the last row and its hash.
    retired: BTreeMap<u64, (String, String)>,
    end: u64,
    unfinished_bytes: u64,
}

impl<'a> Check<'a> {
    fn new(reader: &'a Reader, witnesses: &[Witness<'a>]) -> Check<'a> {
        Check {
            reader,
            witnesses: witnesses.iter().map(|witness| (*witness, false)).collect(),
            alarms: Vec::new(),
            segment: 0,
            head: Head::GENESIS,
            ledger: String::new(),
            first: Head::GENESIS,
            retired: BTreeMap::new(),
            end: 0,
            unfinished_bytes: 0,
        }
    }

    fn segment(&mut self, bytes: &[u8], first: bool, last: bool) -> Result<(), VerifyError> {
        let mut line_number = 0;
        self.end = 0;
        for (offset, line) in lines(bytes) {
            line_number += 1;
            self.line(line, line_number, first)?;
            self.end = offset + u64::try_from(line.len() + 1).unwrap_or(0);
        }
        let total = u64::try_from(bytes.len()).unwrap_or(0);
        self.unfinished_bytes = total - self.end;
        if line_number == 0 {
            return Err(self.file(self.segment, "this segment has no rows"));
        }
        if !last && (self.unfinished_bytes > 0 || !self.head.closed) {
            return Err(self.record(line_number + 1, "rows are missing at the end of this segment"));
        }
        Ok(())
    }

    fn line(&mut self, bytes: &[u8], number: u64, first: bool) -> Result<(), VerifyError> {
        let Some(line) = Line::split(bytes) else {
            return Err(self.record(number, "this line is not an audit row"));
        };
        let row = AuditRow::read(line.json);
        if number == 1 && first {
            self.begin(row.as_ref().ok());
        }
        if !line.follows(&self.head.hash) {
            let words = describe(row.ok().map(|row| row.seq), self.head.seq + 1);
            return Err(self.record(number, &words));
        }
        let Ok(row) = row else {
            return Err(self.record(number, "this row cannot be read"));
        };
        self.check_position(&row, number)?;
        self.take(&row, line.hash)
    }

    /// The first remaining segment says what it follows; whether that is right is checked when the
    /// record of the retired rows is read.
    fn begin(&mut self, row: Option<&AuditRow<'_>>) {
        let is_beginning = |row: &&AuditRow<'_>| {
            row.seq > 1 && row.kind == RowKind::State && row.segment == self.segment
        };
        let Some(row) = row.filter(is_beginning) else { return };
        let hash = chain::parse_hash(&row.previous).unwrap_or(chain::GENESIS);
        self.head = Head { seq: row.seq - 1, hash, closed: true };
        self.first = self.head;
    }

    /// Whether this is the row that belongs here.
    fn check_position(&self, row: &AuditRow<'_>, number: u64) -> Result<(), VerifyError> {
        let expected = self.head.seq + 1;
        if row.seq != expected {
            return Err(self.record(number, &describe(Some(row.seq), expected)));
        }
        let opens = number == 1;
        let right = opens == (row.kind == RowKind::State)
            && (opens || !self.head.closed)
            && (!opens || row.segment == self.segment)
            && (!opens || row.previous == chain::as_text(&self.head.hash));
        if right { Ok(()) } else { Err(self.record(number, "this row does not belong here")) }
    }

    fn take(&mut self, row: &AuditRow<'_>, hash: &Hash) -> Result<(), VerifyError> {
        self.head = Head { seq: row.seq, hash: *hash, closed: row.kind == RowKind::Checkpoint };
        if row.seq == 1 {
            chain::as_text(hash).clone_into(&mut self.ledger);
        } else if let Some(state) = &row.state {
            state.ledger().clone_into(&mut self.ledger);
            self.retired.extend(state.archived());
        }
        if row.kind == RowKind::Note {
            self.take_note(row);
        }
        let mut differs = None;
        for (witness, met) in &mut self.witnesses {
            let known = witness.row();
            // A row of another ledger is recognised when the whole log is known.
            if known.seq == row.seq && known.ledger == self.ledger {
                *met = true;
                differs = differs.or((known.hash != chain::as_text(hash)).then_some(*witness));
            }
        }
        match differs {
            Some(witness) => Err(self.record_at(row.seq, 0, witness.rewritten())),
            None => Ok(()),
        }
    }

    fn take_note(&mut self, row: &AuditRow<'_>) {
        if row.act == "archive" {
            self.retired.insert(row.last_seq, (row.last_hash.to_string(), row.time.to_string()));
        } else if Alarm::ACTS.contains(&&*row.act) {
            self.alarms.push(Alarm {
                seq: row.seq,
                time: row.time.to_string(),
                act: row.act.to_string(),
                words: row.words.to_string(),
            });
        }
    }

    fn finish(self, segments: usize, flushed: Option<Position>) -> Result<Verified, VerifyError> {
        let last = self.head.seq;
        if segments == 0 {
            return Err(self.file(1, "there is no segment"));
        }
        if flushed.is_some_and(|m| (m.segment, m.offset) > (self.segment, self.end)) {
            return Err(self.record_at(
                last + 1,
                0,
                "rows that were on disk are missing from here on",
            ));
        }
        let retired = self.check_beginning()?;
        let mut proof = Proof::Whole;
        for (witness, met) in &self.witnesses {
            if !met && matches!(self.check_witness(*witness)?, Proof::Gone) {
                proof = Proof::Gone;
            }
        }
        let verified = Verified {
            first_seq: self.first.seq + 1,
            last_seq: last,
            hash: chain::as_text(&self.head.hash).to_owned(),
            segments,
            retired,
            unfinished_bytes: self.unfinished_bytes,
            ledger: self.ledger,
            alarms: self.alarms,
        };
        match proof {
            Proof::Whole => Ok(verified),
            Proof::Gone => Err(VerifyError::Unproven(Box::new(verified))),
        }
    }

    fn check_beginning(&self) -> Result<Option<Retired>, VerifyError> {
        if self.first.seq == 0 {
            return Ok(None);
        }
        let Some(time) = self.retired_up_to(&self.first) else {
            let words = format!(
                "rows 1 to {} are missing, and no row says that they were retired",
                self.first.seq
            );
            return Err(self.record_at(1, 0, &words));
        };
        Ok(Some(Retired { last_seq: self.first.seq, time: time.to_owned() }))
    }

    /// When the rows up to here were retired. Some of the rows that a record names may remain,
    /// because segments are removed one by one and the process may be killed in between; they lead
    /// to the record like everything else.
    fn retired_up_to(&self, head: &Head) -> Option<&str> {
        let mut named = self.retired.range(head.seq..);
        let found = named.find(|(last_seq, (last_hash, _))| {
            **last_seq > head.seq || last_hash == chain::as_text(&head.hash)
        });
        found.map(|(_, (_, time))| time.as_str())
    }

    /// An expected row that was not found.
    fn check_witness(&self, witness: Witness<'_>) -> Result<Proof, VerifyError> {
        let Checkpoint { ledger, seq, hash, time } = witness.row();
        // `Checkpoint::missed_in` reports what `gate.db` remembers of rows that are gone.
        let is_remembered = matches!(witness, Witness::Remembered(_));
        if is_remembered && (*ledger != self.ledger || *seq > self.head.seq) {
            return Ok(Proof::Whole);
        }
        if *ledger != self.ledger {
            return Err(self.record_at(1, 0, witness.another_ledger()));
        }
        if *seq > self.head.seq {
            let why = match witness {
                Witness::Sealed(_) => ": its end was cut off, or an older copy put back",
                _ => "",
            };
            let words =
                format!("rows up to {seq} were there at {time} and are missing from here on{why}");
            return Err(self.record_at(self.head.seq + 1, 0, &words));
        }
        match (self.hash_of_retired(*seq), witness) {
            (Some(found), _) if found == hash => Ok(Proof::Whole),
            (Some(_), _) => Err(self.record_at(*seq, 0, witness.rewritten())),
            (None, Witness::Given(_)) => Ok(Proof::Gone),
            (None, Witness::Remembered(_)) => Ok(Proof::Whole),
            (None, Witness::Sealed(_)) => Err(self.record_at(*seq, 0, SEALED_IS_RETIRED)),
        }
    }

    /// The hash of a retired row, if something left contains it: the last one before the first
    /// remaining row, and those at which earlier retirements ended.
    fn hash_of_retired(&self, seq: u64) -> Option<&str> {
        if seq == self.first.seq {
            return Some(chain::as_text(&self.first.hash));
        }
        self.retired.get(&seq).map(|(hash, _)| hash.as_str())
    }

    fn record(&self, line: u64, words: &str) -> VerifyError {
        self.record_at(self.head.seq + 1, line, words)
    }

    fn record_at(&self, seq: u64, line: u64, words: &str) -> VerifyError {
        let path = self.reader.source.segment_name(self.segment);
        VerifyError::Found(Finding { path, line, seq, words: words.to_owned() })
    }

    fn file(&self, number: u32, words: &str) -> VerifyError {
        let path = self.reader.source.segment_name(number);
        VerifyError::Found(Finding {
            path,
            line: 0,
            seq: self.head.seq + 1,
            words: words.to_owned(),
        })
    }
}

/// What happened to the row that should be `expected`, judged by its number.
fn describe(found: Option<u64>, expected: u64) -> String {
    match found {
        Some(seq) if seq == expected => {
            "this row was changed after it was written, or one before it was".to_owned()
        }
        Some(seq) if seq > expected => {
            format!("rows {expected} to {} were deleted or moved", seq - 1)
        }
        Some(seq) => format!("a row was inserted here; its number is {seq}"),
        None => "this row was changed after it was written".to_owned(),
    }
}

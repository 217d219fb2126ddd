//! A writer of records in any of the formats.

use std::io::{self, Write};

use super::csv::CsvWriter;
use super::job::ExportOptions;
use super::jsonl::JsonlWriter;
use super::members::RecordSplitter;
use super::parquet::ParquetWriter;
use super::{ExportKind, Format};

/// A writer in one of the formats, with the splitter for its records.
pub(super) struct RecordWriter<W: Write + Send> {
    splitter: RecordSplitter,
    format: Formatted<W>,
}

enum Formatted<W: Write + Send> {
    Csv(CsvWriter<W>),
    Jsonl(JsonlWriter<W>),
    Parquet(ParquetWriter<W>),
}

impl<W: Write + Send> RecordWriter<W> {
    pub(super) fn begin(
        out: W,
        kind: &ExportKind,
        format: Format,
        order: &ExportOptions<'_>,
        records_max: u64,
    ) -> io::Result<RecordWriter<W>> {
        let format = match format {
            Format::Csv => Formatted::Csv(CsvWriter::begin(out, kind.view, order.csv)?),
            Format::Jsonl => Formatted::Jsonl(JsonlWriter::begin(out)),
            Format::Parquet => {
                let (view, packing) = (kind.view, order.compression);
                Formatted::Parquet(ParquetWriter::begin(out, view, packing, records_max)?)
            }
        };
        Ok(RecordWriter { splitter: RecordSplitter::default(), format })
    }

    pub(super) fn row(&mut self, flat: &str) -> io::Result<()> {
        let fields = self.splitter.fields(flat)?;
        match &mut self.format {
            Formatted::Csv(writer) => writer.row(&fields),
            Formatted::Jsonl(writer) => writer.row(&fields),
            Formatted::Parquet(writer) => writer.row(&fields),
        }
    }

    pub(super) fn end(self) -> io::Result<()> {
        match self.format {
            Formatted::Csv(writer) => writer.end().flush(),
            Formatted::Jsonl(writer) => writer.end().flush(),
            Formatted::Parquet(writer) => writer.end(),
        }
    }
}

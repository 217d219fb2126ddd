//! A file of records, whichever its format.

use std::io::{self, Write};

use super::csv::CsvWriter;
use super::fields::Splitter;
use super::jsonl::JsonlWriter;
use super::order::Order;
use super::parquet::ParquetWriter;
use super::{Format, Kind};

/// A file in one of the formats, and what takes the records for it apart.
pub(super) struct Writer<W: Write + Send> {
    splitter: Splitter,
    format: Formatted<W>,
}

enum Formatted<W: Write + Send> {
    Csv(CsvWriter<W>),
    Jsonl(JsonlWriter<W>),
    Parquet(ParquetWriter<W>),
}

impl<W: Write + Send> Writer<W> {
    pub(super) fn begin(
        out: W,
        kind: &Kind,
        format: Format,
        order: &Order<'_>,
        records_max: u64,
    ) -> io::Result<Writer<W>> {
        let format = match format {
            Format::Csv => Formatted::Csv(CsvWriter::begin(out, kind.view, order.csv)?),
            Format::Jsonl => Formatted::Jsonl(JsonlWriter::begin(out)),
            Format::Parquet => {
                let (view, packing) = (kind.view, order.compression);
                Formatted::Parquet(ParquetWriter::begin(out, view, packing, records_max)?)
            }
        };
        Ok(Writer { splitter: Splitter::default(), format })
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

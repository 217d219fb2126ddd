//! The texts of a column. Those that do not repeat are put together here as they come, in the form in
//! which a page has them: the writer of the `parquet` crate counts, compares and copies each as an
//! object of its own, which took a sixth of an export.

use std::io::{self, Write as _};
use std::ops::Range;

use bytes::Bytes;
use hashbrown::HashSet;
use parquet::basic::{Compression as Packing, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::{misfit, repeats};

/// So much room is made for the texts of a column before it is known what they need.
const BYTES_AT_FIRST_MAX: usize = 512 << 10;
/// A page is full with the text that reaches this.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Statistics hold no longer texts; without them a reader looks into the column.
const BOUND_BYTES_MAX: usize = 64;
/// So much is looked at to see whether packing pays.
const SAMPLE_PAIRS_MAX: usize = 16;
const SAMPLE_BYTES_MAX: usize = 4 << 10;
/// Snappy finds nothing shorter.
const MATCH_BYTES: usize = 4;
/// One part in so many must have been there before.
const WORTH_ONE_IN: usize = 8;
const LENGTH_BYTES: usize = 4;
/// Snappy works on blocks of this size; a literal of a whole one says its length in two bytes.
const SNAPPY_BLOCK_BYTES: usize = 1 << 16;
const SNAPPY_LITERAL_OF_TWO_BYTES: u8 = 61 << 2;

/// The texts of one column of the current group.
pub(super) struct Texts {
    /// One after the other, each with its length before it.
    bytes: Vec<u8>,
    /// For each row whether there is a text.
    levels: Vec<i16>,
    /// How they are packed where they are written as they are; else they go into a dictionary.
    plain: Option<Plain>,
}

/// How texts that do not repeat are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plain {
    packing: Packing,
    /// Packing would not make them smaller: they only get the form.
    in_form_only: bool,
}

/// Columns of a group that hold the same, as `start` does what `start_utc` has: they are packed once.
pub(super) struct Chunks {
    /// For each column the first that holds the same.
    firsts: Vec<Option<usize>>,
    /// Those that are still to come again.
    made: Vec<(usize, Chunk)>,
}

/// Pages of a column, ready for the file.
#[derive(Clone)]
pub(super) struct Chunk {
    bytes: Bytes,
    packing: Packing,
    unpacked_bytes: usize,
    pages: i32,
    rows: usize,
    statistics: Statistics,
}

impl Texts {
    pub(super) fn new(rows: usize) -> Texts {
        Texts { bytes: Vec::new(), levels: Vec::with_capacity(rows), plain: None }
    }

    pub(super) fn push(&mut self, text: Option<&str>) -> io::Result<()> {
        self.levels.push(i16::from(text.is_some()));
        let Some(text) = text else { return Ok(()) };
        if self.bytes.is_empty() {
            // The texts of a column are mostly of one length.
            let usual = (text.len() + LENGTH_BYTES).saturating_mul(self.levels.capacity());
            self.bytes.reserve(usual.min(BYTES_AT_FIRST_MAX));
        }
        let length = u32::try_from(text.len()).map_err(|_| misfit("a text is too long"))?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Texts need most of the room; it is given back before the next column is written.
    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.levels.clear();
    }

    /// Decides for the whole file.
    pub(super) fn settle(&mut self, packing: Packing) {
        self.plain = (!repeats(self.texts())).then(|| Plain {
            packing,
            in_form_only: packing == Packing::SNAPPY && !self.begin_alike() && !self.recurs(),
        });
    }

    pub(super) fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    pub(super) fn levels(&self) -> &[i16] {
        &self.levels
    }

    /// Times do, and need no closer look.
    fn begin_alike(&self) -> bool {
        let pairs = self.texts().zip(self.texts().skip(1)).take(SAMPLE_PAIRS_MAX);
        let mut begins =
            pairs.map(|(one, other)| (one.get(..MATCH_BYTES), other.get(..MATCH_BYTES)));
        begins.all(|(one, other)| one.is_some() && one == other)
    }

    /// Whether Snappy makes them smaller, which knows nothing but what was there before. It takes
    /// longest over ids, to save a tenth.
    fn recurs(&self) -> bool {
        let sample = self.bytes.get(..SAMPLE_BYTES_MAX).unwrap_or(&self.bytes);
        let mut seen = HashSet::with_capacity(sample.len());
        let again = sample.windows(MATCH_BYTES).filter(|window| !seen.insert(*window)).count();
        again * WORTH_ONE_IN >= sample.len()
    }

    /// For the writer of the crate. All share one piece of memory.
    pub(super) fn each(&self) -> Vec<ByteArray> {
        let bytes = Bytes::copy_from_slice(&self.bytes);
        self.places().map(|place| bytes.slice(place).into()).collect()
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.places().filter_map(|place| self.bytes.get(place))
    }

    /// Where the texts lie: each begins after its length, and the next after its end.
    fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let mut end = 0;
        std::iter::from_fn(move || {
            let length = self.bytes.get(end..)?.first_chunk::<LENGTH_BYTES>()?;
            let begin = end + LENGTH_BYTES;
            end = begin + usize::try_from(u32::from_le_bytes(*length)).ok()?;
            Some(begin..end)
        })
    }

    fn is_same(&self, other: &Texts) -> bool {
        self.bytes == other.bytes && self.levels == other.levels
    }

    /// As they are, one after the other.
    fn chunk(&self) -> Result<Chunk, ParquetError> {
        let unpacked = Plain { packing: Packing::UNCOMPRESSED, in_form_only: false };
        let plain = self.plain.unwrap_or(unpacked);
        let mut sink = TrackedWrite::new(Vec::new());
        let mut writer = SerializedPageWriter::new(&mut sink);
        let (mut unpacked_bytes, mut pages) = (0, 0);
        for (levels, texts) in self.pages() {
            let mut page = Vec::with_capacity(levels.len() / 8 + 16 + texts.len());
            put_levels(levels, &mut page)?;
            page.extend_from_slice(texts);
            let page_bytes = page.len();
            let page = Page::DataPage {
                buf: packed(page, plain)?.into(),
                num_values: u32::try_from(levels.len())?,
                encoding: Encoding::PLAIN,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(page, page_bytes))?;
            unpacked_bytes += written.uncompressed_size;
            pages += 1;
        }
        sink.flush()?;
        let (bytes, rows) = (sink.into_inner()?.into(), self.levels.len());
        let (packing, statistics) = (plain.packing, self.statistics());
        Ok(Chunk { bytes, packing, unpacked_bytes, pages, rows, statistics })
    }

    /// The levels of each page and its texts. Without rows there is no page.
    fn pages(&self) -> Vec<(&[i16], &[u8])> {
        let (mut pages, mut places) = (Vec::new(), self.places());
        let (mut first_row, mut first_byte, mut end) = (0, 0, 0);
        for (row, level) in self.levels.iter().enumerate() {
            if *level > 0 {
                end = places.next().map_or(end, |place| place.end);
            }
            if end - first_byte >= PAGE_BYTES_MAX || row + 1 == self.levels.len() {
                let levels = self.levels.get(first_row..=row).unwrap_or_default();
                pages.push((levels, self.bytes.get(first_byte..end).unwrap_or_default()));
                (first_row, first_byte) = (row + 1, end);
            }
        }
        pages
    }

    fn statistics(&self) -> Statistics {
        let short = |text: &[u8]| text.len() <= BOUND_BYTES_MAX;
        let bounds = self.texts().fold(None, |bounds, text| match bounds {
            None => Some((text, text)),
            Some((least, greatest)) if text > greatest => Some((least, text)),
            Some((least, greatest)) => Some((least.min(text), greatest)),
        });
        let bounds = bounds.filter(|(least, greatest)| short(least) && short(greatest));
        let (least, greatest) = bounds.unzip();
        let kept = |text: &[u8]| ByteArray::from(text.to_vec());
        let nulls = self.levels.iter().filter(|level| **level == 0).count() as u64;
        ValueStatistics::new(least.map(kept), greatest.map(kept), None, Some(nulls), false).into()
    }
}

impl Chunks {
    pub(super) fn of<'a>(columns: impl Iterator<Item = Option<&'a Texts>>) -> Chunks {
        let columns: Vec<Option<&Texts>> = columns.collect();
        let first = |texts: &Texts| {
            columns.iter().position(|other| other.is_some_and(|other| other.is_same(texts)))
        };
        let firsts = columns.iter().map(|texts| texts.and_then(first)).collect();
        Chunks { firsts, made: Vec::new() }
    }

    /// The column in this place.
    pub(super) fn take(&mut self, at: usize, texts: &Texts) -> Result<Chunk, ParquetError> {
        let first = self.firsts.get(at).copied().flatten().unwrap_or(at);
        if let Some((_, chunk)) = self.made.iter().find(|(made, _)| *made == first) {
            return Ok(chunk.clone());
        }
        let chunk = texts.chunk()?;
        if self.firsts.iter().skip(at + 1).any(|other| *other == Some(first)) {
            self.made.push((first, chunk.clone()));
        }
        Ok(chunk)
    }
}

impl Chunk {
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What the file says about it when it is this column.
    pub(super) fn close(&self, column: ColumnDescPtr) -> Result<ColumnCloseResult, ParquetError> {
        let pages = PageEncodingStats {
            page_type: PageType::DATA_PAGE,
            encoding: Encoding::PLAIN,
            count: self.pages,
        };
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(self.packing)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .set_page_encoding_stats(vec![pages])
            .set_total_compressed_size(i64::try_from(self.bytes.len())?)
            .set_total_uncompressed_size(i64::try_from(self.unpacked_bytes)?)
            .set_num_values(i64::try_from(self.rows)?)
            .set_data_page_offset(0)
            .set_statistics(self.statistics.clone())
            .build()?;
        Ok(ColumnCloseResult {
            bytes_written: self.bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        })
    }
}

/// Levels of one bit as a page has them: the length, then one run if all are alike, else bit by bit.
fn put_levels(levels: &[i16], page: &mut Vec<u8>) -> Result<(), ParquetError> {
    let mut runs = Vec::with_capacity(levels.len() / 8 + 8);
    match levels.first() {
        Some(first) if levels.iter().all(|level| level == first) => {
            put_number(levels.len() << 1, &mut runs);
            runs.push(u8::from(*first > 0));
        }
        _ => {
            put_number(levels.len().div_ceil(8) << 1 | 1, &mut runs);
            let bits = |eight: &[i16]| {
                eight.iter().rev().fold(0, |bits, level| bits << 1 | u8::from(*level > 0))
            };
            runs.extend(levels.chunks(8).map(bits));
        }
    }
    page.extend_from_slice(&u32::try_from(runs.len())?.to_le_bytes());
    page.extend_from_slice(&runs);
    Ok(())
}

/// Seven bits a byte, the lowest first; all but the last say that more follow.
fn put_number(mut number: usize, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

fn packed(page: Vec<u8>, plain: Plain) -> Result<Vec<u8>, ParquetError> {
    Ok(match plain.packing {
        Packing::SNAPPY if plain.in_form_only => as_literals(&page)?,
        Packing::SNAPPY => {
            snap::raw::Encoder::new().compress_vec(&page).map_err(io::Error::other)?
        }
        Packing::ZSTD(level) => zstd::bulk::compress(&page, level.compression_level())?,
        Packing::UNCOMPRESSED => page,
        other => return Err(ParquetError::General(format!("nobody packs as {other:?} here"))),
    })
}

/// Snappy without the search for what came before: the length, then the bytes as literals. A reader
/// that was promised Snappy finds it in every column.
fn as_literals(page: &[u8]) -> Result<Vec<u8>, ParquetError> {
    let blocks = page.chunks(SNAPPY_BLOCK_BYTES);
    let mut out = Vec::with_capacity(page.len() + blocks.len() * 3 + 8);
    put_number(page.len(), &mut out);
    for block in blocks {
        out.push(SNAPPY_LITERAL_OF_TWO_BYTES);
        out.extend_from_slice(&u16::try_from(block.len() - 1)?.to_le_bytes());
        out.extend_from_slice(block);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use std::hash::{Hash as _, Hasher as _};

    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use serde_json::json;

    use super::*;
    use crate::export::Compression;
    use crate::export::fields::Splitter;
    use crate::export::parquet::{GROUP_ROWS_MAX, ParquetWriter};
    use crate::records::{Column, View};

    const VIEW: View = View {
        name: "test_nights",
        service: "test",
        kind: "nights",
        columns: &[Column::text("start"), Column::integer("number"), Column::text("again")],
        except_state: None,
    };

    type Reader = SerializedFileReader<Bytes>;

    /// A file with the same texts in two of its columns.
    fn file(texts: &[Option<String>], packing: Compression) -> Reader {
        let mut out = Vec::new();
        let mut writer = ParquetWriter::begin(&mut out, &VIEW, packing, 10).unwrap();
        let mut splitter = Splitter::default();
        for (number, text) in texts.iter().enumerate() {
            let flat = json!({"start": text, "number": number, "again": text}).to_string();
            writer.row(&splitter.fields(&flat).unwrap()).unwrap();
        }
        writer.end().unwrap();
        Reader::new(Bytes::from(out)).unwrap()
    }

    /// What stands in one of the columns, as the reader of the crate sees it.
    fn read(reader: &Reader, column: usize) -> Vec<Option<String>> {
        let field = |row: parquet::record::Row| match row.get_column_iter().nth(column).unwrap().1 {
            parquet::record::Field::Str(text) => Some(text.clone()),
            _ => None,
        };
        reader.get_row_iter(None).unwrap().map(|row| field(row.unwrap())).collect()
    }

    /// Hardly any four bytes of these come twice.
    fn id(number: usize) -> String {
        let hash = |salt: u8| {
            let mut hasher = std::hash::DefaultHasher::new();
            (number, salt).hash(&mut hasher);
            hasher.finish()
        };
        format!("{:016x}{:016x}", hash(0), hash(1))
    }

    fn moment(number: usize) -> String {
        format!(
            "2026-{:02}-{:02}T05:{:02}:00.000Z",
            number / 28 % 12 + 1,
            number % 28 + 1,
            number % 60
        )
    }

    #[test]
    fn texts_come_back_whatever_there_is_and_is_not() {
        let every = |n: usize| move |at: usize| at.is_multiple_of(n).then(|| id(at));
        let cases: [(&str, Vec<Option<String>>); 9] = [
            ("none", Vec::new()),
            ("one", vec![Some(String::new())]),
            ("nothing", vec![None; 20]),
            ("all", (0..100).map(every(1)).collect()),
            ("every third", (0..100).map(every(3)).collect()),
            ("the last alone", (0..17).map(|at| (at == 16).then(|| id(at))).collect()),
            ("any script", vec![Some("é\"\\\n😀".into()), None, Some("a\u{0}b".into())]),
            ("several pages", (0..7).map(|at| (at != 3).then(|| id(at).repeat(20_000))).collect()),
            ("several groups", (0..GROUP_ROWS_MAX + 9).map(every(2)).collect()),
        ];
        for (name, texts) in cases {
            for packing in [Compression::Snappy, Compression::Zstd] {
                let reader = file(&texts, packing);
                for column in [0, 2] {
                    assert!(read(&reader, column) == texts, "{name}, {packing:?}, {column}");
                }
            }
        }
    }

    #[test]
    fn the_file_says_what_is_in_a_column() {
        let texts = [Some("b".to_owned()), None, Some("a".into()), Some("c".repeat(64)), None];
        let long = [Some("a".to_owned()), Some("b".repeat(65))];
        for (texts, bounds, nulls) in [
            (&texts[..], Some(("a", "c".repeat(64))), 2),
            (&long[..], None, 0),
            (&[None][..], None, 1),
        ] {
            let reader = file(texts, Compression::Snappy);
            for column in [0, 2] {
                let chunk = reader.metadata().row_group(0).column(column);
                assert_eq!(usize::try_from(chunk.num_values()).unwrap(), texts.len());
                let said = chunk.statistics().unwrap();
                assert_eq!(said.null_count_opt(), Some(nulls));
                let found = said.min_bytes_opt().zip(said.max_bytes_opt());
                let expected = bounds.as_ref().map(|(a, b)| (a.as_bytes(), b.as_bytes()));
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn snappy_leaves_ids_as_they_are_in_its_own_form_and_zstd_does_not() {
        for (text, packing, expected, smaller) in [
            (id as fn(usize) -> String, Compression::Snappy, "SNAPPY", false),
            (id, Compression::Zstd, "ZSTD", true),
            (moment, Compression::Snappy, "SNAPPY", true),
            (moment, Compression::Zstd, "ZSTD", true),
        ] {
            let texts: Vec<_> = (0..1_000).map(|at| Some(text(at))).collect();
            let reader = file(&texts, packing);
            let chunk = reader.metadata().row_group(0).column(0);
            let found = format!("{:?}", chunk.compression());
            assert!(found.starts_with(expected), "{found} and not {expected}");
            let is_smaller = chunk.compressed_size() < chunk.uncompressed_size();
            assert_eq!(is_smaller, smaller);
        }
    }

    #[test]
    fn literals_are_read_by_what_reads_snappy() {
        for length in [0, 1, 59, 60, 61, 256, SNAPPY_BLOCK_BYTES, SNAPPY_BLOCK_BYTES + 1, 200_000] {
            let page: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
            let packed = as_literals(&page).unwrap();
            assert!(snap::raw::Decoder::new().decompress_vec(&packed).unwrap() == page, "{length}");
        }
    }

    #[test]
    fn columns_that_hold_the_same_are_packed_once() {
        let texts = |salt: usize| {
            let mut texts = Texts::new(100);
            (0..100).for_each(|at| texts.push(Some(&id(at + salt))).unwrap());
            texts.settle(Packing::SNAPPY);
            texts
        };
        let columns = [texts(0), texts(1), texts(0), texts(0)];
        let plain =
            [Some(&columns[0]), None, Some(&columns[1]), Some(&columns[2]), Some(&columns[3])];
        let mut chunks = Chunks::of(plain.into_iter());
        assert_eq!(chunks.firsts, [Some(0), None, Some(2), Some(0), Some(0)]);
        let mut kept = Vec::new();
        for (at, texts) in plain.into_iter().enumerate() {
            if let Some(texts) = texts {
                let again = texts.chunk().unwrap();
                assert_eq!(chunks.take(at, texts).unwrap().bytes, again.bytes, "{at}");
            }
            kept.push(chunks.made.len());
        }
        assert_eq!(kept, [1, 1, 1, 1, 1], "what does not come again is not kept");
    }
}

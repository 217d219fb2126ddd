//! The text columns of a row group. Texts that do not repeat are encoded into pages here: the writer of
//! the `parquet` crate counts, compares and copies each text as its own object, and the export then
//! misses its bar (decision 12).

use std::io::{self, Write as _};
use std::ops::Range;

use bytes::Bytes;
use hashbrown::HashSet;
use parquet::basic::{Compression as Codec, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::{mismatch, repeats};

/// The largest buffer that is reserved from the length of the first text.
const RESERVE_BYTES_MAX: usize = 512 << 10;
/// A page ends with the text that reaches this size.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Longer texts are left out of the statistics; a reader then scans the column.
const STATISTICS_BYTES_MAX: usize = 64;
/// The sample that decides whether compression pays.
const SAMPLE_PAIRS_MAX: usize = 16;
const SAMPLE_BYTES_MAX: usize = 4 << 10;
/// The shortest match that Snappy finds.
const MATCH_BYTES: usize = 4;
/// Compression pays if at least one window in this many repeats.
const REPEATS_ONE_IN_MIN: usize = 8;
const LENGTH_BYTES: usize = 4;
/// The block size of Snappy; the length of a literal of one block takes two bytes.
const SNAPPY_BLOCK_BYTES: usize = 1 << 16;
const SNAPPY_LITERAL_TAG: u8 = 61 << 2;

/// The texts of one column of the current group.
pub(super) struct Texts {
    /// Concatenated, each after its length.
    bytes: Vec<u8>,
    /// The definition level of each row.
    levels: Vec<i16>,
    /// Plain pages of this form; `None` means a dictionary.
    plain: Option<Plain>,
}

/// How plain pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plain {
    codec: Codec,
    /// Compression would not make them smaller: Snappy literals only.
    literals_only: bool,
}

/// Columns of a group with equal texts, such as `start` and `start_utc`, are encoded once.
pub(super) struct Chunks {
    /// For each column the first one with the same texts.
    first_equal: Vec<Option<usize>>,
    /// Encoded columns that a later column needs again.
    encoded: Vec<(usize, Chunk)>,
}

/// The encoded pages of a column.
#[derive(Clone)]
pub(super) struct Chunk {
    bytes: Bytes,
    codec: Codec,
    uncompressed_bytes: usize,
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
            // Most texts of a column have the same length.
            let usual = (text.len() + LENGTH_BYTES).saturating_mul(self.levels.capacity());
            self.bytes.reserve(usual.min(RESERVE_BYTES_MAX));
        }
        let length = u32::try_from(text.len()).map_err(|_| mismatch("a text is too long"))?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Frees the buffer, the largest of a column, before the next column is written.
    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.levels.clear();
    }

    /// Decides the encoding for the whole file.
    pub(super) fn choose_encoding(&mut self, codec: Codec) {
        self.plain = (!repeats(self.texts())).then(|| Plain {
            codec,
            literals_only: codec == Codec::SNAPPY
                && !self.share_a_prefix()
                && !self.repeats_bytes(),
        });
    }

    pub(super) fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    pub(super) fn levels(&self) -> &[i16] {
        &self.levels
    }

    /// True for timestamps, which need no sample.
    fn share_a_prefix(&self) -> bool {
        let pairs = self.texts().zip(self.texts().skip(1)).take(SAMPLE_PAIRS_MAX);
        let mut begins =
            pairs.map(|(one, other)| (one.get(..MATCH_BYTES), other.get(..MATCH_BYTES)));
        begins.all(|(one, other)| one.is_some() && one == other)
    }

    /// Whether Snappy, which only finds repeated bytes, makes them smaller. Ids take it the longest and
    /// shrink by a tenth.
    fn repeats_bytes(&self) -> bool {
        let sample = self.bytes.get(..SAMPLE_BYTES_MAX).unwrap_or(&self.bytes);
        let mut seen = HashSet::with_capacity(sample.len());
        let again = sample.windows(MATCH_BYTES).filter(|window| !seen.insert(*window)).count();
        again * REPEATS_ONE_IN_MIN >= sample.len()
    }

    /// For the writer of the crate. All share one allocation.
    pub(super) fn each(&self) -> Vec<ByteArray> {
        let bytes = Bytes::copy_from_slice(&self.bytes);
        self.ranges().map(|range| bytes.slice(range).into()).collect()
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges().filter_map(|range| self.bytes.get(range))
    }

    /// The byte range of each text.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut end = 0;
        std::iter::from_fn(move || {
            let length = self.bytes.get(end..)?.first_chunk::<LENGTH_BYTES>()?;
            let begin = end + LENGTH_BYTES;
            end = begin + usize::try_from(u32::from_le_bytes(*length)).ok()?;
            Some(begin..end)
        })
    }

    fn is_equal(&self, other: &Texts) -> bool {
        self.bytes == other.bytes && self.levels == other.levels
    }

    /// Encodes the texts as plain pages.
    fn chunk(&self) -> Result<Chunk, ParquetError> {
        let uncompressed = Plain { codec: Codec::UNCOMPRESSED, literals_only: false };
        let plain = self.plain.unwrap_or(uncompressed);
        let mut sink = TrackedWrite::new(Vec::new());
        let mut writer = SerializedPageWriter::new(&mut sink);
        let (mut uncompressed_bytes, mut pages) = (0, 0);
        for (levels, texts) in self.pages() {
            let mut page = Vec::with_capacity(levels.len() / 8 + 16 + texts.len());
            write_levels(levels, &mut page)?;
            page.extend_from_slice(texts);
            let page_bytes = page.len();
            let page = Page::DataPage {
                buf: compressed(page, plain)?.into(),
                num_values: u32::try_from(levels.len())?,
                encoding: Encoding::PLAIN,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(page, page_bytes))?;
            uncompressed_bytes += written.uncompressed_size;
            pages += 1;
        }
        sink.flush()?;
        let (bytes, rows) = (sink.into_inner()?.into(), self.levels.len());
        let (codec, statistics) = (plain.codec, self.statistics());
        Ok(Chunk { bytes, codec, uncompressed_bytes, pages, rows, statistics })
    }

    /// The levels and texts of each page. No rows, no page.
    fn pages(&self) -> Vec<(&[i16], &[u8])> {
        let (mut pages, mut ranges) = (Vec::new(), self.ranges());
        let (mut first_row, mut first_byte, mut end) = (0, 0, 0);
        for (row, level) in self.levels.iter().enumerate() {
            if *level > 0 {
                end = ranges.next().map_or(end, |range| range.end);
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
        let short = |text: &[u8]| text.len() <= STATISTICS_BYTES_MAX;
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
            columns.iter().position(|other| other.is_some_and(|other| other.is_equal(texts)))
        };
        let first_equal = columns.iter().map(|texts| texts.and_then(first)).collect();
        Chunks { first_equal, encoded: Vec::new() }
    }

    /// The pages of the column at this index.
    pub(super) fn take(&mut self, at: usize, texts: &Texts) -> Result<Chunk, ParquetError> {
        let first = self.first_equal.get(at).copied().flatten().unwrap_or(at);
        if let Some((_, chunk)) = self.encoded.iter().find(|(encoded, _)| *encoded == first) {
            return Ok(chunk.clone());
        }
        let chunk = texts.chunk()?;
        if self.first_equal.iter().skip(at + 1).any(|other| *other == Some(first)) {
            self.encoded.push((first, chunk.clone()));
        }
        Ok(chunk)
    }
}

impl Chunk {
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The metadata of the chunk as this column.
    pub(super) fn close(&self, column: ColumnDescPtr) -> Result<ColumnCloseResult, ParquetError> {
        let pages = PageEncodingStats {
            page_type: PageType::DATA_PAGE,
            encoding: Encoding::PLAIN,
            count: self.pages,
        };
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(self.codec)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
            .set_page_encoding_stats(vec![pages])
            .set_total_compressed_size(i64::try_from(self.bytes.len())?)
            .set_total_uncompressed_size(i64::try_from(self.uncompressed_bytes)?)
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

/// One-bit levels in RLE: the length, then one run if all are equal, otherwise bit-compressed.
fn write_levels(levels: &[i16], page: &mut Vec<u8>) -> Result<(), ParquetError> {
    let mut runs = Vec::with_capacity(levels.len() / 8 + 8);
    match levels.first() {
        Some(first) if levels.iter().all(|level| level == first) => {
            write_leb128(levels.len() << 1, &mut runs);
            runs.push(u8::from(*first > 0));
        }
        _ => {
            write_leb128(levels.len().div_ceil(8) << 1 | 1, &mut runs);
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

/// LEB128.
fn write_leb128(mut number: usize, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(low & 0x7f);
        }
        out.push(low | 0x80);
    }
}

fn compressed(page: Vec<u8>, plain: Plain) -> Result<Vec<u8>, ParquetError> {
    Ok(match plain.codec {
        Codec::SNAPPY if plain.literals_only => as_literals(&page)?,
        Codec::SNAPPY => snap::raw::Encoder::new().compress_vec(&page).map_err(io::Error::other)?,
        Codec::ZSTD(level) => zstd::bulk::compress(&page, level.compression_level())?,
        Codec::UNCOMPRESSED => page,
        other => return Err(ParquetError::General(format!("{other:?} is not supported"))),
    })
}

/// Valid Snappy without matches: the length, then the bytes as literals. Every column of the file has
/// the codec that its metadata names.
fn as_literals(page: &[u8]) -> Result<Vec<u8>, ParquetError> {
    let blocks = page.chunks(SNAPPY_BLOCK_BYTES);
    let mut out = Vec::with_capacity(page.len() + blocks.len() * 3 + 8);
    write_leb128(page.len(), &mut out);
    for block in blocks {
        out.push(SNAPPY_LITERAL_TAG);
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
    use crate::export::members::RecordSplitter;
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

    /// A file with the same texts in two columns.
    fn file(texts: &[Option<String>], codec: Compression) -> Reader {
        let mut out = Vec::new();
        let mut writer = ParquetWriter::begin(&mut out, &VIEW, codec, 10).unwrap();
        let mut splitter = RecordSplitter::default();
        for (number, text) in texts.iter().enumerate() {
            let flat = json!({"start": text, "number": number, "again": text}).to_string();
            writer.row(&splitter.fields(&flat).unwrap()).unwrap();
        }
        writer.end().unwrap();
        Reader::new(Bytes::from(out)).unwrap()
    }

    /// One column, read by the reader of the crate.
    fn read(reader: &Reader, column: usize) -> Vec<Option<String>> {
        let field = |row: parquet::record::Row| match row.get_column_iter().nth(column).unwrap().1 {
            parquet::record::Field::Str(text) => Some(text.clone()),
            _ => None,
        };
        reader.get_row_iter(None).unwrap().map(|row| field(row.unwrap())).collect()
    }

    /// Four equal bytes are rare in these.
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
    fn the_official_reader_returns_every_text() {
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
            for codec in [Compression::Snappy, Compression::Zstd] {
                let reader = file(&texts, codec);
                for column in [0, 2] {
                    assert!(read(&reader, column) == texts, "{name}, {codec:?}, {column}");
                }
            }
        }
    }

    #[test]
    fn statistics_hold_bounds_and_nulls() {
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
    fn snappy_stores_ids_as_literals_and_zstd_compresses_them() {
        for (text, codec, expected, smaller) in [
            (id as fn(usize) -> String, Compression::Snappy, "SNAPPY", false),
            (id, Compression::Zstd, "ZSTD", true),
            (moment, Compression::Snappy, "SNAPPY", true),
            (moment, Compression::Zstd, "ZSTD", true),
        ] {
            let texts: Vec<_> = (0..1_000).map(|at| Some(text(at))).collect();
            let reader = file(&texts, codec);
            let chunk = reader.metadata().row_group(0).column(0);
            let found = format!("{:?}", chunk.compression());
            assert!(found.starts_with(expected), "{found} and not {expected}");
            let is_smaller = chunk.compressed_size() < chunk.uncompressed_size();
            assert_eq!(is_smaller, smaller);
        }
    }

    #[test]
    fn snappy_decodes_literals() {
        for length in [0, 1, 59, 60, 61, 256, SNAPPY_BLOCK_BYTES, SNAPPY_BLOCK_BYTES + 1, 200_000] {
            let page: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
            let compressed = as_literals(&page).unwrap();
            assert!(
                snap::raw::Decoder::new().decompress_vec(&compressed).unwrap() == page,
                "{length}"
            );
        }
    }

    #[test]
    fn equal_columns_are_encoded_once() {
        let texts = |salt: usize| {
            let mut texts = Texts::new(100);
            (0..100).for_each(|at| texts.push(Some(&id(at + salt))).unwrap());
            texts.choose_encoding(Codec::SNAPPY);
            texts
        };
        let columns = [texts(0), texts(1), texts(0), texts(0)];
        let plain =
            [Some(&columns[0]), None, Some(&columns[1]), Some(&columns[2]), Some(&columns[3])];
        let mut chunks = Chunks::of(plain.into_iter());
        assert_eq!(chunks.first_equal, [Some(0), None, Some(2), Some(0), Some(0)]);
        let mut kept = Vec::new();
        for (at, texts) in plain.into_iter().enumerate() {
            if let Some(texts) = texts {
                let again = texts.chunk().unwrap();
                assert_eq!(chunks.take(at, texts).unwrap().bytes, again.bytes, "{at}");
            }
            kept.push(chunks.encoded.len());
        }
        assert_eq!(kept, [1, 1, 1, 1, 1], "what does not come again is not kept");
    }
}

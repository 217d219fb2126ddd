//! Writes Parquet with the columns of the view: types are fixed and every column is nullable. Rows
//! are buffered in groups of bounded size, so that memory use is constant.

mod texts;
mod values;

use std::hash::Hash;
use std::io::{self, Write};
use std::sync::Arc;

use hashbrown::HashSet;
use parquet::basic::{
    Compression as Codec, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use self::texts::{Chunks, Texts};
use self::values::{double, dumped, integer, text, truth};
use super::Compression;
use super::members::{Columns, RecordSplitter, SplitRecord};
use crate::records::{Column, ColumnType, View};

/// Rows that are buffered before they are written.
const GROUP_ROWS_MAX: usize = 8_192;
/// Values that are sampled to find whether they repeat.
const SAMPLE_VALUES_MAX: usize = 512;
/// Higher levels hardly make files smaller.
const ZSTD_LEVEL: i32 = 3;
/// Definition levels: how much of a path is present.
const PRESENT: i16 = 1;
const MEMBER_PRESENT: i16 = 2;

pub(super) struct ParquetWriter<W: Write + Send> {
    output: Output<W>,
    columns: Columns,
    gathered: Vec<Gathered>,
    rows: usize,
}

/// The file is started with the first group, because its values show how to encode each column.
enum Output<W: Write + Send> {
    Pending {
        out: W,
        schema: TypePtr,
        codec: Codec,
    },
    Started(SerializedFileWriter<W>),
    /// After a failure.
    Failed,
}

/// The buffered values of one column of the current group.
enum Gathered {
    Text(Texts),
    Json(Texts),
    Integer(Leaf<i64>),
    Double(Leaf<f64>),
    Bool(Leaf<bool>),
    Doubles { splitter: RecordSplitter, columns: Columns, members: Vec<Leaf<f64>> },
}

/// The values of one physical column, and the definition level of each row.
struct Leaf<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Leaf<T> {
    fn new(rows: usize) -> Leaf<T> {
        Leaf { values: Vec::with_capacity(rows), levels: Vec::with_capacity(rows) }
    }

    fn push(&mut self, value: Option<T>, present: i16, absent: i16) {
        self.levels.push(if value.is_some() { present } else { absent });
        if let Some(value) = value {
            self.values.push(value);
        }
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

impl Leaf<f64> {
    fn repeats(&self) -> bool {
        repeats(self.values.iter().map(|value| value.to_bits()))
    }
}

/// Whether enough of the first values are equal for a dictionary to be smaller.
fn repeats<T: Hash + Eq>(values: impl Iterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    let mut sampled = 0;
    for value in values.take(SAMPLE_VALUES_MAX) {
        seen.insert(value);
        sampled += 1;
        // More than half of them are already different.
        if seen.len() > SAMPLE_VALUES_MAX / 2 {
            return false;
        }
    }
    seen.len() * 2 <= sampled
}

impl<W: Write + Send> ParquetWriter<W> {
    /// At most `records_max` rows will follow.
    pub(super) fn begin(
        out: W,
        view: &View,
        codec: Compression,
        records_max: u64,
    ) -> io::Result<Self> {
        let rows = usize::try_from(records_max).unwrap_or(usize::MAX).min(GROUP_ROWS_MAX);
        let (schema, codec) = (schema(view).map_err(failed)?, codec_of(codec)?);
        let columns = Columns::new(view.columns.iter().map(|column| column.name).collect());
        let gathered = view.columns.iter().map(|column| Gathered::of(column, rows)).collect();
        let output = Output::Pending { out, schema, codec };
        Ok(ParquetWriter { output, columns, gathered, rows: 0 })
    }

    pub(super) fn row(&mut self, fields: &SplitRecord<'_>) -> io::Result<()> {
        let values = self.columns.pick(fields);
        for (gathered, value) in self.gathered.iter_mut().zip(values) {
            gathered.push(value.filter(|json| *json != "null"), fields.is_alike)?;
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS_MAX { self.write_group() } else { Ok(()) }
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.file()?.finish().map_err(failed)?;
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.file()?;
        let Output::Started(file) = &mut self.output else { return Err(mismatch("no file")) };
        let mut columns = file.schema_descr().columns().to_vec().into_iter();
        let mut group = file.next_row_group().map_err(failed)?;
        let mut chunks = Chunks::of(self.gathered.iter().map(Gathered::plain));
        for (at, gathered) in self.gathered.iter_mut().enumerate() {
            for (leaf, column) in (0..gathered.leaves()).zip(&mut columns) {
                match gathered.plain() {
                    Some(texts) => {
                        let chunk = chunks.take(at, texts).map_err(failed)?;
                        let close = chunk.close(column).map_err(failed)?;
                        group.append_column(chunk.bytes(), close).map_err(failed)?;
                    }
                    None => gathered.write(leaf, &mut group)?,
                }
            }
            gathered.clear();
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        Ok(())
    }

    /// The file, started if necessary.
    fn file(&mut self) -> io::Result<&mut SerializedFileWriter<W>> {
        self.output = match std::mem::replace(&mut self.output, Output::Failed) {
            Output::Pending { out, schema, codec } => {
                self.gathered.iter_mut().for_each(|gathered| gathered.choose_encoding(codec));
                let properties = self.properties(codec);
                let file = SerializedFileWriter::new(out, schema, Arc::new(properties));
                Output::Started(file.map_err(failed)?)
            }
            begun => begun,
        };
        match &mut self.output {
            Output::Started(file) => Ok(file),
            _ => Err(mismatch("no file")),
        }
    }

    fn properties(&self, codec: Codec) -> WriterProperties {
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("tollgate ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(codec)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        for (gathered, name) in self.gathered.iter().zip(self.columns.names()) {
            for (member, repeats) in gathered.repeating() {
                let path = std::iter::once(*name).chain(member).map(str::to_owned).collect();
                properties =
                    properties.set_column_dictionary_enabled(ColumnPath::new(path), repeats);
            }
        }
        properties.build()
    }
}

impl Gathered {
    fn of(column: &Column, rows: usize) -> Gathered {
        match column.kind {
            ColumnType::Text => Gathered::Text(Texts::new(rows)),
            ColumnType::Json => Gathered::Json(Texts::new(rows)),
            ColumnType::Integer => Gathered::Integer(Leaf::new(rows)),
            ColumnType::Double => Gathered::Double(Leaf::new(rows)),
            ColumnType::Bool => Gathered::Bool(Leaf::new(rows)),
            ColumnType::Doubles(names) => Gathered::Doubles {
                splitter: RecordSplitter::default(),
                columns: Columns::new(names.to_vec()),
                members: names.iter().map(|_| Leaf::new(rows)).collect(),
            },
        }
    }

    /// A value that `is_plain` has no escapes.
    fn push(&mut self, json: Option<&str>, is_plain: bool) -> io::Result<()> {
        match self {
            Gathered::Text(texts) => {
                let text = json.map(|json| text(json, is_plain)).transpose()?;
                return texts.push(text.as_deref());
            }
            Gathered::Json(texts) => return texts.push(json.map(dumped).as_deref()),
            Gathered::Integer(leaf) => leaf.push(json.map(integer).transpose()?, PRESENT, 0),
            Gathered::Double(leaf) => leaf.push(json.map(double).transpose()?, PRESENT, 0),
            Gathered::Bool(leaf) => leaf.push(json.map(truth).transpose()?, PRESENT, 0),
            Gathered::Doubles { splitter, columns, members } => {
                return push_doubles(splitter, columns, members, json);
            }
        }
        Ok(())
    }

    /// The member name of each leaf, and whether its values repeat.
    fn repeating(&self) -> Vec<(Option<&'static str>, bool)> {
        match self {
            Gathered::Text(texts) | Gathered::Json(texts) => vec![(None, !texts.is_plain())],
            Gathered::Integer(leaf) => vec![(None, repeats(leaf.values.iter()))],
            Gathered::Double(leaf) => vec![(None, leaf.repeats())],
            // Booleans have no dictionary.
            Gathered::Bool(_) => Vec::new(),
            Gathered::Doubles { columns, members, .. } => {
                let names = columns.names().iter().map(|name| Some(*name));
                names.zip(members.iter().map(Leaf::<f64>::repeats)).collect()
            }
        }
    }

    /// The texts of the first group decide their encoding.
    fn choose_encoding(&mut self, codec: Codec) {
        if let Gathered::Text(texts) | Gathered::Json(texts) = self {
            texts.choose_encoding(codec);
        }
    }

    /// Texts that are encoded as plain pages.
    fn plain(&self) -> Option<&Texts> {
        let (Gathered::Text(texts) | Gathered::Json(texts)) = self else { return None };
        texts.is_plain().then_some(texts)
    }

    fn leaves(&self) -> usize {
        if let Gathered::Doubles { members, .. } = self { members.len() } else { 1 }
    }

    fn write<W: Write + Send>(
        &self,
        leaf: usize,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> io::Result<()> {
        let column = group.next_column().map_err(failed)?;
        let mut column = column.ok_or_else(|| mismatch("a column is missing"))?;
        self.write_leaf(leaf, &mut column).map_err(failed)?;
        column.close().map_err(failed)
    }

    fn write_leaf(
        &self,
        leaf: usize,
        column: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        match self {
            Gathered::Text(texts) | Gathered::Json(texts) => {
                let (texts, levels) = (texts.each(), texts.levels());
                column.typed::<ByteArrayType>().write_batch(&texts, Some(levels), None)?
            }
            Gathered::Integer(leaf) => {
                column.typed::<Int64Type>().write_batch(&leaf.values, Some(&leaf.levels), None)?
            }
            Gathered::Double(leaf) => write_doubles(leaf, column)?,
            Gathered::Bool(leaf) => {
                column.typed::<BoolType>().write_batch(&leaf.values, Some(&leaf.levels), None)?
            }
            Gathered::Doubles { members, .. } => match members.get(leaf) {
                Some(member) => write_doubles(member, column)?,
                None => 0,
            },
        };
        Ok(())
    }

    fn clear(&mut self) {
        match self {
            Gathered::Text(texts) | Gathered::Json(texts) => texts.clear(),
            Gathered::Integer(leaf) => leaf.clear(),
            Gathered::Double(leaf) => leaf.clear(),
            Gathered::Bool(leaf) => leaf.clear(),
            Gathered::Doubles { members, .. } => members.iter_mut().for_each(Leaf::clear),
        }
    }
}

fn write_doubles(
    leaf: &Leaf<f64>,
    column: &mut SerializedColumnWriter<'_>,
) -> Result<usize, ParquetError> {
    column.typed::<DoubleType>().write_batch(&leaf.values, Some(&leaf.levels), None)
}

fn push_doubles(
    splitter: &mut RecordSplitter,
    columns: &mut Columns,
    members: &mut [Leaf<f64>],
    json: Option<&str>,
) -> io::Result<()> {
    let Some(json) = json else {
        for member in members {
            member.push(None, MEMBER_PRESENT, 0);
        }
        return Ok(());
    };
    let fields = splitter.fields(json).map_err(|_| mismatch("not an object of numbers"))?;
    for (member, value) in members.iter_mut().zip(columns.pick(&fields)) {
        let value = value.filter(|json| *json != "null").map(double).transpose()?;
        member.push(value, MEMBER_PRESENT, PRESENT);
    }
    Ok(())
}

/// The schema of a view: columns in their order, all nullable.
fn schema(view: &View) -> Result<TypePtr, ParquetError> {
    let columns = view.columns.iter().map(|column| match column.kind {
        ColumnType::Text | ColumnType::Json => text_type(column.name),
        ColumnType::Integer => leaf_type(column.name, Physical::INT64),
        ColumnType::Double => leaf_type(column.name, Physical::DOUBLE),
        ColumnType::Bool => leaf_type(column.name, Physical::BOOLEAN),
        ColumnType::Doubles(members) => {
            let members = members.iter().map(|member| leaf_type(member, Physical::DOUBLE));
            Type::group_type_builder(column.name)
                .with_repetition(Repetition::OPTIONAL)
                .with_fields(members.collect::<Result<_, _>>()?)
                .build()
                .map(Arc::new)
        }
    });
    let columns = columns.collect::<Result<_, _>>()?;
    Type::group_type_builder(view.kind).with_fields(columns).build().map(Arc::new)
}

fn leaf_type(name: &str, physical: Physical) -> Result<TypePtr, ParquetError> {
    let built = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .build()?;
    Ok(Arc::new(built))
}

fn text_type(name: &str) -> Result<TypePtr, ParquetError> {
    let built = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::String))
        .with_converted_type(ConvertedType::UTF8)
        .build()?;
    Ok(Arc::new(built))
}

fn codec_of(codec: Compression) -> io::Result<Codec> {
    Ok(match codec {
        Compression::Snappy => Codec::SNAPPY,
        Compression::Zstd => Codec::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?),
    })
}

/// A record that does not match the declaration of its kind; this is our bug.
fn mismatch(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

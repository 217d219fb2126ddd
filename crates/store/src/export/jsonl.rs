//! Writes JSON lines: one record per line, sorted keys, ASCII only.

use std::io::{self, Write};

use super::members::{Member, SplitRecord};
use super::python;

pub(super) struct JsonlWriter<W> {
    out: W,
    line: String,
    order: KeyOrder,
}

/// The final order of the keys of the previous record; all records of one kind have the same keys.
#[derive(Default)]
struct KeyOrder {
    /// Each key as received, with its position in the record.
    keys: Vec<(String, usize)>,
    /// The same keys as written, with their punctuation.
    openings: Vec<String>,
}

impl<W: Write> JsonlWriter<W> {
    pub(super) fn begin(out: W) -> JsonlWriter<W> {
        JsonlWriter { out, line: String::new(), order: KeyOrder::default() }
    }

    pub(super) fn row(&mut self, fields: &SplitRecord<'_>) -> io::Result<()> {
        let JsonlWriter { out, line, order } = self;
        let members = &fields.members;
        if !fields.is_alike {
            *order = KeyOrder::of(members);
        }
        line.clear();
        for ((_, at), opening) in order.keys.iter().zip(&order.openings) {
            line.push_str(opening);
            python::dump(members.get(*at).map_or("null", |(_, value)| value), line);
        }
        line.push_str(if members.is_empty() { "{}\n" } else { "}\n" });
        out.write_all(line.as_bytes())
    }

    pub(super) fn end(self) -> W {
        self.out
    }
}

impl KeyOrder {
    fn of(fields: &[Member<'_>]) -> KeyOrder {
        let mut keys: Vec<(String, usize)> =
            fields.iter().enumerate().map(|(at, (key, _))| ((*key).to_owned(), at)).collect();
        keys.sort_unstable();
        let opening = |(index, (key, _)): (usize, &(String, usize))| {
            let mut opening = if index == 0 { "{".to_owned() } else { ", ".to_owned() };
            python::quote(key, &mut opening);
            opening + ": "
        };
        let openings = keys.iter().enumerate().map(opening).collect();
        KeyOrder { keys, openings }
    }
}

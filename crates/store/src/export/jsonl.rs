//! Writes JSON lines: one record a line, keys sorted, ASCII alone.

use std::io::{self, Write};

use super::fields::{Field, Fields};
use super::python;

pub(super) struct JsonlWriter<W> {
    out: W,
    line: String,
    order: Order,
}

/// The keys of the last record in their final order: all records of one kind have the same ones.
#[derive(Default)]
struct Order {
    /// Each key as it came, and where it stands in the record.
    keys: Vec<(String, usize)>,
    /// The same keys as they are written, with what stands around them.
    openings: Vec<String>,
}

impl<W: Write> JsonlWriter<W> {
    pub(super) fn begin(out: W) -> JsonlWriter<W> {
        JsonlWriter { out, line: String::new(), order: Order::default() }
    }

    pub(super) fn row(&mut self, fields: &Fields<'_>) -> io::Result<()> {
        let JsonlWriter { out, line, order } = self;
        let members = &fields.members;
        if !fields.is_alike {
            *order = Order::of(members);
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

impl Order {
    fn of(fields: &[Field<'_>]) -> Order {
        let mut keys: Vec<(String, usize)> =
            fields.iter().enumerate().map(|(at, (key, _))| ((*key).to_owned(), at)).collect();
        keys.sort_unstable();
        let opening = |(place, (key, _)): (usize, &(String, usize))| {
            let mut opening = if place == 0 { "{".to_owned() } else { ", ".to_owned() };
            python::quote(key, &mut opening);
            opening + ": "
        };
        let openings = keys.iter().enumerate().map(opening).collect();
        Order { keys, openings }
    }
}

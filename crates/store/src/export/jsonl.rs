//! Writes JSON lines: one record a line, keys sorted, ASCII alone.

use std::io::{self, Write};

use super::fields::Field;
use super::python;

pub(super) struct JsonlWriter<W> {
    out: W,
    line: String,
}

impl<W: Write> JsonlWriter<W> {
    pub(super) fn begin(out: W) -> JsonlWriter<W> {
        JsonlWriter { out, line: String::new() }
    }

    pub(super) fn row(&mut self, fields: &mut [Field<'_>]) -> io::Result<()> {
        fields.sort_unstable();
        self.line.clear();
        python::dump_members(fields.iter().copied(), &mut self.line);
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    pub(super) fn end(self) -> W {
        self.out
    }
}

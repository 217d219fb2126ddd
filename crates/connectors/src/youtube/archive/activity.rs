//! The history as HTML, Google's default: a page of cells, each with an action, a link, and the time
//! in the owner's language.

use html5gum::{HtmlString, IoReader, StartTag, Token, Tokenizer};
use serde_json::{Value, json};

use super::{Others, SEARCHES, WATCHES, query_param, take, timestamp};
use crate::personal::archive::{Intake, OpenFile, Stop};

pub(super) fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let meter = file.meter;
    let mut page = PageParser::default();
    let mut others = Others::default();
    for token in Tokenizer::new(IoReader::new(&mut *file.reader)) {
        let token = token.map_err(|error| Stop::File(error.to_string()))?;
        if let Some(cell) = page.process(&token) {
            meter.piece();
            cell.put(intake, &mut others)?;
        }
    }
    match page.cell.take() {
        Some(cell) => cell.put(intake, &mut others),
        None => Ok(()),
    }
}

/// The parser's position in the page.
#[derive(Default)]
struct PageParser {
    cell: Option<Cell>,
    part: CellPart,
    link: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CellPart {
    #[default]
    Elsewhere,
    Header,
    Body,
    Caption,
}

#[derive(Default)]
struct Cell {
    header: String,
    lines: Vec<String>,
    links: Vec<Link>,
    caption: Vec<String>,
}

struct Link {
    address: String,
    text: String,
}

impl PageParser {
    /// Processes a token; returns the cell that it completes.
    fn process(&mut self, token: &Token) -> Option<Cell> {
        match token {
            Token::StartTag(tag) => return self.begin(tag),
            Token::EndTag(tag) if is(&tag.name, "a") => self.link = None,
            Token::String(text) => self.push_text(&String::from_utf8_lossy(text)),
            _ => {}
        }
        None
    }

    fn begin(&mut self, tag: &StartTag<()>) -> Option<Cell> {
        let attribute = |name: &str| {
            tag.attributes
                .iter()
                .find(|(key, _)| is(key, name))
                .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        if is(&tag.name, "div") {
            let class = attribute("class").unwrap_or_default();
            self.link = None;
            if class.contains("outer-cell") {
                self.part = CellPart::Elsewhere;
                return self.cell.replace(Cell::default());
            }
            self.part = self.part_of(&class);
        } else if is(&tag.name, "br") {
            let (part, cell) = (self.part, self.cell.as_mut()?);
            match part {
                CellPart::Body => cell.lines.push(String::new()),
                CellPart::Caption => cell.caption.push(String::new()),
                _ => {}
            }
        } else if is(&tag.name, "a") && self.part == CellPart::Body {
            let cell = self.cell.as_mut()?;
            self.link = Some(cell.links.len());
            let address = attribute("href").unwrap_or_default();
            cell.links.push(Link { address, text: String::new() });
        }
        None
    }

    fn part_of(&self, class: &str) -> CellPart {
        let has_body = self.cell.as_ref().is_some_and(|cell| !cell.lines.is_empty());
        if class.contains("header-cell") {
            CellPart::Header
        } else if class.contains("caption") {
            CellPart::Caption
        } else if class.contains("content-cell") && !class.contains("text-right") && !has_body {
            CellPart::Body
        } else {
            CellPart::Elsewhere
        }
    }

    fn push_text(&mut self, text: &str) {
        let Some(cell) = self.cell.as_mut() else { return };
        match self.part {
            CellPart::Elsewhere => {}
            CellPart::Header => cell.header.push_str(text),
            CellPart::Caption => add(&mut cell.caption, text),
            CellPart::Body => match self.link.and_then(|at| cell.links.get_mut(at)) {
                Some(link) => link.text.push_str(text),
                None => add(&mut cell.lines, text),
            },
        }
    }
}

fn add(lines: &mut Vec<String>, text: &str) {
    match lines.last_mut() {
        Some(line) => line.push_str(text),
        None => lines.push(text.to_owned()),
    }
}

fn is(name: &HtmlString, word: &str) -> bool {
    name.as_slice() == word.as_bytes()
}

impl Cell {
    /// The same entry in the JSON form.
    fn put(self, intake: &mut Intake<'_>, others: &mut Others) -> Result<(), Stop> {
        let Some(link) = self.links.first() else { return Ok(()) };
        let mut item = json!({
            "header": self.header.trim(),
            "title": link.text.trim(),
            "titleUrl": link.address,
        });
        let list = match (query_param(&item, "v"), query_param(&item, "search_query")) {
            (Some(_), _) => &WATCHES,
            (None, Some(_)) => &SEARCHES,
            (None, None) => return take(item, intake, others),
        };
        let Some(time) = self.time(intake) else {
            others.is_ours = true;
            intake.odd(list);
            return Ok(());
        };
        if let Some(item) = item.as_object_mut() {
            if let Some(channel) = self.links.get(1) {
                let channel = json!([{ "name": channel.text.trim(), "url": channel.address }]);
                item.insert("subtitles".to_owned(), channel);
            }
            item.insert("time".to_owned(), json!(time));
            if let Some(details) = self.details() {
                item.insert("details".to_owned(), json!([{ "name": details }]));
            }
        }
        take(item, intake, others)
    }

    /// The last line that is a timestamp.
    fn time(&self, intake: &Intake<'_>) -> Option<String> {
        let at_s = self.lines.iter().rev().find_map(|line| timestamp::read(line, intake.zone))?;
        Some(crate::when::utc_seconds(at_s.saturating_mul(1_000_000)))
    }

    /// The section under the last caption title, if there are three: products, details, and why the
    /// entry is here. Only ads have details.
    fn details(&self) -> Option<Value> {
        let lines = self.caption.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let found = lines.into_iter().find(|line| line.contains("Google") && line.len() < 80);
        found.filter(|line| !line.ends_with(':')).map(Value::from)
    }
}

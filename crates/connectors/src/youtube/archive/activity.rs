//! The history as HTML, the form Google sends unless asked for JSON: a page of cells, each with what
//! was done, a link, and the moment in the owner's language.

use html5gum::{HtmlString, IoReader, StartTag, Token, Tokenizer};
use serde_json::{Value, json};

use super::{Others, SEARCHES, WATCHES, asked, moment, take};
use crate::personal::archive::{Intake, OpenFile, Stop};

pub(super) fn read(file: &mut OpenFile<'_>, intake: &mut Intake<'_>) -> Result<(), Stop> {
    let meter = file.meter;
    let mut page = Page::default();
    let mut others = Others::default();
    for token in Tokenizer::new(IoReader::new(&mut *file.reader)) {
        let token = token.map_err(|error| Stop::File(error.to_string()))?;
        if let Some(cell) = page.see(&token) {
            meter.piece();
            cell.put(intake, &mut others)?;
        }
    }
    match page.cell.take() {
        Some(cell) => cell.put(intake, &mut others),
        None => Ok(()),
    }
}

/// Where in the page the reader is.
#[derive(Default)]
struct Page {
    cell: Option<Cell>,
    part: Part,
    link: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
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

impl Page {
    /// Takes in a token; answers the cell that it ends.
    fn see(&mut self, token: &Token) -> Option<Cell> {
        match token {
            Token::StartTag(tag) => return self.begin(tag),
            Token::EndTag(tag) if is(&tag.name, "a") => self.link = None,
            Token::String(text) => self.hear(&String::from_utf8_lossy(text)),
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
                self.part = Part::Elsewhere;
                return self.cell.replace(Cell::default());
            }
            self.part = self.part_of(&class);
        } else if is(&tag.name, "br") {
            let (part, cell) = (self.part, self.cell.as_mut()?);
            match part {
                Part::Body => cell.lines.push(String::new()),
                Part::Caption => cell.caption.push(String::new()),
                _ => {}
            }
        } else if is(&tag.name, "a") && self.part == Part::Body {
            let cell = self.cell.as_mut()?;
            self.link = Some(cell.links.len());
            let address = attribute("href").unwrap_or_default();
            cell.links.push(Link { address, text: String::new() });
        }
        None
    }

    fn part_of(&self, class: &str) -> Part {
        let has_body = self.cell.as_ref().is_some_and(|cell| !cell.lines.is_empty());
        if class.contains("header-cell") {
            Part::Header
        } else if class.contains("caption") {
            Part::Caption
        } else if class.contains("content-cell") && !class.contains("text-right") && !has_body {
            Part::Body
        } else {
            Part::Elsewhere
        }
    }

    fn hear(&mut self, text: &str) {
        let Some(cell) = self.cell.as_mut() else { return };
        match self.part {
            Part::Elsewhere => {}
            Part::Header => cell.header.push_str(text),
            Part::Caption => add(&mut cell.caption, text),
            Part::Body => match self.link.and_then(|at| cell.links.get_mut(at)) {
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
    /// As the same entry reads in JSON.
    fn put(self, intake: &mut Intake<'_>, others: &mut Others) -> Result<(), Stop> {
        let Some(link) = self.links.first() else { return Ok(()) };
        let mut item = json!({
            "header": self.header.trim(),
            "title": link.text.trim(),
            "titleUrl": link.address,
        });
        let list = match (asked(&item, "v"), asked(&item, "search_query")) {
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

    /// The last line that is a moment.
    fn time(&self, intake: &Intake<'_>) -> Option<String> {
        let at_s = self.lines.iter().rev().find_map(|line| moment::read(line, intake.zone))?;
        Some(crate::when::utc_seconds(at_s.saturating_mul(1_000_000)))
    }

    /// Under the last title of the caption, when there are three: products, details, and why the
    /// entry is here. Only what Google's advertisers showed has details.
    fn details(&self) -> Option<Value> {
        let lines = self.caption.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let found = lines.into_iter().find(|line| line.contains("Google") && line.len() < 80);
        found.filter(|line| !line.ends_with(':')).map(Value::from)
    }
}

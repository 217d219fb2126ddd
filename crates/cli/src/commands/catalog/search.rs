//! `catalog search`: full-text search.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use store::home::Home;
use store::index::{Index, SearchQuery};

use super::CatalogSearchArgs;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Table};

pub(super) fn run(args: &CatalogSearchArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let index = Index::open(&Home::create(&context.home_path()?)?)?;
    let words = args.words.join(" ");
    let question =
        SearchQuery { words: &words, category: args.category, risk: args.risk, limit: args.limit };
    let begin = Instant::now();
    let hits = index.search(&question)?;
    let took_us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
    let found = !hits.is_empty();
    if out.wants_json() {
        out.json(&json!({ "took_us": took_us, "hits": hits }))?;
        return Ok(Ending::of(found));
    }
    if !found {
        out.say("nothing found; fewer or shorter words find more");
        return Ok(Ending::No);
    }
    let mut table = Table::new(&["risk", "category", "slug", "description"]);
    for hit in hits {
        let kind = hit.category.map_or_else(
            || format!("{} tools", hit.tools.unwrap_or_default()),
            |category| category.to_string(),
        );
        table.row([
            hit.risk.map_or("-", |risk| risk.as_str()).to_owned(),
            kind,
            hit.slug,
            short(&hit.does),
        ]);
    }
    out.table(&table)?;
    Ok(Ending::Yes)
}

fn short(text: &str) -> String {
    const CHARS_MAX: usize = 70;
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    if line.chars().count() <= CHARS_MAX {
        return line;
    }
    format!("{}…", line.chars().take(CHARS_MAX).collect::<String>().trim_end())
}

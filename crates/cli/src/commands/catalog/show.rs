//! `catalog show`: one page, as Markdown or as JSON.

use anyhow::{Result, anyhow};
use catalog::markdown;
use store::index::{Index, IndexError};

use super::CatalogShowArgs;
use super::pages::StoredServer;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::Out;

pub(super) fn run(args: &CatalogShowArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let candidates = splits(&args.slug);
    if let Ok(index) = Index::open(&stores.home) {
        for (server, tool) in &candidates {
            match StoredServer::from_index(&index, server) {
                Ok(kept) => return show(&kept, tool.as_deref(), args, out),
                Err(error) if missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    for (server, tool) in &candidates {
        if let Some(kept) = StoredServer::from_gate(&stores, server)? {
            return show(&kept, tool.as_deref(), args, out);
        }
    }
    Err(IndexError::Missing(args.slug.clone()).into())
}

fn missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(IndexError::Missing(_)))
}

/// A server's name may contain a slash, so both are tried: the whole slug, then server and tool.
fn splits(slug: &str) -> Vec<(String, Option<String>)> {
    let mut all = vec![(slug.to_owned(), None)];
    if let Some((server, tool)) = slug.rsplit_once('/') {
        all.push((server.to_owned(), Some(tool.to_owned())));
    }
    all
}

fn show(
    kept: &StoredServer,
    tool: Option<&str>,
    args: &CatalogShowArgs,
    out: &mut Out,
) -> Result<Ending> {
    kept.pages(|pages| {
        let Some(tool) = tool else {
            let page = pages.server();
            if out.wants_json() {
                return out.json(&page);
            }
            return out.raw(markdown::server(&page).as_bytes());
        };
        let page =
            pages.tool(tool).ok_or_else(|| anyhow!(IndexError::Missing(args.slug.clone())))?;
        if out.wants_json() {
            return out.json(&page);
        }
        out.raw(markdown::tool(&page).as_bytes())
    })?;
    Ok(Ending::Yes)
}

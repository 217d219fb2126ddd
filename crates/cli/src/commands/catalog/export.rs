//! `catalog export --html`: the catalogue as a static site that also works without a web server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use catalog::classify::Risk;
use catalog::html::{self, Entry, Shards};
use serde_json::json;
use store::home::Home;
use store::index::{Index, IndexError};

use super::CatalogExportArgs;
use super::pages::StoredServer;
use crate::context::Context;
use crate::failure::Ending;
use crate::output::{Out, Progress, count};

pub(super) fn run(args: &CatalogExportArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let stores = context.open()?;
    let own: Vec<String> = stores.servers()?.into_iter().map(|server| server.name).collect();
    // Without a catalogue there are still the servers behind the gate.
    let index = match Index::open(&Home::create(&context.home_path()?)?) {
        Err(IndexError::Empty) if !own.is_empty() => None,
        opened => Some(opened?),
    };
    let folder = &args.html;
    check_empty(folder)?;
    let mut site = Site::default();
    let mut progress = Progress::new("writing pages");
    let most = args.limit.unwrap_or(usize::MAX);
    for name in &own {
        if let Some(kept) = StoredServer::from_gate(&stores, name)?.filter(|_| site.servers < most)
        {
            site.server(&kept, &catalog::slug::server(name), folder)?;
            progress.at(site.pages);
        }
    }
    if let Some(index) = &index {
        index.each_server::<anyhow::Error>(|server| {
            if site.servers < most {
                let tools = index.tools(&server)?;
                let slug = server.slug.clone();
                site.server(&StoredServer::of(server, &tools), &slug, folder)?;
                progress.at(site.pages);
            }
            Ok(())
        })?;
    }
    site.finish(folder)?;
    drop(progress);
    let shown = folder.display();
    if out.wants_json() {
        out.json(&json!({ "folder": folder, "servers": site.servers, "tools": site.tools, "pages": site.pages }))?;
    } else {
        out.line(format_args!(
            "{} and {} written to `{shown}`; open `{shown}/index.html`",
            count(site.servers, "server"),
            count(site.tools, "tool")
        ))?;
    }
    Ok(Ending::Yes)
}

/// The site is not mixed with other files.
fn check_empty(folder: &Path) -> Result<()> {
    let shown = folder.display();
    match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => {
            bail!("`{shown}` is not empty\nhint: name a new folder, or empty this one")
        }
        Ok(false) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot read `{shown}`")),
    }
}

/// The data of every page that the lists and the search need.
#[derive(Default)]
struct Site {
    servers: usize,
    tools: usize,
    pages: u64,
    slugs: BTreeSet<String>,
    letters: BTreeMap<char, Vec<Entry>>,
    risks: BTreeMap<Risk, u64>,
    shards: Shards,
}

impl Site {
    fn server(&mut self, kept: &StoredServer, wanted: &str, folder: &Path) -> Result<()> {
        let slug = self.free_slug(wanted);
        let here = folder.join("servers").join(&slug);
        kept.pages(|pages| {
            let mut page = pages.server();
            page.slug.clone_from(&slug);
            write(&here.join("index.html"), &html::server(&page))?;
            let entry = Entry {
                path: format!("servers/{slug}/index.html"),
                name: page.name.clone(),
                server: None,
                does: page.description.clone(),
                category: None,
                risk: page.risk,
                tools: Some(page.tools.len()),
            };
            self.shards.add(&entry);
            self.letters.entry(html::letter_of(&page.name)).or_default().push(entry);
            for tool in pages.tools() {
                write(&here.join("tools").join(format!("{}.html", tool.slug)), &html::tool(&tool))?;
                self.shards.add(&Entry {
                    path: format!("servers/{slug}/tools/{}.html", tool.slug),
                    name: tool.name,
                    server: Some(tool.server),
                    does: tool.does,
                    category: Some(tool.category),
                    risk: Some(tool.risk),
                    tools: None,
                });
                *self.risks.entry(tool.risk).or_default() += 1;
                self.tools += 1;
                self.pages += 1;
            }
            Ok(())
        })?;
        self.servers += 1;
        self.pages += 1;
        Ok(())
    }

    /// A registered server and one of the catalogue may share a name; each gets a folder.
    fn free_slug(&mut self, wanted: &str) -> String {
        let mut slug = wanted.to_owned();
        let mut number = 2;
        while !self.slugs.insert(slug.clone()) {
            slug = format!("{wanted}-{number}");
            number += 1;
        }
        slug
    }

    fn finish(&self, folder: &Path) -> Result<()> {
        let letters: Vec<(char, usize)> =
            self.letters.iter().map(|(letter, entries)| (*letter, entries.len())).collect();
        let risks: Vec<(Risk, u64)> = self.risks.iter().map(|(risk, n)| (*risk, *n)).collect();
        let (servers, tools) = (self.servers as u64, self.tools as u64);
        write(
            &folder.join("index.html"),
            &html::index(servers, tools, &letters, &risks, &self.shards),
        )?;
        write(&folder.join("style.css"), html::STYLE)?;
        write(&folder.join("search.js"), html::SCRIPT)?;
        for (letter, entries) in &self.letters {
            write(
                &folder.join("letters").join(format!("{letter}.html")),
                &html::letter(*letter, entries),
            )?;
        }
        for (name, text) in self.shards.files() {
            write(&folder.join("search").join(format!("{name}.js")), &text)?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder of `{shown}`"))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write `{shown}`"))
}

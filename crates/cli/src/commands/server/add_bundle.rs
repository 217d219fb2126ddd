//! `server add FILE.mcpb`: shows what a bundle would run, unpacks it into the home and registers the server.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use store::registry::{EnvValue, Target};

use super::add::{self, AddArgs};
use crate::bundle::{self, Bundle, BundlePaths, Manifest, config};
use crate::context::{Context, Stores};
use crate::failure::Ending;
use crate::output::{Out, count, visible};

/// The folder of the home with the unpacked bundles, by server.
const FOLDER: &str = "bundles";

pub(super) fn is_bundle(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ["mcpb", "dxt"].iter().any(|one| ending.eq_ignore_ascii_case(one)))
}

pub(super) fn run(args: &AddArgs, context: &Context, out: &mut Out) -> Result<Ending> {
    let mut opened = Bundle::open(Path::new(&args.name))?;
    let name = args.bundle_name.clone().unwrap_or_else(|| opened.manifest.server_name());
    check_name(&name)?;
    let stores = context.open()?;
    let args = &args.renamed(name);
    add::check_free(args, &stores)?;
    let folder = folder_of(&args.name, &stores);
    if folder.exists() {
        // Left by a removal that failed; no server uses it.
        std::fs::remove_dir_all(&folder)?;
    }
    let home = crate::client_files::user_folders()?.home().to_owned();
    let places = BundlePaths { folder: folder.clone(), home };
    let values = config::values(&opened.manifest.settings, &args.set, &places)?;
    let target = bundle::target(&opened.manifest, &values, &places)?;
    show(&opened, &target, out);
    if !args.yes && !confirmed(&opened.manifest, out)? {
        out.say("nothing was added");
        return Ok(Ending::No);
    }
    opened.unpack(&folder)?;
    let added = add::register(args, &target, &stores, context, out);
    if added.is_err() {
        remove(&args.name, &stores)?;
    }
    added
}

/// The name is part of a path, so it is checked before the registry does.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name.is_empty() || name.starts_with('-') || !name.bytes().all(is_plain) {
        bail!(
            "`{}` is not a valid server name\nhint: `--name` chooses one of letters, digits, `-` and `_`",
            visible(name)
        );
    }
    Ok(())
}

/// Removes the files of a server's bundle, if it came from one.
pub(super) fn remove(server: &str, stores: &Stores) -> Result<bool> {
    let folder = folder_of(server, stores);
    match std::fs::remove_dir_all(&folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => bail!("cannot remove `{}`: {error}", folder.display()),
    }
}

fn folder_of(server: &str, stores: &Stores) -> PathBuf {
    stores.home.path().join(FOLDER).join(server)
}

/// Everything that the owner decides about. The texts are the author's, so they are shown with escapes.
fn show(bundle: &Bundle, target: &Target, out: &Out) {
    let manifest = &bundle.manifest;
    out.say(format_args!(
        "bundle   {} {} by {}",
        visible(&manifest.title),
        visible(&manifest.version),
        visible(&manifest.author)
    ));
    out.say(format_args!("files    {}", count(bundle.files(), "file")));
    let Target::Command { argv, env, .. } = target else { return };
    out.say(format_args!("runs     {}", visible(&argv.join(" "))));
    for (name, value) in env {
        let value = match value {
            EnvValue::Plain(text) => visible(text),
            EnvValue::Hidden(_) => "(sealed)".to_owned(),
        };
        out.say(format_args!("with     {}={value}", visible(name)));
    }
}

fn confirmed(manifest: &Manifest, out: &Out) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("no terminal to ask on\nhint: look at what it runs, then add `--yes`");
    }
    out.say(format_args!("add it and run it as you? type yes to add {}:", visible(&manifest.name)));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "yes"))
}

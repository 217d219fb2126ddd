//! `cargo xtask eval classifier [FILE]`: how the classifier answers for labelled tools. The work is
//! an example of the `catalog` crate, so that this crate needs no door to it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where the labelled tools lie beside a checkout of this project. They are not part of it: the
/// descriptions belong to the servers' authors.
const LABELLED: &str = "../shared/data/tools_dev.jsonl";

pub(crate) fn eval(root: &Path, args: &[String]) -> Result<bool> {
    let file = args.first().map_or_else(|| root.join(LABELLED), PathBuf::from);
    anyhow::ensure!(
        file.is_file(),
        "there are no labelled tools at `{}`; give another file: cargo xtask eval classifier FILE \
         (what was measured when the table was trained is in crates/catalog/train/figures.json)",
        file.display()
    );
    let file = file.canonicalize().context("cannot resolve the path of the labelled tools")?;
    let status = super::cargo()
        .current_dir(root)
        .args(["run", "-q", "-p", "catalog", "--example", "classifier", "--", "eval"])
        .arg(&file)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}

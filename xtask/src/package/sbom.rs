//! The list of components (CycloneDX, JSON): every crate that is compiled into the program for its target, with
//! version, licence and the checksum of its source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Release, run, write_file};

const OUR_PACKAGE: &str = "tollgate";

pub(super) fn make(release: &Release) -> Result<Vec<PathBuf>> {
    let mut cargo = crate::cargo();
    cargo.current_dir(&release.root).args(["metadata", "--format-version", "1", "--locked"]);
    cargo.args(["--filter-platform", release.target.triple]);
    let metadata: Value = serde_json::from_str(&run(&mut cargo)?)?;
    let lock: toml::Table = std::fs::read_to_string(release.root.join("Cargo.lock"))?.parse()?;
    let bom = bom(&metadata, &checksums(&lock), release.target.triple)?;
    let name = format!("tollgate-{}-{}.cdx.json", release.version, release.target.triple);
    let path = release.out.join(name);
    write_file(&path, serde_json::to_string_pretty(&bom)?.as_bytes())?;
    Ok(vec![path])
}

/// SHA-256 of each crate's source, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let of = |package: &toml::Value| {
        let text = |name: &str| package.get(name).and_then(toml::Value::as_str).map(str::to_owned);
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    packages.filter_map(of).collect()
}

fn bom(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    target: &str,
) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> = list(metadata, "/packages")
        .filter_map(|package| Some((package.get("id")?.as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(metadata, "/resolve/nodes")
        .filter_map(|node| Some((node.get("id")?.as_str()?, node)))
        .collect();
    let root = packages.iter().find(|(_, package)| text(package, "name") == OUR_PACKAGE);
    let (root, ours) = root.context("cargo does not know the package")?;
    let mut dependencies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut next = vec![*root];
    while let Some(id) = next.pop() {
        if dependencies.contains_key(id) {
            continue;
        }
        let found: BTreeSet<&str> = nodes
            .get(id)
            .into_iter()
            .flat_map(|node| list(node, "/deps"))
            .filter_map(linked)
            .collect();
        next.extend(&found);
        dependencies.insert(id, found);
    }
    let reference = |id: &str| packages.get(id).map(|package| purl(package));
    let components = dependencies.keys().filter(|id| *id != root);
    let components: Vec<Value> = components
        .filter_map(|id| packages.get(id))
        .map(|package| component(package, "library", checksums))
        .collect();
    let edges: Vec<Value> = dependencies
        .iter()
        .filter_map(|(id, on)| {
            let on: Vec<String> = on.iter().filter_map(|id| reference(id)).collect();
            Some(json!({ "ref": reference(id)?, "dependsOn": on }))
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component(ours, "application", checksums),
            "properties": [{ "name": "target", "value": target }],
        },
        "components": components,
        "dependencies": edges,
    }))
}

/// The package behind an edge that ends in the program: not one of tests or build scripts only.
fn linked(edge: &Value) -> Option<&str> {
    let is_normal =
        list(edge, "/dep_kinds").any(|kind| kind.get("kind").is_some_and(Value::is_null));
    if is_normal { edge.get("pkg")?.as_str() } else { None }
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    // Older crates write `MIT/Apache-2.0`, which is no expression.
    let licence = package.get("license").and_then(Value::as_str).map(|l| l.replace('/', " OR "));
    let sum = checksums.get(&(name.to_owned(), version.to_owned()));
    let mut component = serde_json::Map::new();
    let mut add = |field: &str, value: Value| component.insert(field.to_owned(), value);
    add("type", kind.into());
    add("bom-ref", purl(package).into());
    add("name", name.into());
    add("version", version.into());
    add("purl", purl(package).into());
    if let Some(licence) = licence {
        add("licenses", json!([{ "expression": licence }]));
    }
    if let Some(sum) = sum {
        add("hashes", json!([{ "alg": "SHA-256", "content": sum }]));
    }
    Value::Object(component)
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version").replace('+', "%2B"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn only_what_is_linked_is_a_component() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let edge =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["tollgate", "used", "below", "tested", "builds", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "tollgate", "deps": [edge("used", Value::Null), edge("tested", "dev".into()), edge("builds", "build".into())] },
                { "id": "used", "deps": [edge("below", Value::Null)] },
                { "id": "below", "deps": [] },
                { "id": "other", "deps": [] },
            ] },
        });
        let sums = BTreeMap::from([(("used".to_owned(), "1.0.0".to_owned()), "5a".to_owned())]);
        let bom = bom(&metadata, &sums, "t").expect("a list");
        let components: Vec<&str> = list(&bom, "/components").map(|c| text(c, "name")).collect();
        assert_eq!(components, ["below", "used"]);
        assert_eq!(bom["components"][1]["hashes"][0]["content"], "5a");
        assert_eq!(bom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bom["dependencies"][1]["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
    }
}

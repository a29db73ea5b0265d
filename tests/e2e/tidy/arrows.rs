//! Rules for crates: who may depend on whom, and the lints that all of them share.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::{Page, assert_none, assert_seen, pages, root};

/// Each crate's normal dependencies, all of them: ours first. Another arrow is a decision, so it is made here.
const ARROWS: &[(&str, &[&str], &[&str])] = &[
    ("surestep-core", &[], &["jiff", "schemars", "serde", "serde_json", "sha2", "thiserror"]),
    (
        "surestep",
        &["surestep-core"],
        &["aho-corasick", "async-trait", "getrandom", "rustix", "thiserror", "tokio", "tracing"],
    ),
    (
        "surestep-file",
        &["surestep"],
        &["async-trait", "fs2", "rustix", "schemars", "serde", "serde_json", "thiserror", "tokio", "tracing"],
    ),
    (
        "surestep-effects",
        &["surestep"],
        &["async-trait", "rustix", "serde", "serde_json", "signal-hook", "tempfile", "thiserror", "tokio"],
    ),
    (
        "surestep-cli",
        &["surestep", "surestep-effects", "surestep-file"],
        &[
            "async-trait",
            "clap",
            "clap_complete",
            "clap_mangen",
            "signal-hook",
            "jiff",
            "rustix",
            "serde",
            "serde_json",
            "tempfile",
            "tokio",
            "toml",
        ],
    ),
    ("surestep-tests", &[], &["serde_json"]),
];

/// Features that a library may switch on in a crate that its users share with it.
const FEATURES: &[(&str, &str, &[&str])] =
    &[("surestep-core", "serde_json", &["raw_value"]), ("surestep", "tokio", &["rt", "time"])];

/// Packages outside the workspace, which cargo does not list with it.
const OUTSIDE: &[&str] = &["tests/fuzz/"];

fn metadata() -> Value {
    metadata_of("")
}

fn metadata_of(package: &str) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root().join(package))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The root file of every target of the workspace, from the workspace's root.
pub(crate) fn target_roots() -> Vec<String> {
    let mut roots = Vec::new();
    for package in OUTSIDE.iter().copied().chain([""]) {
        let metadata = metadata_of(package);
        let prefix = format!("{}/", text(&metadata["workspace_root"]));
        let targets = list(&metadata["packages"]).iter().flat_map(|package| list(&package["targets"]));
        let paths = targets.filter_map(|target| text(&target["src_path"]).strip_prefix(&prefix));
        roots.extend(paths.map(|path| format!("{package}{path}")));
    }
    roots
}

/// Normal dependencies by crate, each with the features that are asked for.
type Arrows = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn arrows(metadata: &Value) -> Arrows {
    let mut arrows = Arrows::new();
    for package in list(&metadata["packages"]) {
        let normal = list(&package["dependencies"]).iter().filter(|d| d["kind"].is_null());
        let dependencies = normal.map(|dependency| {
            let features = list(&dependency["features"]).iter().map(|f| text(f).to_owned()).collect();
            (text(&dependency["name"]).to_owned(), features)
        });
        arrows.insert(text(&package["name"]).to_owned(), dependencies.collect());
    }
    arrows
}

fn wrong_arrows(arrows: &Arrows) -> Vec<String> {
    let mut out = Vec::new();
    for (name, dependencies) in arrows {
        let Some((_, ours, others)) = ARROWS.iter().find(|(known, ..)| known == name) else {
            out.push(format!("{name}: not in the table of crates"));
            continue;
        };
        let allowed = |d: &str| ours.contains(&d) || others.contains(&d);
        out.extend(
            dependencies.keys().filter(|d| !allowed(d)).map(|d| format!("{name} -> {d}: not in the table")),
        );
        let gone = ours.iter().chain(*others).filter(|d| !dependencies.contains_key(**d));
        out.extend(gone.map(|d| format!("{name} -> {d}: in the table, and gone")));
    }
    for (name, dependency, allowed) in FEATURES {
        let found = arrows.get(*name).and_then(|all| all.get(*dependency)).cloned().unwrap_or_default();
        let extra = found.iter().filter(|feature| !allowed.contains(&feature.as_str()));
        out.extend(
            extra.map(|feature| format!("{name} -> {dependency}: feature `{feature}` is not in the table")),
        );
    }
    out
}

/// Lints are the workspace's, and unsafe code is forbidden there.
fn unlinted(page: &Page) -> Vec<String> {
    let section = |header: &str, line: &str| {
        let body = page.text.split(&format!("\n{header}\n")).nth(1).unwrap_or_default();
        body.split("\n[").next().unwrap_or_default().lines().any(|l| l.trim() == line)
    };
    let complain = |what: &str| Some(format!("{}: {what}", page.path));
    let wrong = match page.path.as_str() {
        "Cargo.toml" if !section("[workspace.lints.rust]", "unsafe_code = \"forbid\"") => {
            complain("unsafe code is not forbidden")
        }
        "Cargo.toml" => None,
        _ if !section("[lints]", "workspace = true") => {
            complain("it does not take over the workspace's lints")
        }
        _ => None,
    };
    wrong.into_iter().collect()
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let real = arrows(&metadata());
    assert_none(&wrong_arrows(&real));

    let with = |name: &str, dependency: &str, features: &[&str]| {
        let mut sample = real.clone();
        let features = features.iter().map(|f| (*f).to_owned()).collect();
        sample.entry(name.into()).or_default().insert(dependency.into(), features);
        sample
    };
    assert_seen(1, &wrong_arrows(&with("surestep-core", "tokio", &[])));
    assert_seen(1, &wrong_arrows(&with("surestep-effects", "surestep-file", &[])));
    assert_seen(1, &wrong_arrows(&with("surestep", "tokio", &["rt", "time", "fs"])));
    assert_seen(1, &wrong_arrows(&with("surestep-core", "serde_json", &["raw_value", "preserve_order"])));
    let mut new = real.clone();
    new.insert("surestep-new".into(), BTreeMap::new());
    assert_seen(1, &wrong_arrows(&new));
}

#[test]
fn every_crate_takes_over_the_lints_and_unsafe_code_is_forbidden() {
    let manifests: Vec<_> = pages().into_iter().filter(|p| p.path.ends_with("Cargo.toml")).collect();
    assert!(manifests.len() >= 7, "only {} manifests were found", manifests.len());
    assert_none(&manifests.iter().flat_map(unlinted).collect::<Vec<_>>());

    assert_seen(
        1,
        &unlinted(&Page::new("Cargo.toml", "\n[workspace.lints.rust]\nmissing_docs = \"warn\"\n")),
    );
    assert_seen(1, &unlinted(&Page::new("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[lints.rust]\n")));
    assert_seen(0, &unlinted(&Page::new("crates/a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n")));
}

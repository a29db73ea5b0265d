//! Tidiness: what a reviewer would otherwise have to look for each time.
//!
//! Each rule is a function from text to complaints. Each is run over the workspace, and over a small bad sample that
//! it must complain about: a rule that cannot fail is a defect.

mod arrows;
mod pages;
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the workspace: its path from the root, with `/`, and its text.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every text file of the workspace that is ours: not git's, not a build's, not a store's.
pub(crate) fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    collect(&root(), "", &mut pages);
    assert!(pages.iter().any(|page| page.path == "Cargo.toml"), "the workspace was not found");
    pages
}

fn collect(folder: &Path, prefix: &str, pages: &mut Vec<Page>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        // The fuzzers' corpus is noise by design. In a second work tree `.git` is a file.
        if path == "tests/fuzz/corpus" || matches!(name.as_str(), ".git" | "target" | ".surestep") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{path}/"), pages);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            pages.push(Page { path, text });
        }
    }
}

/// Whether a text has `word` with nothing of a word beside it.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part)
            && !text[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// Fails with every complaint, if there is one.
pub(crate) fn assert_none(complaints: &[String]) {
    let complaints: BTreeSet<_> = complaints.iter().map(String::as_str).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Fails unless a rule complains about its bad sample exactly so often.
pub(crate) fn assert_seen(times: usize, complaints: &[String]) {
    assert_eq!(complaints.len(), times, "the rule does not see what it is for: {complaints:#?}");
}

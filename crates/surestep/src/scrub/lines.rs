//! Private keys that a JSON text keeps line by line: as the items of lists, or under one key of many objects.

use std::collections::BTreeMap;

use super::Scrubber;
use super::class::{Class, Hit, marked};
use super::json::Walk;

/// A string that stands there, by where it begins, and what becomes of it.
pub(super) type Lines = BTreeMap<usize, String>;

/// Strings of one name, in order.
#[derive(Default)]
struct Group {
    joined: String,
    /// Where each begins in the JSON text, and in `joined`.
    starts: Vec<(usize, usize)>,
}

impl Scrubber {
    /// Each string that is a line of a private key, without that.
    pub(super) fn lines(&self, json: &str) -> Lines {
        let mut lines = Lines::new();
        // The label may be escaped, too.
        if !json.contains("PRIVATE") && !json.contains("\\u") {
            return lines;
        }
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for place in Walk::new(json, false).filter(|place| place.key_of.is_none()) {
            let [name, _] = place.names;
            let group = groups.entry(name).or_default();
            group.starts.push((place.span.start, group.joined.len()));
            group.joined.push_str(&place.text);
            group.joined.push('\n');
        }
        for group in groups.values().filter(|g| g.starts.len() > 1 && g.joined.contains("PRIVATE KEY")) {
            let mut hits = self.hits(group.joined.as_bytes());
            hits.retain(|hit| hit.class == Class::Pem);
            let ends = group.starts.iter().skip(1).map(|(_, at)| *at).chain([group.joined.len()]);
            for ((place, from), next) in group.starts.iter().zip(ends) {
                let (from, to) = (*from, next - 1);
                // What is whole within one string is found there.
                let through = |hit: &&Hit| hit.span.start < to && hit.span.end > from;
                let beyond = |hit: &&Hit| hit.span.start < from || hit.span.end > to;
                let within = hits.iter().filter(through).filter(beyond).map(|hit| Hit {
                    span: hit.span.start.max(from) - from..hit.span.end.min(to) - from,
                    class: hit.class,
                });
                let within: Vec<Hit> = within.collect();
                if !within.is_empty() {
                    let text = group.joined.get(from..to).unwrap_or_default();
                    let text = marked(text.as_bytes(), &within);
                    lines.insert(*place, String::from_utf8_lossy(&text).into_owned());
                }
            }
        }
        lines
    }
}

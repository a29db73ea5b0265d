//! Reading the file: every key is known, every value has its type, or nothing is taken. All problems are found at once,
//! each with its line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use surestep::Kind;
use surestep::core::limits::{DEADLINE_MAX_MS, LAG_MAX_MS};
use surestep::core::plan::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, KindTerms, SECRET_PREFIX_DEFAULT, Secrets};
use crate::duration;
use crate::fail::Fail;
use crate::text::{self, tick};

/// The keys of the file itself.
const KEYS: &[&str] =
    &["store", "allow_volatile", "retention", "state_dir", "allow", "approval", "kinds", "secrets"];
/// The keys below a kind.
const KIND_KEYS: &[&str] = &["lag_s", "deadline_s", "attempts"];
/// The keys of `[secrets]`.
const SECRET_KEYS: &[&str] = &["source", "prefix", "dir", "command"];

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    line: usize,
    code: &'static str,
    what: String,
    hint: Option<String>,
}

/// Reads the text of a file that stands in a folder.
pub(super) fn read(text: &str, dir: &Path, kinds: &[String]) -> Result<Config, Vec<Problem>> {
    let mut reader = Reader { text, dir, kinds, problems: Vec::new() };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(e) => {
            let at = e.span().map_or(0, |span| span.start);
            reader.problem("SE0120", at, format!("it is not TOML: {}", text::line(e.message())), None);
            return Err(reader.problems);
        }
    };
    let config = reader.config(table.get_ref());
    reader.problems.sort_by_key(|p| p.line);
    if reader.problems.is_empty() { Ok(config) } else { Err(reader.problems) }
}

/// What is said about a file with problems: the first one, and all others after it.
pub(super) fn fail(path: &Path, problems: &[Problem], again: &str) -> Fail {
    let file = text::line(&path.to_string_lossy());
    let Some((first, others)) = problems.split_first() else {
        return Fail::usage("SE0120", format!("the configuration {} is not usable", tick(&file)));
    };
    let mut fail = Fail::usage(first.code, format!("{file}:{}: {}", first.line, first.what));
    fail = fail.whys(first.hint.clone());
    for other in others {
        let hint = other.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
        fail = fail.why(format!("line {}: {}{hint}", other.line, other.what));
    }
    fail.state("no setting of the file was used, and nothing was read or started")
        .next_if(format!("surestep explain code {}", first.code), "every key, its type and its default")
        .next_if(again, format!("after correcting line {} of {file}", first.line))
}

struct Reader<'t> {
    text: &'t str,
    dir: &'t Path,
    kinds: &'t [String],
    problems: Vec<Problem>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Reader<'_> {
    fn config(&mut self, table: &DeTable<'_>) -> Config {
        let mut config = Config::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "store" => config.store = self.path(value, "store"),
                "allow_volatile" => config.allow_volatile = self.boolean(value, "allow_volatile"),
                "retention" => {
                    config.retention_ms = self.duration(value, "retention").unwrap_or(config.retention_ms);
                }
                "state_dir" => config.state_dir = self.path(value, "state_dir"),
                "allow" => config.allow = self.kind_list(value, "allow"),
                "approval" => config.approval = self.kind_list(value, "approval"),
                "kinds" => self.kind_terms(value, &mut config),
                "secrets" => config.secrets = self.secrets(value),
                _ => self.unknown(key, "", KEYS),
            }
        }
        config
    }

    /// `[allow]` and `[approval]`: one list of kinds each.
    fn kind_list(&mut self, value: &Value<'_>, path: &str) -> BTreeSet<Kind> {
        let Some(table) = self.table(value, path) else { return BTreeSet::new() };
        let mut kinds = BTreeSet::new();
        for (key, value) in table {
            if key.get_ref() == "kinds" {
                for (name, at) in self.strings(value, &format!("{path}.kinds")) {
                    kinds.extend(self.kind(&name, at, path));
                }
            } else {
                self.unknown(key, path, &["kinds"]);
            }
        }
        kinds
    }

    fn kind_terms(&mut self, value: &Value<'_>, config: &mut Config) {
        let Some(table) = self.table(value, "kinds") else { return };
        for (name, value) in table {
            let Some(kind) = self.kind(name.get_ref(), name.span().start, "kinds") else { continue };
            let path = format!("kinds.\"{kind}\"");
            let Some(table) = self.table(value, &path) else { continue };
            let mut terms = KindTerms::default();
            for (key, value) in table {
                let path = format!("{path}.{}", key.get_ref());
                match key.get_ref().as_ref() {
                    "lag_s" => terms.lag_ms = self.seconds(value, &path, 0, LAG_MAX_MS),
                    "deadline_s" => terms.deadline_ms = self.seconds(value, &path, 1, DEADLINE_MAX_MS),
                    "attempts" => {
                        let n = self.number(value, &path, 1, u64::from(u32::MAX));
                        terms.attempts = n.and_then(|n| u32::try_from(n).ok());
                    }
                    _ => self.unknown(key, &format!("kinds.\"{kind}\""), KIND_KEYS),
                }
            }
            config.kinds.insert(kind, terms);
        }
    }

    fn secrets(&mut self, value: &Value<'_>) -> Secrets {
        let default = || Secrets::Env { prefix: SECRET_PREFIX_DEFAULT.into() };
        let Some(table) = self.table(value, "secrets") else { return default() };
        let (mut source, mut prefix, mut dir, mut command) = ("env".to_owned(), None, None, None);
        let mut places = Vec::new();
        let mut source_at = value.span().start;
        for (key, value) in table {
            let at = key.span().start;
            let name = key.get_ref().as_ref();
            match name {
                "source" => {
                    source_at = at;
                    source = self.string(value, "secrets.source").unwrap_or_default();
                }
                "prefix" => prefix = self.string(value, "secrets.prefix"),
                "dir" => dir = self.path(value, "secrets.dir"),
                "command" => {
                    let words = self.strings(value, "secrets.command").into_iter().map(|(word, _)| word);
                    command = Some(words.collect::<Vec<_>>());
                }
                _ => {
                    self.unknown(key, "secrets", SECRET_KEYS);
                    if let Some(last) = self.problems.last_mut().filter(|last| last.hint.is_none()) {
                        last.hint =
                            Some("no secret stands in this file: it says where they come from".into());
                    }
                }
            }
            places.push((name.to_owned(), at));
        }
        let (mine, secrets) = match source.as_str() {
            "env" => (
                "prefix",
                Some(Secrets::Env { prefix: prefix.unwrap_or_else(|| SECRET_PREFIX_DEFAULT.into()) }),
            ),
            "file" => ("dir", dir.map(|dir| Secrets::File { dir })),
            "command" => {
                ("command", command.filter(|c| !c.is_empty()).map(|command| Secrets::Command { command }))
            }
            "" => return default(), // its type was refused already
            other => {
                let what = format!("`secrets.source` is {}", tick(other));
                self.problem("SE0122", source_at, what, Some("it is `env`, `file` or `command`".into()));
                return default();
            }
        };
        for (name, at) in places.iter().filter(|(name, _)| SECRET_KEYS.contains(&name.as_str())) {
            if name != "source" && name != mine {
                let what = format!("`secrets.{name}` does not go with `source = \"{source}\"`");
                self.problem("SE0122", *at, what, Some(format!("it takes `{mine}`")));
            }
        }
        secrets.unwrap_or_else(|| {
            if !places.iter().any(|(name, _)| name == mine) {
                let what = format!("`source = \"{source}\"` needs `secrets.{mine}`");
                self.problem("SE0122", source_at, what, None);
            } else if mine == "command" && self.problems.is_empty() {
                self.problem("SE0122", source_at, "`secrets.command` is empty".into(), None);
            }
            default()
        })
    }

    fn kind(&mut self, name: &str, at: usize, path: &str) -> Option<Kind> {
        let known: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        if known.contains(&name) {
            return Kind::new(name).ok();
        }
        let hint = match nearest(name, &known) {
            Some(near) => format!("did you mean {}?", tick(&near)),
            None => format!("known are: {}", known.join(", ")),
        };
        self.problem("SE0122", at, format!("there is no kind {} (in `{path}`)", tick(name)), Some(hint));
        None
    }

    fn unknown(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, path: &str, known: &[&str]) {
        let place = if path.is_empty() { String::new() } else { format!(" in `[{path}]`") };
        let hint = match nearest(key.get_ref(), known) {
            Some(near) => Some(format!("did you mean {}?", tick(&near))),
            None if path == "secrets" => None,
            None => Some(format!("known are: {}", known.join(", "))),
        };
        let what = format!("unknown key {}{place}", tick(key.get_ref()));
        self.problem("SE0121", key.span().start, what, hint);
    }

    fn problem(&mut self, code: &'static str, at: usize, what: String, hint: Option<String>) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        self.problems.push(Problem { line, code, what, hint });
    }

    fn wrong(&mut self, value: &Value<'_>, path: &str, expected: &str) {
        let found = value.get_ref().type_str();
        self.problem(
            "SE0122",
            value.span().start,
            format!("`{path}` is a value of type {found}"),
            Some(format!("it takes {expected}")),
        );
    }

    fn table<'v, 'i>(&mut self, value: &'v Value<'i>, path: &str) -> Option<&'v DeTable<'i>> {
        if let DeValue::Table(table) = value.get_ref() {
            return Some(table);
        }
        self.wrong(value, path, &format!("a table, `[{path}]`"));
        None
    }

    fn boolean(&mut self, value: &Value<'_>, path: &str) -> bool {
        if let DeValue::Boolean(boolean) = value.get_ref() {
            return *boolean;
        }
        self.wrong(value, path, "`true` or `false`");
        false
    }

    fn string(&mut self, value: &Value<'_>, path: &str) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) if !text.contains('\0') => Some(text.clone().into_owned()),
            DeValue::String(_) => {
                self.problem("SE0122", value.span().start, format!("`{path}` holds a NUL"), None);
                None
            }
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => {
                self.wrong(value, path, "a text in quotes");
                None
            }
        }
    }

    /// A path; a relative one is read against the file's own folder.
    fn path(&mut self, value: &Value<'_>, path: &str) -> Option<PathBuf> {
        let given = self.string(value, path)?;
        if given.is_empty() {
            self.problem("SE0122", value.span().start, format!("`{path}` is empty"), None);
            return None;
        }
        Some(self.dir.join(given))
    }

    fn strings(&mut self, value: &Value<'_>, path: &str) -> Vec<(String, usize)> {
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong(value, path, "a list of texts, like `[\"shell\"]`");
            return Vec::new();
        };
        let mut strings = Vec::new();
        for value in array.iter() {
            strings.extend(self.string(value, path).map(|text| (text, value.span().start)));
        }
        strings
    }

    fn number(&mut self, value: &Value<'_>, path: &str, min: u64, max: u64) -> Option<u64> {
        let DeValue::Integer(number) = value.get_ref() else {
            self.wrong(value, path, "a whole number");
            return None;
        };
        let read = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let fits = read.filter(|n| (min..=max).contains(n));
        if fits.is_none() {
            let what = format!("`{path}` is {number}");
            self.problem("SE0122", value.span().start, what, Some(format!("it takes {min} to {max}")));
        }
        fits
    }

    fn seconds(&mut self, value: &Value<'_>, path: &str, min: u64, max_ms: u64) -> Option<u64> {
        self.number(value, path, min, max_ms / 1_000).map(|s| s.saturating_mul(1_000))
    }

    fn duration(&mut self, value: &Value<'_>, path: &str) -> Option<u64> {
        let given = self.string(value, path)?;
        match duration::parse(&given) {
            Ok(duration) => u64::try_from(duration.as_millis()).ok(),
            Err(why) => {
                let what = format!("`{path}` is {}", tick(&given));
                self.problem("SE0122", value.span().start, what, Some(why));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;

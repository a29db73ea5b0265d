//! `doctor`: what this machine, this store and these settings are, and what of it puts a turn at risk.
//!
//! It only looks: it makes no store, no folder and no file. Each line is *ok*, a *warning* (it works, and something is
//! lost or weaker) or a *problem* (commands are refused, or cannot work), the latter two with what to do. What is looked
//! at stands in `system` (this machine) and `place` (the store and its file system).

mod mounts;
mod place;
mod system;

use serde::Serialize;
use surestep::{Kind, exit};

use crate::config::{Config, Found, KindTerms, Secrets};
use crate::context::Context;
use crate::fail::Fail;
use crate::out::Ink;
use crate::run::first_of;
use crate::text::{self, line, tick};

/// What one look found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Check {
    name: &'static str,
    level: Level,
    what: String,
    next: Vec<String>,
    /// The exit code of a problem.
    #[serde(skip)]
    exit: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warning,
    Problem,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DoctorObject<'a> {
    schema: &'static str,
    exit: u8,
    version: &'static str,
    checks: &'a [Check],
    settings: SettingsView<'a>,
}

/// What holds for this command line, wherever it comes from.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SettingsView<'a> {
    file: Option<String>,
    found: Option<Found>,
    store: String,
    allow_volatile: bool,
    retention_ms: u64,
    state_dir: Option<String>,
    allow: Vec<&'a Kind>,
    approval: Vec<&'a Kind>,
    kinds: std::collections::BTreeMap<&'a Kind, KindTerms>,
    secrets: &'a Secrets,
}

impl Check {
    fn new(name: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { name, level, what: what.into(), next: vec![], exit: exit::DONE }
    }

    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Level::Ok, what)
    }

    fn warning(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Level::Warning, what)
    }

    fn problem(name: &'static str, exit: u8, what: impl Into<String>) -> Self {
        Self { exit, ..Self::new(name, Level::Problem, what) }
    }

    /// A problem that a command would be refused with.
    fn of(name: &'static str, fail: Fail) -> Self {
        let why = fail.why.iter().map(|why| format!("; {why}")).collect::<String>();
        let check = Self::problem(name, fail.exit, format!("{}: {}{why}", fail.code, fail.what));
        Self { next: fail.next.into_iter().map(|next| next.command).collect(), ..check }
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }
}

/// `doctor`. `refused`: why the settings could not be read.
pub(crate) async fn doctor(cx: &Context, refused: Option<&Fail>) -> Result<u8, Fail> {
    let mut checks = vec![settings(&cx.config, refused)];
    checks.extend(place::checks(cx).await);
    checks.extend(system::checks(cx));
    let codes: Vec<u8> = checks.iter().map(|check| check.exit).filter(|code| *code != exit::DONE).collect();
    let code = if codes.is_empty() { exit::DONE } else { first_of(&codes) };
    for check in &checks {
        put(cx, check);
    }
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    cx.out.put(&format!("{}, {}", text::count(problems, "problem"), text::count(warnings, "warning")));
    let settings = view(cx);
    cx.out.object(&DoctorObject {
        schema: "surestep.doctor/1",
        exit: code,
        version: env!("CARGO_PKG_VERSION"),
        checks: &checks,
        settings,
    });
    Ok(code)
}

fn put(cx: &Context, check: &Check) {
    let (word, ink) = match check.level {
        Level::Ok => ("ok", Ink::Good),
        Level::Warning => ("warning", Ink::Doubt),
        Level::Problem => ("problem", Ink::Error),
    };
    let word = cx.out.ink(ink, &text::pad(word, 9));
    cx.out.put(&format!("{word}{}{}", text::pad(check.name, 13), line(&check.what)));
    for next in &check.next {
        cx.out.put(&format!("{}{}{next}", text::pad("", 9), text::pad("next:", 13)));
    }
}

fn settings(config: &Config, refused: Option<&Fail>) -> Check {
    if let Some(fail) = refused {
        let mut fail = fail.clone();
        // The way to find out what is wrong is this command.
        fail.next.retain(|next| next.command.starts_with("surestep explain"));
        return Check::of("settings", fail);
    }
    match &config.file {
        None => Check::ok("settings", "no surestep.toml was found: the defaults hold"),
        Some((path, found)) => {
            let how = match found {
                Found::Option => "named by --config",
                Found::Environment => "named by SURESTEP_CONFIG",
                Found::Folder => "found from the current folder",
            };
            Check::ok("settings", format!("{}, {how}", tick(&path.to_string_lossy())))
        }
    }
}

fn view(cx: &Context) -> SettingsView<'_> {
    let config = &cx.config;
    let shown = |path: &std::path::Path| path.to_string_lossy().into_owned();
    SettingsView {
        file: config.file.as_ref().map(|(path, _)| shown(path)),
        found: config.file.as_ref().map(|(_, found)| *found),
        store: shown(&cx.store),
        allow_volatile: cx.allow_volatile,
        retention_ms: config.retention_ms,
        state_dir: config.state_dir().as_deref().map(shown),
        allow: config.allow.iter().collect(),
        approval: config.approval.iter().collect(),
        kinds: config.kinds.iter().map(|(kind, terms)| (kind, *terms)).collect(),
        secrets: &config.secrets,
    }
}

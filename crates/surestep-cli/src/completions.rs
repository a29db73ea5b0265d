//! `completions` and `man`: made from the same definition as `--help`. What is hidden there is not in them.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use serde::Serialize;
use surestep::exit;

use crate::args::Cli;
use crate::context::Context;
use crate::fail::Fail;
use crate::text::{self, tick};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CompletionsObject {
    schema: &'static str,
    shell: String,
    text: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManObject {
    schema: &'static str,
    /// The files that were written; empty where the page is in `text`.
    files: Vec<String>,
    text: Option<String>,
}

/// `completions SHELL`.
pub(crate) fn completions(cx: &Context, shell: clap_complete::Shell) -> Result<u8, Fail> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(&Cli::command()), "surestep", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    cx.out.put(text.trim_end());
    cx.out.object(&CompletionsObject { schema: "surestep.completions/1", shell: shell.to_string(), text });
    Ok(exit::DONE)
}

/// `man [--dir DIR]`.
pub(crate) fn man(cx: &Context, dir: Option<&Path>) -> Result<u8, Fail> {
    let Some(dir) = dir else {
        let text = page("surestep", Cli::command())?;
        cx.out.put(text.trim_end());
        cx.out.object(&ManObject { schema: "surestep.man/1", files: vec![], text: Some(text) });
        return Ok(exit::DONE);
    };
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut files = Vec::new();
    for (name, command) in pages(&command, "surestep") {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page(&name, command)?).map_err(|e| {
            Fail::new(
                "SE0108",
                exit::UNEXPECTED,
                format!("{} cannot be written", tick(&path.to_string_lossy())),
            )
            .why(text::line(&e.to_string()))
            .state(format!("{} before it were written", text::count(files.len(), "page")))
            .next_if(cx.again.clone(), "once the folder is there and can be written to")
        })?;
        files.push(path.to_string_lossy().into_owned());
    }
    for file in &files {
        cx.out.put(&text::line(file));
    }
    cx.out.object(&ManObject { schema: "surestep.man/1", files, text: None });
    Ok(exit::DONE)
}

/// A command and those below it, each with the name of its page.
fn pages(command: &Command, name: &str) -> Vec<(String, Command)> {
    let mut all = vec![(name.to_owned(), command.clone())];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(pages(below, &format!("{name}-{}", below.get_name())));
    }
    all
}

fn page(name: &str, command: Command) -> Result<String, Fail> {
    let mut page = Vec::new();
    let command = command.display_name(name.to_owned());
    clap_mangen::Man::new(command).title(name.to_uppercase()).render(&mut page).map_err(|e| {
        crate::fails::bug(Fail::new("SE0001", exit::UNEXPECTED, format!("BUG: a page cannot be made: {e}")))
    })?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// The same command without its hidden arguments and commands, which the completions would offer.
fn visible(command: &Command) -> Command {
    let mut seen = Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    seen = seen.args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned());
    let is_seen = |id: &clap::Id| command.get_arguments().any(|arg| arg.get_id() == id && !arg.is_hide_set());
    seen = seen.groups(command.get_groups().filter(|group| group.get_args().all(is_seen)).cloned());
    seen.subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()).map(visible))
}

//! The `surestep` command: durable agent turns on the command line.
//!
//! stdout is data, stderr is talk. One file per group of commands; what a person reads after anything but success is a
//! [`fail::Fail`], made in `fails` (errors) and `rests` (where a turn stands). What each command does stands in the README.

#![expect(clippy::result_large_err, reason = "a `Fail` is made once, and ends the command")]

mod args;
mod codes;
mod completions;
mod config;
mod context;
mod demo;
mod doctor;
mod dry;
mod duration;
mod exec;
mod explain;
mod fail;
mod fails;
mod follow;
mod fsck;
mod gc;
mod input;
mod kinds;
mod list;
mod log;
mod matching;
mod moves;
mod offer;
mod out;
mod progress;
mod questions;
mod refusals;
mod resolve;
mod restored;
mod rests;
mod run;
mod schema;
mod show;
mod stop;
mod text;
mod usage;
mod view;
mod when;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser as _;
use surestep::exit;

use crate::args::{Cli, Command};
use crate::config::Config;
use crate::context::Context;
use crate::fail::Fail;
use crate::out::Out;
use crate::stop::Stop;

/// Where the last panic happened.
static PANIC_PLACE: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    // A limit on the size of files is an error of the write that meets it (EFBIG), and no sudden end. What is started
    // gets the system's own meaning back.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    // The guard is this program, started anew: it must not parse arguments, and answers to nobody else.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == kinds::GUARD_ARG) {
        return surestep_effects::guard::guard_main();
    }
    surestep_effects::guard::heed_children();
    std::panic::set_hook(Box::new(|panic| {
        // Only remembered: an effect's panic is the engine's to report, ours is reported below.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        *PANIC_PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }));
    let code = std::panic::catch_unwind(AssertUnwindSafe(start)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let place = PANIC_PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let what = format!("BUG: surestep panicked: {}", text::line(&words));
        fails::bug(Fail::new("SE0001", exit::UNEXPECTED, what).why(format!("at {place}")))
            .say(&Out::new(false, false));
        exit::UNEXPECTED
    });
    ExitCode::from(code)
}

fn start() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::refuse(&error),
    };
    let out = Out::new(cli.global.json, cli.global.quiet);
    let stop = Stop::install(out.clone());
    let (config, refused) = match Config::load(cli.global.config.as_deref(), &context::again()) {
        Ok(config) => (config, None),
        Err(fail) => (Config::default(), Some(fail)),
    };
    if let Some(fail) = refused.as_ref().filter(|_| cli.command.takes_settings()) {
        fail.say(&out);
        fail.object(&out);
        out.flush();
        return fail.exit;
    }
    let cx = Context::new(&cli.global, config, out.clone(), stop);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            Fail::new("SE0502", exit::STORE, "the runtime cannot start")
                .why(e.to_string())
                .state("nothing was started")
                .next(cx.again.clone())
                .say(&out);
            return exit::STORE;
        }
    };
    let code = match runtime.block_on(command(&cx, &cli.command, refused.as_ref())) {
        Ok(code) => code,
        Err(fail) => {
            fail.say(&out);
            fail.object(&out);
            fail.exit
        }
    };
    cx.say_marks_problem();
    out.flush();
    if out.lost_data() && code == exit::DONE {
        Fail::new("SE0108", exit::UNEXPECTED, "the output could not be written to stdout")
            .state("what the command did is done and recorded; only its output is incomplete")
            .next(cx.command(&["list"]))
            .say(&out);
        return exit::UNEXPECTED;
    }
    code
}

async fn command(cx: &Context, command: &Command, refused: Option<&Fail>) -> Result<u8, Fail> {
    match command {
        Command::Run(args) => offer::run(cx, args).await,
        Command::Resume(args) => run::resume(cx, args).await,
        Command::List => list::list(cx).await,
        Command::Show { session } => show::show(cx, session).await,
        Command::Log { session, follow: false } => log::log(cx, session).await,
        Command::Log { session, follow: true } => follow::follow(cx, session).await,
        Command::Questions => questions::questions(cx).await,
        Command::Resolve(args) => resolve::resolve(cx, args).await,
        Command::Approve(args) => resolve::decide(cx, args, true).await,
        Command::Deny(args) => resolve::decide(cx, args, false).await,
        Command::Cancel(args) => resolve::cancel(cx, args).await,
        Command::Explain { what } => explain::explain(cx, what).await,
        Command::Schema { name } => schema::schema(cx, name.as_deref()),
        Command::Exec(args) => exec::exec(cx, args).await,
        Command::Export(args) => moves::export(cx, args).await,
        Command::Import(args) => moves::import(cx, args).await,
        Command::Step(args) => moves::step(cx, args).await,
        Command::Fsck(args) => fsck::fsck(cx, args).await,
        Command::Doctor => doctor::doctor(cx, refused).await,
        Command::Gc(args) => gc::gc(cx, args).await,
        Command::Demo(args) => demo::demo(cx, args).await,
        Command::Completions { shell } => completions::completions(cx, *shell),
        Command::Man { dir } => completions::man(cx, dir.as_deref()),
    }
}

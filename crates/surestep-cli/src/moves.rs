//! `export`, `import` and `step -`: a session's envelope as bytes, on its way to another store, machine or language.
//!
//! What comes in may be a stranger's: it runs only the kinds that were allowed by name.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use surestep::{Corrupt, Engine, Envelope, Kind, PlanError, Rest, SessionId, StepError, exit};

use crate::args;
use crate::context::{Context, Store};
use crate::fail::Fail;
use crate::text::{self, count, line, tick};
use crate::view::SessionView;
use crate::{fails, input, rests, show};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ExportObject<'a> {
    schema: &'static str,
    exit: u8,
    session: &'a str,
    /// The store that the session was handed off to; null for a copy to look at.
    handed_off: Option<&'a str>,
    dry_run: bool,
    revision: u64,
    bytes: usize,
    /// Where it was written; null for stdout.
    file: Option<&'a str>,
}

/// `export SESSION`.
pub(crate) async fn export(cx: &Context, args: &args::Export) -> Result<u8, Fail> {
    let engine = cx.engine(if args.dry_run { Store::Read } else { Store::MustExist }, None)?;
    let id = cx.session(&args.session)?;
    let failed = |e: StepError| fails::of_step(cx, &e, &id);
    let to = args.hand_off.as_deref();
    if let Some(to) = to {
        store_id(cx, &engine, to)?;
    }
    let read = || async { engine.read(&id).await.map(Envelope::for_reading).map_err(failed) };
    let envelope = match to {
        Some(to) if !args.dry_run => engine.hand_off(&id, to).await.map_err(failed)?,
        Some(_) | None => read().await?,
    };
    let text = document(&id, &envelope)?;
    if args.dry_run {
        if let Some(open) = envelope.session().operations.iter().find(|o| o.state.is_open()) {
            cx.out.put(&format!(
                "operation {} may have landed: it is looked up first, or must be answered",
                open.number
            ));
        }
        cx.out.put(&match to {
            Some(to) => {
                format!("would hand {} off to store {to}: nothing more would run here", tick(id.as_str()))
            }
            None => format!("would write a copy of {} to look at ({} bytes)", tick(id.as_str()), text.len()),
        });
        cx.out.put(crate::dry::NOTHING);
    } else if let Some(file) = &args.output {
        write_file(cx, file, &text, to.is_some())?;
        let what = if to.is_some() { "the session itself" } else { "a copy to look at" };
        cx.out.put(&format!("wrote {what} to {} ({} bytes)", tick(&file.to_string_lossy()), text.len()));
    } else {
        cx.out.document(&text);
    }
    if let (Some(to), false) = (to, args.dry_run) {
        cx.out.note(&format!(
            "surestep: {} lives in store {to} once that has taken it in: `surestep import {}` there; until then it runs nowhere",
            line(id.as_str()),
            args.output.as_ref().map_or("FILE".into(), |file| text::word(&file.to_string_lossy()))
        ));
    }
    if args.output.is_some() || args.dry_run {
        cx.out.object(&ExportObject {
            schema: "surestep.export/1",
            exit: exit::DONE,
            session: id.as_str(),
            handed_off: to,
            dry_run: args.dry_run,
            revision: envelope.session().revision.value(),
            bytes: text.len(),
            file: args.output.as_deref().and_then(Path::to_str),
        });
    }
    Ok(exit::DONE)
}

/// `import FILE`.
pub(crate) async fn import(cx: &Context, args: &args::Import) -> Result<u8, Fail> {
    let envelope = read_envelope(cx, &args.file)?;
    let id = envelope.session().id.clone();
    let allow = allowed(cx, &args.allow)?;
    let makes_store = !args.dry_run && cx.looking_from_outside(allow.clone())?.1;
    let engine = cx.engine_from_outside(if args.dry_run { Store::Read } else { Store::Create }, allow)?;
    if args.dry_run {
        engine.may_take_in(&envelope).await.map_err(|e| refused(cx, &engine, &e, &id))?;
        let unsettled = envelope.session().operations.iter().filter(|o| !o.state.is_settled()).count();
        cx.out.put(&format!(
            "would take {} in, with {} to go",
            tick(id.as_str()),
            count(unsettled, "operation")
        ));
        cx.out.put(crate::dry::NOTHING);
        cx.out.object(&SessionView::new(
            "surestep.import/1",
            &envelope,
            &envelope.standing(&engine.now()),
            exit::DONE,
        ));
        return Ok(exit::DONE);
    }
    let step = engine.take_in(&envelope).await.map_err(|e| {
        let fail = refused(cx, &engine, &e, &id);
        let made = format!("an empty store was made here; its id is {}", engine.store().id());
        if makes_store { fail.state(made) } else { fail }
    })?;
    cx.out.object(&SessionView::new("surestep.import/1", &step.envelope, &step.rest, exit::DONE));
    cx.out.put(&format!("{} is here: nothing was started", tick(id.as_str())));
    show::summary(cx, &step.envelope);
    if !matches!(step.rest, Rest::Finished(_) | Rest::HandedOff { .. }) {
        cx.out.put(&format!("to go on: {}", cx.command(&["resume", id.as_str(), "--wait"])));
    }
    Ok(exit::DONE)
}

/// `step -`: an envelope on stdin, its next state on stdout.
pub(crate) async fn step(cx: &Context, args: &args::Step) -> Result<u8, Fail> {
    let envelope = read_envelope(cx, &args.file)?;
    let id = envelope.session().id.clone();
    let allow = allowed(cx, &args.allow)?;
    // A plan that is refused makes no store.
    if let (engine, true) = cx.looking_from_outside(allow.clone())?
        && let Some(plan) = envelope.clone().take_plan()
    {
        engine.foresee(&id, Some(&plan)).await.map_err(|e| refused(cx, &engine, &e, &id))?;
    }
    let engine = cx.engine_from_outside(Store::Create, allow)?;
    let step = engine.step(envelope).await.map_err(|e| refused(cx, &engine, &e, &id))?;
    cx.out.document(&document(&id, &step.envelope)?);
    let fail = rests::of(cx, &step.envelope, &step.rest, engine.now().wall);
    if let Some(fail) = &fail {
        fail.say(&cx.out);
    }
    Ok(fail.map_or(exit::DONE, |fail| fail.exit))
}

fn document(id: &SessionId, envelope: &Envelope) -> Result<String, Fail> {
    envelope.to_json().map_err(|e| {
        fails::bug(Fail::new(
            "SE0001",
            exit::UNEXPECTED,
            format!("BUG: the envelope of {id} cannot be written: {e}"),
        ))
    })
}

/// The kinds that the command line and the settings allow.
fn allowed(cx: &Context, given: &[String]) -> Result<Vec<Kind>, Fail> {
    let kind = |name: &String| {
        Kind::new(name.as_str()).map_err(|e| {
            Fail::usage("SE0101", format!("{} is no kind: {e}", tick(name)))
                .state("nothing was read or started")
                .next("surestep explain kind shell")
        })
    };
    given.iter().map(kind).chain(cx.config.allow.iter().cloned().map(Ok)).collect()
}

/// A store's id, as `surestep doctor` prints it.
fn store_id(cx: &Context, engine: &Engine, to: &str) -> Result<(), Fail> {
    // A session that goes to an id which is no store's is stranded for good.
    let plain = to.len() == 32 && to.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if plain && to != engine.store().id() {
        return Ok(());
    }
    let what = if plain {
        format!("{} is this store: a session is handed off to another one", tick(to))
    } else {
        format!("{} is no store's id: those are 32 hex digits", tick(to))
    };
    Err(Fail::usage("SE0101", what)
        .why("a session moves to exactly one store, named by the id that `surestep doctor` prints there")
        .state("nothing was recorded or written")
        .next_if("surestep doctor", "at the store that is to have it: prints its id")
        .next_if(cx.command(&["export", "SESSION"]), "for a copy to look at"))
}

fn refused(cx: &Context, engine: &Engine, error: &StepError, id: &SessionId) -> Fail {
    let fail = fails::of_step(cx, error, id);
    if matches!(error, StepError::NotHandedOff { .. } | StepError::ReadOnly { .. }) {
        let (session, file) = (text::word(id.as_str()), text::word(&format!("{id}.json")));
        let export = ["surestep export", &session, "--hand-off", engine.store().id(), "-o", &file];
        return Fail { next: vec![], ..fail }
            .next_if(export.join(" "), "at the store that has it; then import that file here");
    }
    if let StepError::Plan(PlanError::NotAllowed { kind, .. }) = error {
        let again = cx.again_with(&format!("--allow {}", text::word(kind.as_str())));
        return Fail { next: vec![], ..fail }
            .next_if(again, "if you know what it would do, and trust who sent it");
    }
    fail
}

/// Reads an envelope from a file or stdin.
fn read_envelope(cx: &Context, file: &str) -> Result<Envelope, Fail> {
    let nothing = "nothing was written or started";
    match input::read(file, input::ENVELOPE_BYTES_MAX) {
        Ok(bytes) => Envelope::parse(&bytes).map_err(|e| of_envelope(file, &e)),
        Err(e) => Err(Fail::usage("SE0103", format!("the envelope {} cannot be read", tick(file)))
            .why(line(&e.to_string()))
            .state(nothing)
            .next_if(cx.again.clone(), "with the path of an envelope, or `-` for stdin")),
    }
}

/// A damaged or newer envelope.
fn of_envelope(file: &str, error: &Corrupt) -> Fail {
    let nothing = "nothing was written or started; the envelope is as it was";
    let why = line(&error.to_string());
    if matches!(error, Corrupt::TooNew { .. }) {
        return Fail::new(
            "SE0701",
            exit::VERSION,
            format!("{} was written by a newer version of surestep", tick(file)),
        )
        .why(why)
        .state(nothing)
        .next_if("surestep --version", "then install a version that can read it");
    }
    Fail::new("SE0601", exit::INTEGRITY, format!("{} is not a whole envelope", tick(file)))
        .why(why)
        .state(nothing)
        .next_if("surestep explain code SE0601", "what to do, and what not to do")
        .next_if("surestep export SESSION", "at its store writes it anew; pass it on as bytes")
}

/// Writes the envelope, whole or not at all, readable by its owner only.
fn write_file(cx: &Context, file: &Path, text: &str, handed_off: bool) -> Result<(), Fail> {
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let written = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder).and_then(|mut temp| {
        temp.write_all(text.as_bytes())?;
        temp.write_all(b"\n")?;
        temp.as_file().sync_all()?;
        temp.persist(file).map_err(|e| e.error)?;
        std::fs::File::open(folder)?.sync_all()
    });
    written.map_err(|e| {
        let fail = Fail::new("SE0502", exit::STORE, format!("cannot write {}", tick(&file.to_string_lossy())))
            .why(line(&e.to_string()));
        if handed_off {
            fail.state("the session is handed off, and its envelope is safe in this store: asking again writes the same bytes")
                .next(cx.again.clone())
        } else {
            fail.state("nothing was changed").next(cx.again.clone())
        }
    })
}

//! `fsck --restored` and `fsck --forget`: going on after an older copy of the store was put back, or after the store
//! was removed. And how the commands that only show do so all the same.

use serde::Serialize;
use surestep::{Digest, Engine, Envelope, Epoch, Revision, SessionId, StepError, StoreError, exit};
use surestep_file::FileStore;

use crate::args;
use crate::context::Context;
use crate::fail::Fail;
use crate::fails;
use crate::run::all_sessions;
use crate::text::{self, line, tick};

/// `surestep.restored/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RestoredObject {
    schema: &'static str,
    exit: u8,
    dry_run: bool,
    sessions: Vec<RestoredView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RestoredView {
    session: String,
    found: u64,
    once: u64,
}

/// `surestep.forget/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ForgetObject<'a> {
    schema: &'static str,
    exit: u8,
    store: &'a str,
    sessions: usize,
    forgotten: bool,
}

/// `fsck --restored` and `fsck --forget`.
pub(crate) async fn fsck(cx: &Context, args: &args::Fsck) -> Result<u8, Fail> {
    match &args.forget {
        Some(id) => forget(cx, id.as_deref(), args.dry_run),
        None => restored(cx, args.session.as_deref(), args.dry_run).await,
    }
}

async fn restored(cx: &Context, session: Option<&str>, dry_run: bool) -> Result<u8, Fail> {
    let gone = cx.options().find_gone(&cx.store).map_err(|e| fails::of_store(cx, &e, None))?;
    if let (Some(gone), true) = (&gone, dry_run) {
        cx.out.put(&format!(
            "would make store {} anew, with {}, each of them in doubt",
            gone.store,
            text::count(gone.sessions, "session")
        ));
        return Ok(said(cx, vec![], true));
    }
    let options = if dry_run { cx.options().read_only(true) } else { cx.options().create(gone.is_some()) };
    let store = cx.open(options.even_rolled_back(true))?;
    let engine = cx.engine_over(store.clone(), None)?;
    let sessions = match session {
        Some(session) => vec![cx.session(session)?],
        None => behind(cx, &store)?,
    };
    let all = session.is_none();
    let mut views = Vec::new();
    for id in sessions {
        let session = match at_home(cx, &store, id)? {
            Ok(session) => session,
            Err(fail) if all => {
                fail.say(&cx.out);
                continue;
            }
            Err(fail) => return Err(fail),
        };
        let (found, once, known) = standing(cx, &engine, &store, &session).await?;
        if !dry_run {
            let noted = engine.restore(&session, (once.0, once.1, once.2)).await;
            noted.map_err(|e| fails::of_step(cx, &e, &session))?;
        }
        let place = match (known, found < once.0) {
            (true, true) => format!("at revision {found}, was once at {}", once.0),
            (true, false) => format!("at revision {found}, but not at the commit that it once had there"),
            (false, _) => format!("at revision {found}; how far it once was is not known here"),
        };
        let now = if dry_run { "would be in doubt" } else { "is in doubt now" };
        cx.out.put(&format!("{}: {place}: what is not settled {now}", line(session.as_str())));
        views.push(RestoredView { session: session.to_string(), found: found.value(), once: once.0.value() });
    }
    if views.is_empty() {
        cx.out.note("surestep: no session is behind what it once was; nothing was changed");
    } else {
        cx.out.note(&format!(
            "surestep: {} then looks for what may have run, or asks",
            tick(&cx.command(&["resume", "--all", "--wait"]))
        ));
    }
    for view in views.iter().filter(|view| view.found == 0) {
        cx.out.note(&format!(
            "surestep: the plan of {} is lost with its journal: {} offers it again, and looks or asks before it runs",
            tick(&view.session),
            tick(&cx.command(&["run", "PLAN", "--session", &view.session]))
        ));
    }
    Ok(said(cx, views, dry_run))
}

fn said(cx: &Context, sessions: Vec<RestoredView>, dry_run: bool) -> u8 {
    if dry_run {
        cx.out.put(crate::dry::NOTHING);
    }
    cx.out.object(&RestoredObject { schema: "surestep.restored/1", exit: exit::DONE, dry_run, sessions });
    exit::DONE
}

/// Refuses a session whose lost commits handed it off: it lives elsewhere, and must not go on here as well.
fn at_home(cx: &Context, store: &FileStore, session: SessionId) -> Result<Result<SessionId, Fail>, Fail> {
    let behind = store.rolled_back(&session).map_err(|e| fails::of_store(cx, &e, Some(&session)))?;
    let Some(to) = behind.and_then(|behind| behind.mark.handed_off) else { return Ok(Ok(session)) };
    let id = session.as_str();
    let what = format!(
        "session {} was handed off to store {}, and an older copy of it is here",
        tick(id),
        tick(&to)
    );
    Ok(Err(Fail::new("SE0416", exit::HELD, what)
        .why("the commits that are lost here handed it off: it may be running where it went")
        .state("nothing was changed; the older copy stays as it is, and is never run")
        .next_if(cx.command(&["show", id]), "what it did before that copy was made")))
}

/// The sessions that are behind their marks, of those that can be read.
pub(crate) fn behind(cx: &Context, store: &FileStore) -> Result<Vec<SessionId>, Fail> {
    let mut behind = Vec::new();
    for session in store.marked() {
        match store.rolled_back(&session) {
            Ok(Some(_)) => behind.push(session),
            // A damaged session hides no other one: reading it says what is wrong.
            Ok(None)
            | Err(StoreError::Corrupt { .. } | StoreError::TooNew { .. } | StoreError::Pruned { .. }) => {}
            Err(error) => return Err(fails::of_store(cx, &error, Some(&session))),
        }
    }
    Ok(behind)
}

/// Where a session stands, where it once stood, and whether a mark says so. Where no mark is known (another machine), a
/// person's word that there was more is enough.
async fn standing(
    cx: &Context,
    engine: &Engine,
    store: &FileStore,
    session: &SessionId,
) -> Result<(Revision, (Revision, Epoch, Option<Digest>), bool), Fail> {
    let refuse = |e: &StepError| fails::of_step(cx, e, session);
    let behind = store.rolled_back(session).map_err(|e| fails::of_store(cx, &e, Some(session)))?;
    Ok(match behind {
        Some(behind) => {
            let mark = behind.mark;
            (behind.found, (mark.revision, mark.epoch, Some(mark.head)), true)
        }
        None => {
            let envelope = engine.read(session).await.map_err(|e| refuse(&e))?;
            let revision = envelope.session().revision;
            (revision, (revision, envelope.session().epoch, None), false)
        }
    })
}

fn forget(cx: &Context, id: Option<&str>, dry_run: bool) -> Result<u8, Fail> {
    let gone = cx.options().find_gone(&cx.store).map_err(|e| fails::of_store(cx, &e, None))?;
    let shown = tick(&cx.store.to_string_lossy());
    let Some(gone) = gone else {
        let what = format!("no store is missing at {shown}");
        return Err(Fail::usage("SE0606", what)
            .why("only a store that is gone can be forgotten; in one that is there, no session is ever forgotten")
            .state("nothing was changed")
            .next_if(cx.command(&["list"]), "what is there"));
    };
    let sessions = text::count(gone.sessions, "session");
    let apply = cx.command(&["fsck", &format!("--forget={}", gone.store)]);
    match id {
        None => {
            cx.out.put(&format!(
                "store {} was at {}, with {sessions}",
                gone.store,
                line(&gone.root.to_string_lossy())
            ));
            cx.out.put("once it is forgotten, a fresh store can begin here, and every plan that ran in it can run again:");
            cx.out.put("what it sent, paid or pushed would be sent, paid or pushed a second time");
            cx.out.put("if it is not lost, put it back instead; if it is, `fsck --restored` makes it anew and looks first");
            cx.out.note(&format!("surestep: nothing was changed; {} forgets it", tick(&apply)));
        }
        Some(id) if id == gone.store && dry_run => {
            cx.out.put(&format!("would forget that store {} was here, with {sessions}", gone.store));
            cx.out.put(crate::dry::NOTHING);
        }
        Some(id) if id == gone.store => {
            cx.options().forget_gone(&gone).map_err(|e| fails::of_store(cx, &e, None))?;
            cx.out.put(&format!("forgot that store {} was here", gone.store));
        }
        Some(id) => {
            return Err(Fail::usage(
                "SE0606",
                format!("the store that is gone is {}, not {}", gone.store, tick(id)),
            )
            .state("nothing was changed")
            .next_if(cx.command(&["fsck", "--forget"]), "what forgetting it means"));
        }
    }
    cx.out.object(&ForgetObject {
        schema: "surestep.forget/1",
        exit: exit::DONE,
        store: &gone.store,
        sessions: gone.sessions,
        forgotten: id.is_some() && !dry_run,
    });
    Ok(exit::DONE)
}

/// Reads a session to show it, also one that is rolled back; then with what to say about that.
pub(crate) async fn read(
    cx: &Context,
    engine: &Engine,
    session: &SessionId,
) -> Result<(Envelope, Option<Fail>), Fail> {
    let error = match engine.read(session).await {
        Ok(envelope) => return Ok((envelope, None)),
        Err(error) => error,
    };
    let fail = fails::of_step(cx, &error, session);
    if !matches!(error, StepError::Store { source: StoreError::RolledBack { .. }, .. }) {
        return Err(fail);
    }
    let store = cx.open(cx.options().read_only(true).even_rolled_back(true))?;
    match cx.engine_over(store, None)?.read(session).await {
        Ok(envelope) => Ok((envelope, Some(fail))),
        Err(_) => Err(fail),
    }
}

/// Every session of the store, and each one that is known to have been there.
pub(crate) async fn all(cx: &Context, engine: &Engine) -> Result<(Vec<SessionId>, Vec<Fail>), Fail> {
    let (mut all, nameless) = all_sessions(cx, engine).await?;
    let store = cx.open(cx.options().read_only(true))?;
    all.extend(store.vanished().await.map_err(|e| fails::of_store(cx, &e, None))?);
    all.sort();
    all.dedup();
    Ok((all, nameless))
}

//! `fsck`: what is wrong with the store, and what to do about it; with `--repair`, does what can be done.
//!
//! The findings are data, on stdout; what to do next is talk. Whatever is not repaired keeps the exit code of its
//! kind: 8 damaged, 7 newer, 11 not readable, 6 held.

use serde::Serialize;
use surestep::{Clock as _, SessionId, StoreError, SystemClock, exit};
use surestep_file::GoneStore;
use surestep_file::check::{self, Checkup, Finding, Remedy, Severity};
use surestep_file::repair::{self, Repaired};

use crate::args;
use crate::context::Context;
use crate::fail::{Fail, Next};
use crate::out::Ink;
use crate::run::first_of;
use crate::text::{self, line, tick};
use crate::{fails, restored};

/// `surestep.fsck/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FsckObject {
    schema: &'static str,
    exit: u8,
    root: String,
    store: Option<String>,
    sessions: usize,
    commits: u64,
    blobs: usize,
    blobs_unreferenced: usize,
    /// Earlier repairs that lie in the folder `aside`.
    aside: usize,
    findings: Vec<FindingView>,
    repair: Option<RepairView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingView {
    severity: &'static str,
    session: Option<String>,
    file: String,
    offset: Option<usize>,
    what: String,
    next: Option<Next>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RepairView {
    dry_run: bool,
    folder: Option<String>,
    moved: Vec<MovedView>,
    written: Vec<WrittenView>,
    refused: Vec<RefusedView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MovedView {
    session: Option<String>,
    from: String,
    to: Option<String>,
    why: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrittenView {
    session: Option<String>,
    file: String,
    what: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RefusedView {
    session: Option<String>,
    exit: u8,
    why: String,
    next: Option<Next>,
}

/// `fsck`.
pub(crate) async fn fsck(cx: &Context, args: &args::Fsck) -> Result<u8, Fail> {
    if args.restored || args.forget.is_some() {
        return restored::fsck(cx, args).await;
    }
    if let Some(GoneStore { root, store, sessions }) =
        cx.options().find_gone(&cx.store).map_err(|e| fails::of_store(cx, &e, None))?
    {
        return Err(cx.store_fail(&StoreError::Gone { root, store, sessions }));
    }
    let session = args.session.as_deref().map(|given| cx.session(given)).transpose()?;
    // Reading a whole store takes a while, and nothing else runs meanwhile.
    if args.repair {
        let options =
            repair::Options { dry_run: args.dry_run, open: cx.options(), now: SystemClock::default().now() };
        let repaired = repair::repair(&cx.store, session.as_ref(), &options);
        return repaired
            .map_err(|error| refused(cx, &error, session.as_ref()))
            .map(|r| say_repair(cx, &r, args.dry_run));
    }
    let checkup = check::check(&cx.store, session.as_ref(), &cx.options())
        .map_err(|e| refused(cx, &e, session.as_ref()))?;
    let code = first_of(&codes(&checkup));
    say_findings(cx, &checkup);
    object(cx, &checkup, code, None);
    if code == exit::DONE {
        cx.out.note(&format!("surestep: {}: nothing is damaged", counted(&checkup)));
    } else {
        verdict(cx, &checkup, code).say(&cx.out);
    }
    Ok(code)
}

fn refused(cx: &Context, error: &StoreError, session: Option<&SessionId>) -> Fail {
    match session {
        None => cx.store_fail(error),
        Some(_) => fails::of_store(cx, error, session),
    }
}

fn codes(checkup: &Checkup) -> Vec<u8> {
    checkup.findings.iter().map(|f| f.severity.exit_code()).chain([exit::DONE]).collect()
}

fn counted(checkup: &Checkup) -> String {
    format!(
        "{}, {}, {}",
        text::count(checkup.sessions, "session"),
        text::count(usize::try_from(checkup.commits).unwrap_or(usize::MAX), "commit"),
        text::count(checkup.blobs, "piece") + " of content",
    )
}

fn say_findings(cx: &Context, checkup: &Checkup) {
    for finding in &checkup.findings {
        let word = finding.severity.word();
        let ink = if finding.severity == Severity::Note { Ink::Dim } else { Ink::Error };
        let at = finding.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
        cx.out.put(&format!("{} {}{at}", cx.out.ink(ink, word), line(&finding.file.to_string_lossy())));
        cx.out.put(&format!("    {}", line(&finding.what)));
        if let Some(next) = next_of(cx, finding) {
            let when = next.when.map(|when| format!("  # {when}")).unwrap_or_default();
            cx.out.put(&format!("    next: {}{when}", next.command));
        }
    }
    if checkup.blobs_unreferenced > 0 {
        cx.out.note(&format!(
            "surestep: {} that no session names: a run that died may have left them",
            text::count(checkup.blobs_unreferenced, "piece") + " of content"
        ));
    }
}

fn next_of(cx: &Context, finding: &Finding) -> Option<Next> {
    remedy(cx, finding.remedy, finding.session.as_deref(), &finding.file.to_string_lossy())
}

fn remedy(cx: &Context, remedy: Remedy, session: Option<&str>, file: &str) -> Option<Next> {
    let next = |command: String, when: &str| Some(Next { command, when: Some(when.to_owned()) });
    match remedy {
        Remedy::Nothing => None,
        Remedy::Repair => {
            let mut words = vec!["fsck", "--repair"];
            words.extend(session);
            next(cx.command(&words), "moves it aside; deletes nothing")
        }
        Remedy::Restored => {
            let mut words = vec!["fsck", "--restored"];
            words.extend(session);
            next(
                cx.command(&words),
                "notes it in the journal: what may have run is then looked up, or asked about",
            )
        }
        Remedy::Name => next(
            cx.command(&["fsck", "--repair", "SESSION"]),
            "with the session's id, which only you can tell: its folder's name begins like it",
        ),
        Remedy::PutBack => next(
            format!("cp -a BACKUP {}", text::word(file)),
            "the same file from a copy of this store: nothing else can stand in for it",
        ),
        Remedy::NewerVersion => next("surestep --version".into(), "then install a version that can read it"),
        Remedy::Access => next(
            format!("ls -ld {}", text::word(file)),
            "give it back its rights, or copy the store to a disk that can be read",
        ),
    }
}

/// What a check that found something ends with.
fn verdict(cx: &Context, checkup: &Checkup, code: u8) -> Fail {
    let wrong: Vec<&Finding> = checkup.findings.iter().filter(|f| f.severity != Severity::Note).collect();
    let what = format!("{}: not all of this store is as it was written", text::count(wrong.len(), "finding"));
    let stable = match code {
        exit::VERSION => "SE0701",
        exit::STORE => "SE0502",
        _ => "SE0610",
    };
    let fail = Fail::new(stable, code, what).state("nothing was changed: `fsck` only reads");
    let helps = |remedy: Remedy| wrong.iter().any(|f| f.remedy == remedy);
    let fail = if helps(Remedy::Restored) {
        fail.next_if(
            cx.command(&["fsck", "--restored"]),
            "for what was put back or removed, if the newer store is lost",
        )
    } else {
        fail
    };
    let fail = if helps(Remedy::Repair) {
        fail.next_if(cx.command(&["fsck", "--repair", "--dry-run"]), "says what a repair would move")
            .next_if(cx.command(&["fsck", "--repair"]), "moves it aside, after you copied the store")
    } else {
        fail.next_if("surestep explain code SE0610", "what to do, and what not to do")
    };
    fail.next_if(cx.command(&["list"]), "sessions without a finding are not affected")
}

fn say_repair(cx: &Context, repaired: &Repaired, dry_run: bool) -> u8 {
    let after = &repaired.after;
    let left: Vec<&Finding> = after.findings.iter().filter(|f| f.severity != Severity::Note).collect();
    let planned = |f: &&&Finding| dry_run && repaired.moved.iter().any(|m| m.from == f.file);
    let mut codes: Vec<u8> = repaired.refused.iter().map(|r| r.exit).collect();
    codes.extend(left.iter().filter(|f| !planned(f)).map(|f| f.severity.exit_code()));
    codes.push(exit::DONE);
    let code = first_of(&codes);
    let (move_word, write_word) = if dry_run { ("would move", "would write") } else { ("moved", "wrote") };
    for moved in &repaired.moved {
        cx.out.put(&format!("{move_word} {}", line(&moved.from.to_string_lossy())));
        if let Some(to) = &moved.to {
            cx.out.put(&format!("    to {}", line(&to.to_string_lossy())));
        }
        cx.out.put(&format!("    because {}", line(&moved.why)));
    }
    for written in &repaired.written {
        cx.out.put(&format!("{write_word} {}", line(&written.file.to_string_lossy())));
        cx.out.put(&format!("    {}", line(&written.what)));
    }
    for refused in &repaired.refused {
        let session =
            refused.session.as_deref().map(|s| format!("session {}: ", tick(s))).unwrap_or_default();
        cx.out.put(&format!("{} {session}{}", cx.out.ink(Ink::Error, "left as it is:"), line(&refused.why)));
    }
    if !dry_run && code != exit::DONE {
        say_findings(cx, after);
    }
    object(cx, after, code, Some(view(cx, repaired, dry_run)));
    if let Some(folder) = &repaired.folder {
        let shown = folder.to_string_lossy();
        cx.out.note(&format!("surestep: all of it is in {}, with a report", line(&shown)));
    }
    for session in restored(repaired) {
        let what = if dry_run { "would then look at, or ask about," } else { "looks at, or asks about," };
        cx.out.note(&format!(
            "surestep: {}  # {what} each operation that may have run",
            cx.command(&["resume", session])
        ));
    }
    if code == exit::DONE {
        if repaired.moved.is_empty() && repaired.written.is_empty() {
            cx.out.note(&format!("surestep: {}: nothing is damaged", counted(after)));
        }
    } else {
        let what = if dry_run { "not everything could be repaired" } else { "not everything is repaired" };
        let mut fail = Fail::new("SE0611", code, what).state("what is left was not moved and not changed");
        for refused in &repaired.refused {
            fail = fail.why(line(&refused.why)).nexts(refused_next(cx, refused));
        }
        fail.nexts(
            left.first().and_then(|finding| next_of(cx, finding).filter(|_| repaired.refused.is_empty())),
        )
        .next_if("surestep explain code SE0611", "what to do, and what not to do")
        .say(&cx.out);
    }
    code
}

/// The sessions that go on with doubts.
fn restored(repaired: &Repaired) -> Vec<&str> {
    let mut sessions: Vec<&str> = repaired
        .written
        .iter()
        .filter(|written| written.what.starts_with("commit "))
        .filter_map(|written| written.session.as_deref())
        .collect();
    sessions.dedup();
    sessions
}

fn refused_next(cx: &Context, refused: &repair::Refused) -> Option<Next> {
    let session = refused.session.as_deref();
    if refused.exit == exit::HELD {
        let words = ["resume", session.unwrap_or("SESSION"), "--wait"];
        return Some(Next { command: cx.command(&words), when: Some("waits until it is free".into()) });
    }
    match refused.remedy {
        Remedy::PutBack => {
            let words = ["fsck", session.unwrap_or("SESSION")];
            Some(Next {
                command: cx.command(&words),
                when: Some("after putting the file back from a copy".into()),
            })
        }
        other @ (Remedy::Nothing
        | Remedy::Repair
        | Remedy::Restored
        | Remedy::Name
        | Remedy::NewerVersion
        | Remedy::Access) => remedy(cx, other, session, &cx.store.to_string_lossy()),
    }
}

fn view(cx: &Context, repaired: &Repaired, dry_run: bool) -> RepairView {
    let shown = |path: &std::path::Path| path.to_string_lossy().into_owned();
    RepairView {
        dry_run,
        folder: repaired.folder.as_deref().map(shown),
        moved: repaired
            .moved
            .iter()
            .map(|m| MovedView {
                session: m.session.clone(),
                from: shown(&m.from),
                to: m.to.as_deref().map(shown),
                why: m.why.clone(),
            })
            .collect(),
        written: repaired
            .written
            .iter()
            .map(|w| WrittenView { session: w.session.clone(), file: shown(&w.file), what: w.what.clone() })
            .collect(),
        refused: repaired
            .refused
            .iter()
            .map(|r| RefusedView {
                session: r.session.clone(),
                exit: r.exit,
                why: r.why.clone(),
                next: refused_next(cx, r),
            })
            .collect(),
    }
}

fn object(cx: &Context, checkup: &Checkup, exit: u8, repair: Option<RepairView>) {
    let findings = checkup
        .findings
        .iter()
        .map(|finding| FindingView {
            severity: finding.severity.word(),
            session: finding.session.clone(),
            file: finding.file.to_string_lossy().into_owned(),
            offset: finding.offset,
            what: finding.what.clone(),
            next: next_of(cx, finding),
        })
        .collect();
    cx.out.object(&FsckObject {
        schema: "surestep.fsck/1",
        exit,
        root: checkup.root.to_string_lossy().into_owned(),
        store: checkup.store.clone(),
        sessions: checkup.sessions,
        commits: checkup.commits,
        blobs: checkup.blobs,
        blobs_unreferenced: checkup.blobs_unreferenced,
        aside: checkup.aside,
        findings,
        repair,
    });
}

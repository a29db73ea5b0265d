//! `log --follow`: the journal as it grows, one line for each entry, until nothing more can be added without a person.
//!
//! The store is asked again and again, and only for what is new: it has no other way to tell. On a terminal a last line
//! says what is under way; elsewhere nothing but the entries is written. It holds nothing and changes nothing.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde::Serialize;
use surestep::{Commit, Engine, Envelope, Raw, Rest, SessionId, State, StepError, StoreError, Wall, exit};

use crate::context::{Context, Store, wall};
use crate::duration::short;
use crate::fail::{Fail, Next};
use crate::out::Ink;
use crate::text::{self, line, tick};
use crate::view::RestView;
use crate::{fails, log, rests, show, view, when};

/// How long two looks at the journal are apart.
const POLL: Duration = Duration::from_millis(200);
/// How long two looks at who is at work are apart.
const PROBE: Duration = Duration::from_secs(1);
/// The most characters of the line that says what is under way.
const LIVE_CHARS_MAX: usize = 78;

/// One line of `--json`: a commit.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CommitLine<'a> {
    schema: &'static str,
    session: &'a str,
    /// The commit's own text, byte for byte: its sum still holds.
    commit: Raw,
}

/// The last line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EndLine<'a> {
    schema: &'static str,
    exit: u8,
    session: &'a str,
    revision: u64,
    head: Option<String>,
    rest: RestView,
    code: Option<&'static str>,
    what: Option<String>,
    next: Vec<Next>,
}

/// `log --follow SESSION`.
pub(crate) async fn follow(cx: &Context, session: &str) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let id = cx.session(session)?;
    let mut envelope = engine.read(&id).await.map_err(|e| fails::of_step(cx, &e, &id))?;
    cx.stop.looks_on();
    let mut live = Live::new(cx);
    for commit in envelope.commits() {
        print(cx, &envelope, commit);
    }
    loop {
        let rest = envelope.standing(&engine.now());
        if !matches!(rest, Rest::Until { .. }) {
            live.clear();
            let fail = rests::of(cx, &envelope, &rest, wall(&engine));
            return Ok(end(cx, &envelope, &rest, fail));
        }
        if cx.stop.is_set() {
            live.clear();
            return Ok(end(cx, &envelope, &rest, Some(stopped(cx, &id))));
        }
        live.show(cx, &engine, &envelope, &rest).await;
        cx.stop.sleep_until(Instant::now() + POLL).await;
        for commit in newer(cx, &engine, &envelope).await? {
            live.clear();
            let revision = commit.revision().value();
            envelope.take(commit).map_err(|why| {
                let source = surestep::Corrupt::Misfit { revision, why };
                fails::of_step(cx, &StepError::Corrupt { session: id.clone(), source }, &id)
            })?;
            if let Some(commit) = envelope.commits().last() {
                print(cx, &envelope, commit);
            }
        }
    }
}

async fn newer(cx: &Context, engine: &Engine, envelope: &Envelope) -> Result<Vec<Commit>, Fail> {
    let session = envelope.session();
    let read = engine.store().read(&session.id, session.revision.next()).await;
    read.map(|journal| journal.commits).map_err(|e| fails::of_store(cx, &e, Some(&session.id)))
}

fn stopped(cx: &Context, id: &SessionId) -> Fail {
    Fail::new("SE0111", exit::UNTIL, format!("following {} was stopped by a signal", tick(id.as_str())))
        .rest()
        .state("the session goes on as before: following changes nothing")
        .next(cx.command(&["log", id.as_str(), "--follow"]))
}

fn print(cx: &Context, envelope: &Envelope, commit: &Commit) {
    if let Ok(raw) = Raw::new(commit.text()) {
        cx.out.json_line(&CommitLine {
            schema: "surestep.log.commit/1",
            session: envelope.session().id.as_str(),
            commit: raw,
        });
    }
    let at = when::local(commit.at());
    for entry in commit.entries() {
        for (n, words) in log::lines(envelope, entry).iter().enumerate() {
            let at = if n == 0 { at.clone() } else { text::pad("", at.chars().count()) };
            cx.out.put(&format!("{}  {words}", cx.out.ink(Ink::Dim, &at)));
        }
    }
    cx.out.flush();
}

/// Says how it ended, and which exit code that is.
fn end(cx: &Context, envelope: &Envelope, rest: &Rest, fail: Option<Fail>) -> u8 {
    let session = envelope.session();
    let code = fail.as_ref().map_or(exit::DONE, |fail| fail.exit);
    show::summary(cx, envelope);
    if let Some(fail) = &fail {
        fail.say(&cx.out);
    }
    cx.out.json_line(&EndLine {
        schema: "surestep.log.end/1",
        exit: code,
        session: session.id.as_str(),
        revision: session.revision.value(),
        head: session.head.map(|head| head.to_string()),
        rest: RestView::new(rest),
        code: fail.as_ref().map(|fail| fail.code),
        what: fail.as_ref().map(|fail| fail.what.clone()),
        next: fail.map(|fail| fail.next).unwrap_or_default(),
    });
    code
}

/// The last line on a terminal: what is under way.
struct Live {
    wanted: bool,
    shown: bool,
    probed: Option<Instant>,
    /// Somebody holds the session, as far as can be told.
    held: bool,
    /// It was said that nobody is at work.
    told: bool,
}

impl Live {
    fn new(cx: &Context) -> Self {
        let wanted = cx.out.watched() && !cx.out.quiet && !cx.out.json;
        Self { wanted, shown: false, probed: None, held: true, told: false }
    }

    fn clear(&mut self) {
        if self.shown {
            // A terminal that is gone needs no clearing.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
            self.shown = false;
        }
    }

    async fn show(&mut self, cx: &Context, engine: &Engine, envelope: &Envelope, rest: &Rest) {
        let session = envelope.session();
        if self.probed.is_none_or(|at| at.elapsed() >= PROBE) {
            self.probed = Some(Instant::now());
            self.held = match engine.store().probe(&session.id).await {
                Err(StoreError::Busy { .. }) => true,
                Ok(_) => false,
                Err(_) => self.held,
            };
        }
        let words = under_way(envelope, rest, engine.now().wall, self.held);
        if !self.held && !self.told && matches!(rest, Rest::Until { wait_ms: 0, .. }) {
            self.told = true;
            self.clear();
            cx.out.note(&format!(
                "surestep: nobody is at work on it; to go on: {}",
                cx.command(&["resume", session.id.as_str()])
            ));
        }
        self.told &= !self.held;
        if self.wanted {
            let words: String = words.chars().take(LIVE_CHARS_MAX).collect();
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{}", cx.out.ink_err(Ink::Dim, &words));
            self.shown = true;
        }
    }
}

fn under_way(envelope: &Envelope, rest: &Rest, now: Wall, held: bool) -> String {
    let session = envelope.session();
    let open = session.operations.iter().find(|o| o.state == State::Intended);
    match (open, rest) {
        (Some(operation), _) => {
            let since = operation.attempt().map_or_else(String::new, |attempt| {
                format!(" for {}", short(when::past_ms(attempt.at, now)))
            });
            let what = if held { "under way" } else { "interrupted, or just done" };
            format!("… operation {} {what}{since}: {}", operation.number, view::named(operation))
        }
        (None, Rest::Until { at, wait_ms, why }) if *wait_ms > 0 => {
            format!("… rests until {}: {}", when::at(*at, now), line(why))
        }
        (None, _) if held => "… at work".into(),
        (None, _) => "… nobody is at work on it".into(),
    }
}

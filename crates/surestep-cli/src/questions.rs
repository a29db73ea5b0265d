//! `questions`: everything that waits for a person, over the whole store, oldest first.
//!
//! Each question holds what, where and when, what is known, what each wrong answer would cost, and the exact commands.

use serde::Serialize;
use surestep::core::entry::Entry;
use surestep::core::{About, Attempt, Operation, Session};
use surestep::{
    Commit, Engine, Envelope, Evidence, Fault, OpNumber, Outcome, Question, Rest, Revision, Wall, Word, exit,
};

use crate::context::{Context, Store, wall};
use crate::duration::left;
use crate::fail::Fail;
use crate::out::Ink;
use crate::run::{all_sessions, first_of};
use crate::text::{self, line};
use crate::view::EvidenceView;
use crate::{fails, rests, view, when};

/// How many lines of a command's output a question shows.
const TAIL_LINES: usize = 8;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct QuestionsObject {
    schema: &'static str,
    exit: u8,
    questions: Vec<Asked>,
    /// Sessions with an open turn that need no person: `resume` goes on with them, now or once they may.
    unfinished: Vec<String>,
    unreadable: Vec<String>,
}

/// One question.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Asked {
    session: String,
    n: u32,
    key: String,
    kind: String,
    repo: String,
    target: String,
    /// `landing`, `approval` or `restarts`.
    about: &'static str,
    code: &'static str,
    what: String,
    attempt: u32,
    attempts: u32,
    since: Option<Wall>,
    deadline: Option<Wall>,
    next_look: Option<Wall>,
    /// *Not landed* is accepted after so many milliseconds, at the latest.
    absence_in_ms: u64,
    evidence: Vec<EvidenceView>,
    late: Vec<LateView>,
    state: Vec<String>,
    answers: Vec<Answer>,
}

/// What came too late for the journal.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LateView {
    attempt: u32,
    text: String,
}

/// One answer, and what it costs if it is wrong.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Answer {
    word: &'static str,
    command: String,
    means: String,
    if_wrong: String,
}

/// `questions`.
pub(crate) async fn questions(cx: &Context) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let now = wall(&engine);
    let mut asked = Vec::new();
    let mut codes = vec![exit::DONE];
    let mut unreadable = Vec::new();
    let mut unfinished = Vec::new();
    let (all, nameless) = all_sessions(cx, &engine).await?;
    for fail in nameless {
        codes.push(fail.exit);
        unreadable.push(format!("{}: {}", fail.code, fail.what));
        fail.say(&cx.out);
    }
    for id in all {
        let envelope = match engine.read(&id).await {
            Ok(envelope) => envelope,
            Err(e) => {
                let fail = fails::of_step(cx, &e, &id);
                codes.push(fail.exit);
                unreadable.push(format!("{}: {}", fail.code, fail.what));
                fail.say(&cx.out);
                continue;
            }
        };
        if let Rest::NeedsPerson(question) = envelope.standing(&engine.now()) {
            codes.push(exit::PERSON);
            let late = late(&engine, envelope.session(), &question).await;
            asked.push(ask(cx, &envelope, &question, late, now));
        } else if is_unfinished(envelope.session()) {
            unfinished.push(id.to_string());
        }
    }
    asked.sort_by(|a, b| (a.since, &a.session).cmp(&(b.since, &b.session)));
    let exit = first_of(&codes);
    for (n, question) in asked.iter().enumerate() {
        if n > 0 {
            cx.out.put("");
        }
        print(cx, question, now);
    }
    if asked.is_empty() {
        cx.out.note("surestep: no open questions");
    }
    if !unfinished.is_empty() {
        let are = if unfinished.len() == 1 { "is" } else { "are" };
        let other = if asked.is_empty() { "session" } else { "other session" };
        cx.out.note(&format!(
            "surestep: {} {are} not finished ({}): {}",
            text::count(unfinished.len(), other),
            line(&unfinished.join(", ")),
            cx.command(&["resume", "--all"])
        ));
    }
    cx.out.object(&QuestionsObject {
        schema: "surestep.questions/1",
        exit,
        questions: asked,
        unfinished,
        unreadable,
    });
    Ok(exit)
}

/// Late results about the open attempt, which no step has taken up yet.
async fn late(engine: &Engine, session: &Session, question: &Question) -> Vec<Evidence> {
    let journal = engine.store().read(&session.id, Revision::FIRST).await;
    let late = journal.map(|journal| journal.late).unwrap_or_default();
    // What only says that the attempt is over was taken up with the first doubt.
    let said = !question.evidence.is_empty();
    let news = |e: &Evidence| match e.observed {
        Outcome::Landed(_) | Outcome::NotLanded(..) | Outcome::NotSent(_) => true,
        Outcome::Unknown(_) | Outcome::Ended(_) | Outcome::Over(_) => !said,
    };
    late.into_iter().filter(|e| e.op == question.op && e.key == question.key && news(e)).collect()
}

fn is_unfinished(session: &Session) -> bool {
    session.handed_off.is_none() && session.turn().is_some_and(|turn| turn.ended.is_none())
}

/// When the plan of an operation was bound: since then its approval is waited for.
fn bound_at(envelope: &Envelope, op: OpNumber) -> Option<Wall> {
    let session = envelope.session();
    let turn =
        session.turns.iter().find(|turn| session.operations_of(turn).iter().any(|o| o.number == op))?;
    let binds = |entry: &Entry| matches!(entry, Entry::Bound(e) if e.turn == turn.number);
    envelope.commits().iter().find(|commit| commit.entries().iter().any(binds)).map(Commit::at)
}

fn ask(cx: &Context, envelope: &Envelope, question: &Question, late: Vec<Evidence>, now: Wall) -> Asked {
    let session = envelope.session();
    let fail = rests::person(cx, session, question, now);
    let operation = session.operation(question.op);
    let bound = operation.map(|o| &o.bound);
    let field = |f: fn(&Operation) -> String| operation.map(f).unwrap_or_default();
    Asked {
        session: session.id.to_string(),
        n: question.op.value(),
        key: question.key.to_string(),
        kind: bound.map(|b| b.kind.to_string()).unwrap_or_default(),
        repo: field(|o| o.bound.repo.clone()),
        target: field(|o| o.bound.target.clone()),
        about: match question.about {
            About::Landing => "landing",
            About::Approval => "approval",
            About::Restarts => "restarts",
            _ => "unknown",
        },
        code: fail.code,
        what: fail.what,
        attempt: question.attempt.value(),
        attempts: question.attempts,
        since: question.since.or_else(|| bound_at(envelope, question.op)),
        deadline: question.deadline,
        next_look: question.next_look,
        absence_in_ms: question.absence_in_ms,
        evidence: question.evidence.iter().map(|(at, fault)| EvidenceView::new(*at, fault)).collect(),
        late: late.iter().filter_map(LateView::new).collect(),
        state: fail.state,
        answers: answers(cx, session, question, now),
    }
}

impl LateView {
    fn new(evidence: &Evidence) -> Option<Self> {
        let text = match &evidence.observed {
            Outcome::Landed(receipt) => format!("landed: {}", receipt.reference),
            Outcome::NotLanded(fault, _) | Outcome::NotSent(fault) => format!("did not land: {fault}"),
            Outcome::Ended(fault) | Outcome::Over(fault) | Outcome::Unknown(fault) => view::said(fault),
        };
        Some(Self { attempt: evidence.attempt.value(), text })
    }
}

/// What may be said, and what it costs to say it wrongly.
fn answers(cx: &Context, session: &Session, question: &Question, now: Wall) -> Vec<Answer> {
    let id = session.id.as_str();
    let op = question.op.to_string();
    let command = |flag: &str| cx.command_because(&["resolve", id, &op, flag]);
    let landed = Answer {
        word: "landed",
        command: command("--landed"),
        means: "it is recorded as done, and never run again".into(),
        if_wrong: "the step is missing at the remote, and everything after it is built on it".into(),
    };
    // In a cancelled turn nothing runs again.
    let cancelled = session.cancelled.is_some();
    let again = if cancelled { "it is recorded as not done, and the turn ends" } else { "it runs again" };
    let wait = match question.absence_in_ms {
        0 => again.to_owned(),
        ms => format!(
            "{again}; accepted from {} (in {}), or at once with `--now`",
            when::clock(now.plus_ms(ms), now),
            left(ms)
        ),
    };
    let not_landed = Answer {
        word: "not_landed",
        command: command("--not-landed"),
        means: wait,
        if_wrong: if cancelled {
            "it is there, and the report says that it is not".into()
        } else {
            "it happens twice: a second payment, a second comment, a second release".into()
        },
    };
    let skip = Answer {
        word: "skip",
        command: command("--skip"),
        means: if cancelled {
            "nothing more is done about it, the turn ends, and the report says so".into()
        } else {
            "nothing more is done about it, the turn goes on with the next operation, and the report says so"
                .into()
        },
        if_wrong: "if it is not there, nobody will ever do it; what comes after must not need it".into(),
    };
    match question.about {
        About::Approval => {
            let approve = Answer {
                word: "approve",
                command: cx.command_because(&["approve", id, &op]),
                means: "it may run, exactly as it is bound; `resume` runs it".into(),
                if_wrong: "it happens, and surestep undoes nothing".into(),
            };
            let deny = Answer {
                word: "deny",
                command: cx.command_because(&["deny", id, &op]),
                means: "it is never run, nor is what comes after it: the turn fails".into(),
                if_wrong: "what is left must be offered as a new plan".into(),
            };
            vec![approve, deny, skip]
        }
        About::Landing | About::Restarts => vec![landed, not_landed, skip],
        _ => vec![],
    }
}

fn print(cx: &Context, question: &Asked, now: Wall) {
    let out = &cx.out;
    let head = |label: &str, value: &str| {
        out.put(&format!("  {}{value}", out.ink(Ink::Dim, &text::pad(label, 9))));
    };
    let id = line(&question.session);
    out.put(&format!("{}: {}", out.ink(Ink::Doubt, &format!("question[{}]", question.code)), question.what));
    head("what", &format!("operation {} of session {}, {}", question.n, text::tick(&id), question.key));
    if let Some(since) = question.since.filter(|_| question.attempts == 0) {
        head("when", &format!("it waits since {}", when::at(since, now)));
    } else if is_lost(question) {
        head("when", "a lost commit may have begun it");
    } else if let Some(since) = question.since {
        let of = if question.attempts > 1 { format!(" of {}", question.attempts) } else { String::new() };
        head("when", &format!("attempt {}{of} began {}", question.attempt, when::at(since, now)));
    }
    for (n, known) in known(question).iter().enumerate() {
        head(if n == 0 { "known" } else { "" }, known);
    }
    for (n, state) in question.state.iter().enumerate() {
        head(if n == 0 { "state" } else { "" }, state);
    }
    let explain = cx.command(&["explain", &id, &question.n.to_string()]);
    if question.about != "approval" {
        let place = view::place(&question.repo, &question.target);
        head("look", &format!("at {place}, then say what is there (what was to run: {explain})"));
    } else {
        head("look", &format!("at exactly what would run: {explain}"));
    }
    for (n, answer) in question.answers.iter().enumerate() {
        head(if n == 0 { "answer" } else { "" }, &out.ink(Ink::Strong, &answer.command));
        head("", &format!("   {}", answer.means));
        head("", &format!("   if that is wrong: {}", answer.if_wrong));
    }
}

/// Whether nobody knows when it began, since the commits that would say so are lost.
fn is_lost(question: &Asked) -> bool {
    question.about == "landing" && question.attempt == Attempt::LOST.value()
}

/// What is known, oldest first; the output of a command that stands in it follows, line by line.
fn known(question: &Asked) -> Vec<String> {
    let evidence =
        question.evidence.iter().map(|e| (when::local(e.at), view::said(&Fault::new(&e.code, &e.message))));
    let late =
        question.late.iter().map(|late| (format!("late, of attempt {}", late.attempt), late.text.clone()));
    let mut known = Vec::new();
    for (at, text) in evidence.chain(late) {
        let (said, output) = text.split_once("; it said: ").unwrap_or((&text, ""));
        let (first, more) = said.split_once('\n').unwrap_or((said, ""));
        known.push(format!("{at}  {}", line(first)));
        let output = text::tail(&format!("{more}\n{output}"), TAIL_LINES);
        known.extend(output.into_iter().map(|output| format!("  │ {output}")));
    }
    if known.is_empty() && question.about == "landing" {
        let why = view::unrecorded(is_lost(question));
        known.push(format!("nothing: {why}, and nothing can be asked"));
    }
    known
}

/// What a wrong answer costs, in lines: of one word, or of all.
pub(crate) fn costs(
    cx: &Context,
    session: &Session,
    question: &Question,
    of: Option<Word>,
    now: Wall,
) -> Vec<String> {
    let wanted = |answer: &Answer| match of {
        None => true,
        Some(Word::Landed) => answer.word == "landed",
        Some(Word::NotLanded | Word::NotLandedNow) => answer.word == "not_landed",
        Some(Word::Skip) => answer.word == "skip",
        Some(Word::Approve) => answer.word == "approve",
        Some(Word::Deny) => answer.word == "deny",
        Some(Word::Cancel) => false,
    };
    let answers = answers(cx, session, question, now).into_iter().filter(wanted);
    answers.map(|a| format!("if `{}` is wrong: {}", a.word.replace('_', " "), a.if_wrong)).collect()
}

//! `explain`: an error code's page, a kind of effect, or one operation: how its key was made and why it stands where it does.

use serde::Serialize;
use surestep::core::entry::Entry;
use surestep::core::plan::nearest;
use surestep::core::{BoundOperation, Operation, Seed, identity_text};
use surestep::{Body, Commit, Envelope, Key, OpNumber, Rest, SessionId, exit};

use crate::context::{Context, Store, wall};
use crate::duration::short;
use crate::fail::{Fail, Next};
use crate::out::Ink;
use crate::text::{self, line, tick};
use crate::view::OperationView;
use crate::{codes, fails, kinds, log, resolve, rests, view, when};

/// How many characters of a body the screen shows.
const BODY_CHARS_MAX: usize = 400;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PageObject {
    schema: &'static str,
    subject: String,
    title: String,
    text: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OperationObject {
    schema: &'static str,
    session: String,
    operation: OperationView,
    key: KeyView,
    terms: TermsView,
    history: Vec<String>,
}

/// What the key is made from.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KeyView {
    key: String,
    formula: &'static str,
    session: String,
    kind: String,
    repo: String,
    target: String,
    body: String,
    body_digest: String,
    identity: Option<Vec<String>>,
    occurrence: u64,
    recomputed: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TermsView {
    recovery: surestep::core::RecoveryClass,
    within_ms: Option<u64>,
    deadline_ms: u64,
    lag_ms: u64,
    local: bool,
    attempts_max: u32,
    answers: u32,
    restarts: u32,
}

/// `explain …`.
pub(crate) async fn explain(cx: &Context, what: &[String]) -> Result<u8, Fail> {
    let words: Vec<&str> = what.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["code", code] => explain_code(cx, code),
        ["kind", kind] => explain_kind(cx, kind),
        ["session", session, op] | [session, op] => operation(cx, session, op).await,
        [code] if codes::page(code).is_some() => explain_code(cx, code),
        ["kind"] => Err(Fail::usage("SE0101", "explain kind takes the name of a kind of effect")
            .why(format!("known are: {}", kinds::names().join(", ")))
            .state("nothing was read")
            .next("surestep explain kind shell")),
        [kind] if kinds::describe(kind).is_some() => {
            Err(Fail::usage("SE0101", format!("{} is a kind of effect: say so", tick(kind)))
                .state("nothing was read")
                .next(format!("surestep explain kind {}", text::word(kind))))
        }
        [session] if *session != "code" => {
            Err(Fail::usage("SE0101", format!("explain {} what? it takes `SESSION OP`", tick(session)))
                .state("nothing was read")
                .next_if(
                    cx.command(&["show", session]),
                    "if it is a session: where it stands, and its operations",
                )
                .next_if(cx.command(&["explain", session, "1"]), "its first operation"))
        }
        _ => Err(Fail::usage("SE0101", "explain takes `SESSION OP`, `code CODE` or `kind KIND`")
            .state("nothing was read")
            .next("surestep explain code SE0412")),
    }
}

fn explain_code(cx: &Context, code: &str) -> Result<u8, Fail> {
    let Some((code, page)) = codes::page(code) else {
        let known: Vec<&str> = codes::PAGES.iter().map(|(code, _)| *code).collect();
        let near = nearest(&code.to_ascii_uppercase(), &known);
        let fail =
            Fail::usage("SE0107", format!("there is no error code {}", tick(code))).state("nothing was read");
        return Err(match near {
            Some(near) => fail.next(format!("surestep explain code {near}")),
            None => fail.why("codes look like `SE0412`").next("surestep explain code SE0412"),
        });
    };
    for line in page.lines() {
        cx.out.put(&if line.starts_with('#') { cx.out.ink(Ink::Strong, line) } else { line.to_owned() });
    }
    page_object(cx, code, codes::title(page), page);
    Ok(exit::DONE)
}

fn explain_kind(cx: &Context, kind: &str) -> Result<u8, Fail> {
    let Some(text) = kinds::describe(kind) else {
        let names = kinds::names();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let near = nearest(kind, &known);
        let did_you_mean =
            near.as_deref().map_or_else(String::new, |near| format!("did you mean {}? ", tick(near)));
        let fail = Fail::usage("SE0107", format!("there is no kind {} here", tick(kind)))
            .why(format!("{did_you_mean}known are: {}", known.join(", ")))
            .state("nothing was read");
        let named: Vec<&str> = near.as_deref().map_or(known.clone(), |near| vec![near]);
        return Err(named
            .iter()
            .fold(fail, |fail, kind| fail.next(text::command(["surestep", "explain", "kind", kind]))));
    };
    for line in text.lines() {
        cx.out.put(line);
    }
    page_object(cx, kind, kind, &text);
    Ok(exit::DONE)
}

fn page_object(cx: &Context, subject: &str, title: &str, text: &str) {
    let (subject, title, text) = (subject.to_owned(), title.to_owned(), text.to_owned());
    cx.out.object(&PageObject { schema: "surestep.explain/1", subject, title, text });
}

async fn operation(cx: &Context, session: &str, op: &str) -> Result<u8, Fail> {
    let engine = cx.engine(Store::Read, None)?;
    let id = cx.session(session)?;
    let envelope = engine.read(&id).await.map_err(|e| fails::of_step(cx, &e, &id))?;
    let operation = resolve::find(cx, &envelope, &id, op)?;
    let key = KeyView::new(&id, &operation.bound);
    let history = history(&envelope, operation.number);
    screen(cx, &envelope, operation, &key, &history, &engine);
    cx.out.object(&OperationObject {
        schema: "surestep.explain/1",
        session: id.to_string(),
        operation: OperationView::new(operation),
        key,
        terms: TermsView::new(operation),
        history: history.into_iter().map(|(_, line)| line).collect(),
    });
    Ok(exit::DONE)
}

fn screen(
    cx: &Context,
    envelope: &Envelope,
    operation: &Operation,
    key: &KeyView,
    history: &[(Option<surestep::Wall>, String)],
    engine: &surestep::Engine,
) {
    let out = &cx.out;
    let head =
        |label: &str, value: &str| out.put(&format!("{}{value}", out.ink(Ink::Dim, &text::pad(label, 10))));
    let bound = &operation.bound;
    let id = envelope.session().id.as_str();
    let title = format!("operation {} of {}: {}", operation.number, tick(id), view::named(operation));
    out.put(&out.ink(Ink::Strong, &title));
    head("state", &format!("{}: {}", operation.state.word(), why(operation)));
    head("tries", &tries(operation));
    head("doubt", &format!("{}{}", view::recovery(bound.recovery), terms(bound)));
    head("key", &key.key);
    let fields =
        [("session", &key.session), ("kind", &key.kind), ("repo", &key.repo), ("target", &key.target)];
    head("", "the first 32 digits of the SHA-256 of these, each with its length before it:");
    for (label, value) in fields {
        head("", &format!("  {}{}", text::pad(label, 12), tick(value)));
    }
    let body: String = line(&key.body).chars().take(BODY_CHARS_MAX).collect();
    let which =
        key.identity.as_ref().map_or(String::new(), |fields| format!(" (of it only {})", fields.join(", ")));
    head("", &format!("  {}{body}{which}", text::pad("body", 12)));
    if key.occurrence > 1 {
        head(
            "",
            &format!("  {}{} (an equal operation came before)", text::pad("occurrence", 12), key.occurrence),
        );
    }
    let verdict = if key.recomputed {
        "made anew just now: equal"
    } else {
        "made anew just now: DIFFERENT, see `explain code SE0601`"
    };
    head("", verdict);
    head("body", &key.body_digest);
    head("history", if history.is_empty() { "nothing yet" } else { "" });
    for (at, line) in history {
        let at = at.map_or_else(|| " ".repeat(20), |at| text::pad(&when::local(at), 20));
        out.put(&format!("  {at}  {line}"));
    }
    let rest = envelope.standing(&engine.now());
    let fail = rests::of(cx, envelope, &rest, wall(engine));
    let mut nexts = fail.map(|fail| fail.next).unwrap_or_default();
    // Not this very command again.
    nexts.retain(|next| !explains(&next.command));
    if let Rest::NeedsPerson(question) = &rest {
        // All answers or none: a single one would read like advice.
        let asked = question.op == operation.number;
        let questions = Next { command: cx.command(&["questions"]), when: None };
        let nexts = if asked { nexts } else { vec![questions] };
        let rows: Vec<Vec<String>> = nexts
            .into_iter()
            .map(|next| vec![next.command, next.when.map(|when| format!("# {when}")).unwrap_or_default()])
            .collect();
        for (n, row) in text::columns(&rows).iter().enumerate() {
            head(if n == 0 { "next" } else { "" }, row);
        }
        return;
    }
    let next = nexts.into_iter().next();
    head(
        "next",
        &match next {
            None => cx.command(&["show", id]),
            Some(Next { command, when: Some(when) }) if matches!(rest, Rest::Finished(_)) => {
                format!("{command}  # {when}")
            }
            Some(Next { command, .. }) => command,
        },
    );
}

fn explains(command: &str) -> bool {
    command.starts_with("surestep ") && command.contains(" explain ")
}

/// Why the operation is in its state.
fn why(operation: &Operation) -> String {
    use surestep::State;
    let fate = view::fate(operation);
    match operation.state {
        State::Planned => "the operations before it are not settled yet; it was not started".into(),
        State::AwaitingApproval => "the plan wants a person's yes first; it was not started".into(),
        State::Intended => "its intent is durable, its outcome is not: an attempt may be under way".into(),
        State::InDoubt if !operation.doubts.is_empty() => {
            "what is known of its attempt does not say whether it landed: it may have, so it is not run again".into()
        }
        State::InDoubt => "an attempt was begun and its outcome was not recorded: it may have landed, so it is not run again".into(),
        State::Retrying => format!("the last attempt surely did not land ({fate}); another one follows"),
        State::Succeeded => format!("it landed: {fate}"),
        State::Failed => format!("it surely did not land, and is not tried again: {fate}"),
        State::Denied | State::Skipped | State::Cancelled => fate,
    }
}

fn tries(operation: &Operation) -> String {
    let bound = &operation.bound;
    format!(
        "{}; {} of {} refusals used; {} lost to restarts (those do not count against it)",
        text::count(operation.attempts.len(), "attempt"),
        operation.answers,
        bound.attempts_max,
        operation.restarts
    )
}

fn terms(bound: &BoundOperation) -> String {
    let local = if bound.local { ", local" } else { "" };
    format!(
        "; deadline {}, a landing may stay invisible for {}{local}",
        short(bound.deadline_ms),
        short(bound.lag_ms)
    )
}

impl TermsView {
    fn new(operation: &Operation) -> Self {
        let bound = &operation.bound;
        Self {
            recovery: bound.recovery,
            within_ms: bound.within_ms,
            deadline_ms: bound.deadline_ms,
            lag_ms: bound.lag_ms,
            local: bound.local,
            attempts_max: bound.attempts_max,
            answers: operation.answers,
            restarts: operation.restarts,
        }
    }
}

impl KeyView {
    fn new(session: &SessionId, bound: &BoundOperation) -> Self {
        let (repo, target) = match bound.place.as_deref() {
            Some([repo, target]) => (repo.clone(), target.clone()),
            Some(_) | None => (bound.repo.clone(), bound.target.clone()),
        };
        let body = seed_body(&bound.body, bound.identity.as_deref());
        let seed = Seed {
            session: session.as_str(),
            kind: bound.kind.as_str(),
            repo: &repo,
            target: &target,
            body: &body,
            occurrence: bound.occurrence,
        };
        Self {
            recomputed: Key::derive(&seed) == bound.key,
            key: bound.key.to_string(),
            formula: "v1: sha256 over length-prefixed fields, 32 digits",
            session: session.to_string(),
            kind: bound.kind.to_string(),
            repo,
            target,
            body,
            body_digest: bound.body.digest().to_string(),
            identity: bound.identity.clone(),
            occurrence: bound.occurrence,
        }
    }
}

fn seed_body(body: &Body, identity: Option<&[String]>) -> String {
    let Some(fields) = identity else { return body.as_str().to_owned() };
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    identity_text(body, &fields).unwrap_or_else(|_| body.as_str().to_owned())
}

/// What the journal says of one operation, oldest first.
fn history(envelope: &Envelope, op: OpNumber) -> Vec<(Option<surestep::Wall>, String)> {
    let mut lines = Vec::new();
    for commit in envelope.commits() {
        for entry in about(commit, op) {
            for (n, line) in log::lines(envelope, entry).into_iter().enumerate() {
                lines.push(((n == 0).then(|| commit.at()), line));
            }
        }
    }
    lines
}

fn about(commit: &Commit, op: OpNumber) -> impl Iterator<Item = &Entry> {
    commit.entries().iter().filter(move |entry| match entry {
        Entry::Intended(e) => e.op == op,
        Entry::Succeeded(e) => e.op == op,
        Entry::Failed(e) => e.op == op,
        Entry::Doubted(e) => e.op == op,
        Entry::Approved(e) => e.op == op,
        Entry::Denied(e) => e.op == op,
        Entry::Skipped(e) => e.op == op,
        Entry::Cancelled(_) | Entry::Restored(_) => true,
        Entry::Opened(_)
        | Entry::Said(_)
        | Entry::Bound(_)
        | Entry::Claimed(_)
        | Entry::Released(_)
        | Entry::Finished(_)
        | Entry::HandedOff(_) => false,
    })
}

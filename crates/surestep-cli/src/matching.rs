//! `resolve --all-matching`: one answer for many doubts. Never without a filter, and never without their number: who
//! types it has looked. Each answer is a commit of its own; one that is refused does not stop the others.

use serde::Serialize;
use surestep::core::About;
use surestep::{Engine, Envelope, Question, Request, Rest, SessionId, StepError, Wall, Word, exit};

use crate::args;
use crate::context::{Context, Store, wall};
use crate::duration::short;
use crate::fail::Fail;
use crate::run::{ErrorView, all_sessions, first_of};
use crate::text::line;
use crate::{dry, fails, resolve, view, when};

/// How many of the matches a refusal lists.
const LISTED_MAX: usize = 20;

/// `surestep.resolve_matching/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MatchingObject {
    schema: &'static str,
    exit: u8,
    word: Word,
    because: String,
    dry_run: bool,
    matched: Vec<Answered>,
    errors: Vec<ErrorView>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Answered {
    session: String,
    n: u32,
    key: String,
    kind: String,
    repo: String,
    target: String,
    /// Whether the answer is in the journal or the mailbox; under `--dry-run`: whether it would be taken.
    taken: bool,
}

/// An open doubt that the filters match.
struct Match {
    envelope: Envelope,
    question: Question,
}

/// `resolve --all-matching …`.
pub(crate) async fn resolve(cx: &Context, args: &args::Resolve) -> Result<u8, Fail> {
    resolve::reasoned(&args.because, || cx.again.clone())?;
    let engine = cx.engine(if args.dry_run { Store::Read } else { Store::MustExist }, None)?;
    let mut codes = vec![exit::DONE];
    let matches = matches(cx, &engine, &args.matching, &mut codes).await?;
    let now = wall(&engine);
    let counted = args.matching.count == Some(matches.len());
    let only_listed = args.dry_run && args.matching.count.is_none();
    if matches.is_empty() || !(counted || only_listed) {
        return Err(miscounted(cx, args, &matches, now));
    }
    let word = resolve::word(args);
    let mut object = MatchingObject {
        schema: "surestep.resolve_matching/1",
        exit: exit::DONE,
        word,
        because: args.because.clone(),
        dry_run: args.dry_run,
        matched: vec![],
        errors: vec![],
    };
    for one in &matches {
        let id = &one.envelope.session().id;
        let request = resolve::request(&one.envelope, Some(one.question.op), word, None, &args.because)?;
        let taken = put(cx, &engine, id, &request, args.dry_run).await;
        object.matched.push(one.answered(taken.is_ok()));
        match taken {
            Ok(said) => {
                let meaning = resolve::meaning(word, one.envelope.session().cancelled.is_some());
                cx.out.put(&format!("{said}: {} {meaning}", one.named()));
            }
            Err(fail) => {
                codes.push(fail.exit);
                object.errors.push(ErrorView::say(cx, id.to_string(), fail));
            }
        }
    }
    if args.dry_run {
        cx.out.put(dry::NOTHING);
        let count = format!("--count {}", matches.len());
        cx.out.note(&format!("surestep: to record it: the same with {count} instead of --dry-run"));
    } else {
        cx.out.put(&format!("nothing was started; to go on: {}", cx.command(&["resume", "--all"])));
    }
    object.exit = worst(&codes);
    cx.out.object(&object);
    Ok(object.exit)
}

/// As with several sessions; a refused answer (2) comes before done.
fn worst(codes: &[u8]) -> u8 {
    match first_of(codes) {
        exit::DONE => codes.iter().copied().max().unwrap_or(exit::DONE),
        code => code,
    }
}

/// Records one answer, or puts it into the mailbox of a session that is held; says which.
async fn put(
    cx: &Context,
    engine: &Engine,
    id: &SessionId,
    request: &Request,
    dry_run: bool,
) -> Result<&'static str, Fail> {
    let answered = if dry_run {
        engine.try_answer(id, request).await
    } else {
        engine.answer(id, request).await.map(drop)
    };
    match (answered, dry_run) {
        (Ok(()), true) => Ok("would record"),
        (Ok(()), false) => Ok("recorded"),
        (Err(StepError::Busy { .. }), true) if request.word.keeps() => {
            Ok("would put into the mailbox, since it is held")
        }
        (Err(StepError::Busy { .. }), false) => {
            engine.post(id, request).await.map_err(|e| fails::of_step(cx, &e, id))?;
            Ok("put into the mailbox, since it is held")
        }
        (Err(e), _) => Err(fails::of_step(cx, &e, id)),
    }
}

/// Every open doubt that the filters match, in the order of the sessions. One that cannot be read is told and counts.
async fn matches(
    cx: &Context,
    engine: &Engine,
    filter: &args::Matching,
    codes: &mut Vec<u8>,
) -> Result<Vec<Match>, Fail> {
    let mut matches = Vec::new();
    let now = engine.now();
    let (all, nameless) = all_sessions(cx, engine).await?;
    for fail in nameless {
        codes.push(fail.exit);
        fail.say(&cx.out);
    }
    for id in all {
        if filter.glob.as_deref().is_some_and(|glob| !fits(glob, id.as_str())) {
            continue;
        }
        let envelope = match engine.read(&id).await {
            Ok(envelope) => envelope,
            Err(e) => {
                let fail = fails::of_step(cx, &e, &id);
                codes.push(fail.exit);
                fail.say(&cx.out);
                continue;
            }
        };
        let Rest::NeedsPerson(question) = envelope.standing(&now) else { continue };
        // An approval is no doubt: each is read and given alone.
        if !matches!(question.about, About::Landing | About::Restarts) {
            continue;
        }
        let operation = envelope.session().operation(question.op);
        let of_kind = |kind: &str| operation.is_some_and(|o| o.bound.kind.as_str() == kind);
        let as_old = |age: std::time::Duration| {
            let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            question.since.is_some_and(|since| when::past_ms(since, now.wall) >= age_ms)
        };
        if filter.kind.as_deref().is_none_or(of_kind) && filter.older_than.is_none_or(as_old) {
            matches.push(Match { envelope, question });
        }
    }
    Ok(matches)
}

/// The number is missing or wrong, or nothing matches.
fn miscounted(cx: &Context, args: &args::Resolve, matches: &[Match], now: Wall) -> Fail {
    let found = matches.len();
    let doubts = match found {
        0 => "no open doubt matches".to_owned(),
        1 => "1 open doubt matches".to_owned(),
        n => format!("{n} open doubts match"),
    };
    let what = match args.matching.count {
        Some(count) => format!("{doubts}, and `--count` says {count}"),
        None if found == 0 => doubts,
        None => format!("{doubts}, and `--count` is missing"),
    };
    let mut fail = Fail::usage("SE0123", what);
    for one in matches.iter().take(LISTED_MAX) {
        let since =
            one.question.since.map_or_else(String::new, |at| format!(", begun {}", when::at(at, now)));
        fail = fail.why(format!("{}{since}", one.named()));
    }
    if found > LISTED_MAX {
        fail = fail.why(format!("and {} more", found - LISTED_MAX));
    }
    if let Some(age) = args.matching.older_than.filter(|_| found == 0) {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        fail = fail.why(format!("attempts begun less than {} ago are not looked at", short(age_ms)));
    }
    fail = fail
        .state("nothing was recorded")
        .next_if(cx.command(&["questions"]), "each of them, with what is known");
    match args.matching.count {
        None if found > 0 => {
            fail.next_if(cx.again_with(&format!("--count {found}")), "if you have looked at each of them")
        }
        Some(_) | None => fail,
    }
}

impl Match {
    fn named(&self) -> String {
        let session = self.envelope.session();
        let named = session.operation(self.question.op).map(view::named).unwrap_or_default();
        format!("{} operation {} ({named})", line(session.id.as_str()), self.question.op)
    }

    fn answered(&self, taken: bool) -> Answered {
        let session = self.envelope.session();
        let bound = session.operation(self.question.op).map(|o| &o.bound);
        let field = |text: Option<&String>| text.cloned().unwrap_or_default();
        Answered {
            session: session.id.to_string(),
            n: self.question.op.value(),
            key: self.question.key.to_string(),
            kind: bound.map(|b| b.kind.to_string()).unwrap_or_default(),
            repo: field(bound.map(|b| &b.repo)),
            target: field(bound.map(|b| &b.target)),
            taken,
        }
    }
}

/// Whether a text fits a pattern: `*` is any text, `?` any one character, everything else itself.
fn fits(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut g, mut t) = (0, 0);
    // Where the last `*` stood, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, t));
                g += 1;
            }
            Some(c) if *c == '?' || text.get(t) == Some(c) => {
                g += 1;
                t += 1;
            }
            Some(_) | None => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                g = at + 1;
                t = taken + 1;
            }
        }
    }
    glob.get(g..).unwrap_or_default().iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_stars_question_marks_and_itself() {
        for (glob, text, fitting) in [
            ("*", "", true),
            ("*", "a/b", true),
            ("fix-*", "fix-118", true),
            ("fix-*", "afix-118", false),
            ("*-118", "fix-118", true),
            ("f?x*8", "fix-118", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("fix-118", "fix-1189", false),
            ("[a]", "a", false),
            ("?", "é", true),
        ] {
            assert_eq!(fits(glob, text), fitting, "{glob} {text}");
        }
    }
}

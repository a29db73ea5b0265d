//! `git.push`: one commit to one ref of one remote, never by force.
//!
//! ```text
//!  a name ─ first execution ─▶ pinned as refs/surestep/<key> ─▶ push <id>:<ref> ─▶ porcelain
//!     `*` ` ` `=` with exit 0 ─▶ landed          `! [rejected]` ─▶ not sent by git: look, then answer
//!     all else                ─▶ unknown         (over, where the remote is a path, or said no itself)
//! ```
//!
//! What holds: a later attempt and every look-up speak of the commit that the first attempt pushed; a second push of
//! that commit to that ref is refused or harmless.
//!
//! Decisions: a foreign commit on top of ours is a landing; one beside ours is a conflict and no reason to try
//! again; `[remote rejected]` is the remote's word at the end of its work, so it ends the attempt, but it decides
//! nothing (a receiver may have moved the ref and failed after that).

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use surestep::{
    Attempt, Body, Call, Effect, Fault, Finding, Kind, Outcome, Planned, Raw, Receipt, Reconciler, Retry,
    Terms,
};

use crate::command::{Runner, SHOWN_BYTES, blocking, no_report, resolve, tail};
use crate::git::{Git, Silent, Standing};
use crate::guard::{Exit, Guard, Report};
use crate::remote::{Remote, is_local};
use crate::{GRACE_MS, LOCAL_DEADLINE_MS, REMOTE_LAG_MS, kind, refusal};

/// The kind's name.
pub const GIT_PUSH: &str = "git.push";

/// Time for finding out where a remote's name leads, when a plan is bound, in milliseconds.
const TERMS_LIMIT_MS: u64 = 10_000;

/// What `surestep explain kind git.push` prints.
pub(crate) const ABOUT: &str = "\
git.push: pushes one commit to one ref of one remote. Never by force.

repo    the remote: its name in the local repository, a URL, or a path (relative: to the top of the work tree)
target  the ref at the remote, in full: refs/heads/main, refs/tags/v1

body
  commit  a full commit id, HEAD, or a ref's name; required. A name is resolved once, at the first execution, and
          kept in the local repository as refs/surestep/<key>, so that a later attempt pushes the same commit.
  dir     folder of the local repository; relative to where the plan was first run, the default

recognised afterwards
  by `git ls-remote`: the ref is our commit, or (after fetching its objects, no local ref moves) contains it. It
  cannot tell our push from an equal one by somebody else.
recovery   ask; a second push of the same commit to the same ref is refused or harmless
deadline   600 s, then the guard kills git and all below it
lag        15 s; 0 s and local where the remote is a path on this machine
receipt    ref: the commit's id

outcomes
  git reports the ref as new, updated, or up to date           landed
  git itself refuses (`[rejected]`), the remote contains ours  landed: somebody pushed on top
  git itself refuses, the remote has another history           not landed, for good: never by force
  git itself refuses, the remote is behind ours or unborn      not landed, tried again after the backoff
  no such commit, folder or repository here                    not landed, for good
  deadline over before the push, no guard, no process          not sent
  `[remote rejected]`, any other end of git, the cut           unknown: the look-up decides
look-up
  ref absent, or an ancestor of our commit                     not landed
  ref is our commit, or a descendant                           landed
  ref is anything else                                         conflict
  remote or local repository cannot be read                    unknown
Hooks run as ever. Tags, submodules and other refs are not pushed along. Where a name is used and the session
moves to another clone, the kept ref does not move with it: use a commit id. A credential helper that leaves a
daemon behind (`cache`) keeps the guard waiting until the deadline: start it before.
";

/// The body of a `git.push` operation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PushBody {
    /// A full id, or a name.
    commit: String,
    /// The local repository's folder.
    dir: Option<String>,
}

impl PushBody {
    fn parse(body: &Body) -> Result<Self, Fault> {
        let mut body: Self =
            serde_json::from_str(body.as_str()).map_err(|e| refusal(GIT_PUSH, &e.to_string()))?;
        if body.dir.as_ref().is_some_and(|dir| dir.is_empty() || dir.contains('\0')) {
            return Err(refusal(GIT_PUSH, "`dir` is empty or holds a NUL"));
        }
        if is_id(&body.commit) {
            body.commit.make_ascii_lowercase();
        } else if let Err(why) = check_ref(&body.commit) {
            let why = format!("`commit` is no full commit id, and no ref's name either: it {why}");
            return Err(refusal(GIT_PUSH, &why));
        }
        Ok(body)
    }

    fn is_name(&self) -> bool {
        !is_id(&self.commit)
    }

    /// What to ask git for: for a branch a commit, for a tag whatever the name stands for.
    fn spec(&self, target: &str) -> String {
        let peel = if target.starts_with("refs/tags/") { "object" } else { "commit" };
        format!("{}^{{{peel}}}", self.commit)
    }
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What `git check-ref-format --allow-onelevel` checks, and no leading dash.
fn check_ref(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name == "@" {
        return Err("names nothing");
    }
    if name.starts_with('-') {
        return Err("starts with a dash");
    }
    if name.contains(|c: char| c.is_control() || " ~^:?*[\\".contains(c)) {
        return Err("holds a character that no ref may hold");
    }
    if name.contains("..") || name.contains("@{") || name.ends_with('.') {
        return Err("holds `..` or `@{`, or ends with a dot");
    }
    if name.split('/').any(|part| part.is_empty() || part.starts_with('.') || part.ends_with(".lock")) {
        return Err("has a part that is empty, starts with a dot, or ends with `.lock`");
    }
    Ok(())
}

fn check_place(repo: &str, target: &str) -> Result<(), Fault> {
    if repo.is_empty() || repo.starts_with('-') || repo.contains(char::is_control) {
        return Err(refusal(GIT_PUSH, "`repo` is a remote's name, a URL or a path"));
    }
    if !target.starts_with("refs/") {
        let why =
            format!("`target` is a full ref name: write `refs/heads/{target}` for a branch of that name");
        return Err(refusal(GIT_PUSH, &why));
    }
    if ["refs/for/", "refs/drafts/"].iter().any(|magic| target.starts_with(magic)) {
        return Err(refusal(
            GIT_PUSH,
            "`target` is a ref that no remote lists: a push to it cannot be looked up",
        ));
    }
    check_ref(target).map_err(|why| refusal(GIT_PUSH, &format!("`target` {why}")))
}

/// Pushes below the guard.
#[derive(Debug, Clone)]
pub struct GitPush {
    guard: Guard,
}

impl GitPush {
    /// Git runs below this guard.
    #[must_use]
    pub const fn new(guard: Guard) -> Self {
        Self { guard }
    }
}

#[async_trait]
impl Effect for GitPush {
    fn kind(&self) -> Kind {
        kind(GIT_PUSH)
    }

    fn terms(&self, planned: &Planned<'_>) -> Result<Terms, Fault> {
        let body = PushBody::parse(planned.body)?;
        check_place(planned.repo, planned.target)?;
        let runner = Runner::unbound(&self.guard, TERMS_LIMIT_MS);
        let git = Git { runner: &runner, dir: resolve(planned.dir, body.dir.as_deref()) };
        // A repository that an earlier operation is yet to make cannot be asked: then only a path is local.
        let local = git.remote(planned.repo).map_or_else(|_| is_local(planned.repo), |remote| remote.local);
        let lag_ms = if local { 0 } else { REMOTE_LAG_MS };
        Ok(Terms { local, distinguishes: false, ..Terms::remote(LOCAL_DEADLINE_MS, lag_ms) })
    }

    async fn execute(&self, attempt: &Attempt) -> Result<Outcome, Fault> {
        let (guard, attempt) = (self.guard.clone(), attempt.clone());
        blocking(move || execute(&Runner::of(&guard, &attempt), &attempt)).await
    }

    fn grace_ms(&self) -> u64 {
        GRACE_MS
    }
}

fn execute(runner: &Runner, attempt: &Attempt) -> Outcome {
    let call = &attempt.call;
    let target = call.operation.target.as_str();
    let body = match PushBody::parse(attempt.body()) {
        Ok(body) => body,
        Err(fault) => return Outcome::NotLanded(fault, Retry::Never),
    };
    let git = Git { runner, dir: resolve(call.dir.as_deref(), body.dir.as_deref()) };
    let prepared = remote_of(&git, call).and_then(|to| Ok((to, commit(&git, call, &body)?)));
    let (to, id) = match prepared {
        Ok(prepared) => prepared,
        // Nothing was sent.
        Err(Silent { fault, for_good: true }) if !runner.is_late() => {
            return Outcome::NotLanded(fault, Retry::Never);
        }
        Err(Silent { fault, .. }) => return Outcome::NotSent(fault),
    };
    let report = match git.push(&to, &id, target, call.operation.local) {
        Ok(report) => report,
        Err(error) => return no_report(error),
    };
    let over = |fault| match &report.exit {
        _ if !report.survivors.is_empty() => Outcome::Unknown(fault),
        Exit::Code(_) if !report.cut => Outcome::Ended(fault),
        Exit::Code(_) | Exit::Signal(_) | Exit::NotStarted(_) | Exit::Unknown(_) => Outcome::Over(fault),
    };
    match (&report.exit, read(&report, target)) {
        (Exit::NotStarted(why), _) => runner.nothing_ran(why),
        (Exit::Code(0), Some(Reply::Done(how))) => Outcome::Landed(receipt(&id, how)),
        (Exit::Code(_), Some(Reply::Refused(why))) => {
            let why = Fault::new("rejected", format!("git refused to push to `{target}`: {why}"));
            refused(git.standing(&to, target, Some(&id)), &id, why)
        }
        (Exit::Code(_), Some(Reply::RemoteRefused)) => over(fault("remote_rejected", &report)),
        (Exit::Unknown(_), _) => Outcome::Unknown(fault("lost", &report)),
        // What a remote elsewhere may still be doing does not end with our process.
        (Exit::Code(_) | Exit::Signal(_), _) if call.operation.local => over(fault("git", &report)),
        (Exit::Code(_) | Exit::Signal(_), _) => Outcome::Unknown(fault("git", &report)),
    }
}

/// The remote, still as it was bound.
fn remote_of(git: &Git<'_>, call: &Call) -> Result<Remote, Silent> {
    let remote = git.remote(&call.operation.repo)?;
    if call.operation.local && !remote.local {
        let why = format!("`{}` was a path when it was bound, and no longer is", call.operation.repo);
        return Err(Silent { fault: Fault::new("remote", why), for_good: true });
    }
    Ok(remote)
}

/// The commit that this operation pushes: a name is resolved once, and kept.
fn commit(git: &Git<'_>, call: &Call, body: &PushBody) -> Result<String, Silent> {
    if body.is_name()
        && let Some(id) = git.id(&format!("{}^{{object}}", pin_name(call)))?
    {
        return Ok(id);
    }
    let found = git.id(&body.spec(&call.operation.target))?;
    match found {
        Some(id) if body.is_name() => git.pin(&pin_name(call), &id),
        Some(id) if id == body.commit => Ok(id),
        Some(_) | None => {
            let why = format!("there is no commit `{}` in the local repository", body.commit);
            Err(Silent { fault: Fault::new("no_commit", why), for_good: true })
        }
    }
}

fn pin_name(call: &Call) -> String {
    format!("refs/surestep/{}", call.operation.key.hex())
}

/// Git decided by itself not to send: that says something of this attempt, the remote's ref says the rest.
fn refused(standing: Result<Standing, Silent>, id: &str, why: Fault) -> Outcome {
    match standing {
        Ok(Standing::Equal | Standing::Contains) => Outcome::Landed(receipt(id, "found at the remote")),
        Ok(Standing::Behind | Standing::Absent) => Outcome::NotLanded(why, Retry::Backoff),
        Ok(Standing::Beside(theirs)) => {
            let why = Fault::new("rejected", format!("{}; the remote's ref is {theirs}", why.message));
            Outcome::NotLanded(why, Retry::Never)
        }
        Err(silent) => {
            let why = Fault::new("rejected", format!("{}; then {}", why.message, silent.fault));
            Outcome::Ended(why)
        }
    }
}

/// What git reported about our ref.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// It is there now.
    Done(&'static str),
    /// Git did not send it.
    Refused(String),
    /// The remote said no.
    RemoteRefused,
}

/// Reads the line of `git push --porcelain` about our ref: `<flag> TAB <from>:<to> TAB <summary> (<reason>)`.
fn read(report: &Report, target: &str) -> Option<Reply> {
    read_porcelain(&String::from_utf8_lossy(&report.stdout), target)
}

fn read_porcelain(out: &str, target: &str) -> Option<Reply> {
    let mut ours = out.lines().filter_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (flag, names, summary) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, to) = names.split_once(':')?;
        (to == target).then_some((flag, summary))
    });
    let (flag, summary) = ours.next()?;
    if ours.next().is_some() {
        return None;
    }
    match flag {
        "*" => Some(Reply::Done("new")),
        " " => Some(Reply::Done("updated")),
        "=" => Some(Reply::Done("up to date")),
        "!" if summary.starts_with("[rejected]") => Some(Reply::Refused(summary.to_owned())),
        "!" if summary.starts_with("[remote rejected]") => Some(Reply::RemoteRefused),
        _ => None,
    }
}

/// Asks the remote for its ref.
#[derive(Debug, Clone)]
pub struct GitPushLook {
    guard: Guard,
}

impl GitPushLook {
    /// Git runs below this guard.
    #[must_use]
    pub const fn new(guard: Guard) -> Self {
        Self { guard }
    }
}

#[async_trait]
impl Reconciler for GitPushLook {
    async fn look(&self, attempt: &Attempt) -> Result<Finding, Fault> {
        let (guard, attempt) = (self.guard.clone(), attempt.clone());
        blocking(move || look(&Runner::of(&guard, &attempt), &attempt)).await?
    }
}

fn look(runner: &Runner, attempt: &Attempt) -> Result<Finding, Fault> {
    let call = &attempt.call;
    let body = PushBody::parse(attempt.body())?;
    let git = Git { runner, dir: resolve(call.dir.as_deref(), body.dir.as_deref()) };
    find(&git, call, &body).or_else(|silent| Ok(Finding::Unknown(silent.fault)))
}

fn find(git: &Git<'_>, call: &Call, body: &PushBody) -> Result<Finding, Silent> {
    let target = call.operation.target.as_str();
    let at = remote_of(git, call)?;
    let ours = pushed(git, call, body)?;
    Ok(match (git.standing(&at, target, ours.as_deref())?, ours) {
        (Standing::Equal | Standing::Contains, Some(id)) => {
            Finding::Landed(receipt(&id, "found at the remote"))
        }
        (Standing::Beside(theirs), Some(id)) => {
            let why = format!("`{target}` is {theirs}, which neither contains {id} nor precedes it");
            Finding::Conflict(Fault::new("conflict", why))
        }
        // Without a commit of ours, absent is all that `standing` can say.
        (_, _) => Finding::NotLanded,
    })
}

/// The commit that an earlier attempt pushed: as kept, as named, as a late result says, or as it would be now.
fn pushed(git: &Git<'_>, call: &Call, body: &PushBody) -> Result<Option<String>, Silent> {
    if !body.is_name() {
        return Ok(Some(body.commit.clone()));
    }
    if let Some(id) = git.id(&format!("{}^{{object}}", pin_name(call)))? {
        return Ok(Some(id));
    }
    match &call.hint {
        Some(hint) if is_id(&hint.reference) => Ok(Some(hint.reference.clone())),
        Some(_) | None => git.id(&body.spec(&call.operation.target)),
    }
}

/// A receipt's detail.
#[derive(Serialize)]
struct Detail {
    push: &'static str,
}

fn receipt(id: &str, how: &'static str) -> Receipt {
    match serde_json::to_string(&Detail { push: how }).and_then(Raw::new) {
        Ok(raw) => Receipt::new(id).with_detail(raw),
        Err(_) => Receipt::new(id),
    }
}

/// How git ended, with the end of what it said.
fn fault(code: &str, report: &Report) -> Fault {
    let cut = if report.cut { ", cut at the deadline or by a cancel" } else { "" };
    let said = tail(&report.stderr, SHOWN_BYTES);
    Fault::new(code, format!("`git push` ended with {:?}{cut}; it said: {}", report.exit, said.trim()))
}

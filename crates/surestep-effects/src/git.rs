//! What `git.push` asks git for: a remote's place, a commit's id, and what stands at the remote.
//!
//! Every git runs below the guard, in the operation's folder, without a prompt and in plain English; it is read by
//! exit code, ids and porcelain, never by prose. What git cannot say is [`Silent`].
//!
//! Decisions: pushing and looking must speak of one place (`remote.rs`), so a remote with several push URLs is
//! refused; ancestry is judged on real objects (no replacements), and in a shallow clone *neither contains the
//! other* is not known.

use std::path::PathBuf;

use surestep::Fault;

use crate::command::{Command, Runner, SHOWN_BYTES, guard_fault, tail, would_repeat};
use crate::guard::{Exit, GuardError, Report};
use crate::remote::{Remote, Rewrite};

/// What a git hook, or whoever started us, may have set, and what would make our gits work on another repository.
const MISLEADING: [&str; 11] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
];

/// How each git starts. Nothing may stay behind in the background, and history is what it is.
const GIT: [&str; 6] =
    ["git", "--no-replace-objects", "-c", "gc.autoDetach=false", "-c", "maintenance.auto=false"];
/// An ssh that leaves no shared connection behind: the guard would wait for it until the deadline.
const PLAIN_SSH: &str = "ssh -o ControlMaster=no";

/// Git in one folder, on behalf of one attempt.
pub(crate) struct Git<'a> {
    /// Who runs it.
    pub(crate) runner: &'a Runner,
    /// Where.
    pub(crate) dir: Option<PathBuf>,
}

/// What a git that ended by itself said.
#[derive(Debug)]
struct Said {
    what: String,
    code: i32,
    out: String,
    err: String,
}

impl Said {
    /// It ended with another exit code than those that the question allows.
    fn odd(&self) -> Silent {
        Silent::for_good("git", format!("`git {}` ended with {}: {}", self.what, self.code, self.err.trim()))
    }
}

/// Git gave no answer that can be used.
#[derive(Debug)]
pub(crate) struct Silent {
    /// Why.
    pub(crate) fault: Fault,
    /// Whether asking again cannot help.
    pub(crate) for_good: bool,
}

impl Silent {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self { fault: Fault::new(code, message), for_good: false }
    }

    fn for_good(code: &str, message: impl Into<String>) -> Self {
        Self { fault: Fault::new(code, message), for_good: true }
    }
}

/// Where a remote's ref stands, seen from our commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is our commit.
    Equal,
    /// It has our commit in its history.
    Contains,
    /// Our commit has it in its history: not yet pushed.
    Behind,
    /// There is no such ref.
    Absent,
    /// It is this other thing.
    Beside(String),
}

impl Git<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut run = Vec::new();
        for name in MISLEADING.into_iter().filter(|name| std::env::var_os(name).is_some()) {
            run.extend(["-u".to_owned(), name.to_owned()]);
        }
        if !run.is_empty() {
            run.insert(0, "env".to_owned());
        }
        run.extend(GIT.iter().chain(args).map(|&arg| arg.to_owned()));
        let env = [("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Command { run, cwd: self.dir.clone(), env }
    }

    /// A command that speaks with a remote.
    fn remote_command(&self, at: &Remote, args: &[&str]) -> Command {
        let mut command = self.command(args);
        if at.ssh {
            command.env.push(("GIT_SSH_COMMAND".to_owned(), PLAIN_SSH.to_owned()));
        }
        command
    }

    fn ask(&self, args: &[&str]) -> Result<Said, Silent> {
        self.answer(args.first().copied().unwrap_or_default(), self.command(args))
    }

    fn answer(&self, what: &str, command: Command) -> Result<Said, Silent> {
        let report = self
            .runner
            .ask(command)
            .map_err(|error| Silent { fault: guard_fault(error), for_good: false })?;
        let code = match &report.exit {
            Exit::Code(code) if !report.cut => *code,
            Exit::NotStarted(why) => {
                let for_good = would_repeat(why);
                return Err(Silent { fault: Fault::new("not_started", why), for_good });
            }
            Exit::Code(_) | Exit::Signal(_) | Exit::Unknown(_) => {
                let why = format!("`git {what}` did not come to its end: {:?}", report.exit);
                return Err(Silent::new("git", why));
            }
        };
        if report.stdout_truncated {
            return Err(Silent::new("git", format!("`git {what}` said more than is kept")));
        }
        let out = String::from_utf8_lossy(&report.stdout).into_owned();
        Ok(Said { what: what.to_owned(), code, out, err: tail(&report.stderr, SHOWN_BYTES) })
    }

    /// The id of an object of the local repository, where there is one of this name.
    pub(crate) fn id(&self, spec: &str) -> Result<Option<String>, Silent> {
        let said = self.ask(&["rev-parse", "--verify", "--quiet", spec])?;
        match said.code {
            0 => Ok(Some(said.out.trim().to_owned())),
            1 => Ok(None),
            _ => Err(said.odd()),
        }
    }

    /// Keeps an id under a name, if that name is free; says which id it now has.
    pub(crate) fn pin(&self, name: &str, id: &str) -> Result<String, Silent> {
        let said = self.ask(&["update-ref", "--no-deref", name, id, ""])?;
        if said.code == 0 {
            return Ok(id.to_owned());
        }
        let refused = || Silent::new("pin", format!("`git update-ref {name}` refused: {}", said.err.trim()));
        self.id(&format!("{name}^{{object}}"))?.ok_or_else(refused)
    }

    /// What is meant by a repository: a remote's name here, else an URL or a path.
    pub(crate) fn remote(&self, repo: &str) -> Result<Remote, Silent> {
        let refused = |why| Silent::for_good("remote", why);
        let said = self.ask(&["remote", "get-url", "--push", "--all", "--", repo])?;
        let mut remote = if said.code == 0 {
            let mut urls = said.out.lines();
            let (Some(url), None) = (urls.next(), urls.next()) else {
                return Err(refused(format!("remote `{repo}` has several push URLs: name one of them")));
            };
            let fetch = self.ask(&["remote", "get-url", "--", repo])?;
            if fetch.code == 0 && fetch.out.trim_end_matches('\n') == url {
                Remote::new(repo, url)
            } else {
                let there = Remote::at(url, &self.rewrites()?).map_err(refused)?;
                Remote { push: repo.to_owned(), ..there }
            }
        } else {
            Remote::unnamed(repo, &self.rewrites()?).map_err(refused)?
        };
        // A chosen ssh stays as it was chosen.
        remote.ssh = remote.ssh
            && ["GIT_SSH_COMMAND", "GIT_SSH"].iter().all(|name| std::env::var_os(name).is_none())
            && self.ask(&["config", "--get", "core.sshCommand"])?.code == 1;
        Ok(remote)
    }

    /// The rewriting rules of the configuration.
    fn rewrites(&self) -> Result<Vec<Rewrite>, Silent> {
        let said = self.ask(&["config", "--null", "--get-regexp", r"^url\..*\.(push)?insteadof$"])?;
        match said.code {
            0 => Ok(said.out.split('\0').filter_map(Rewrite::parse).collect()),
            1 => Ok(Vec::new()),
            _ => Err(said.odd()),
        }
    }

    /// Asks the remote where its ref stands, seen from our commit; `None`: we do not know ours.
    pub(crate) fn standing(&self, at: &Remote, target: &str, ours: Option<&str>) -> Result<Standing, Silent> {
        let asked = self.remote_command(at, &["ls-remote", "--", &at.look, target]);
        let said = self.answer("ls-remote", asked)?;
        if said.code != 0 {
            return Err(said.odd());
        }
        let mut there =
            said.out.lines().filter_map(|line| line.split_once('\t')).filter(|(_, name)| *name == target);
        let theirs = match (there.next(), there.next()) {
            (None, _) => return Ok(Standing::Absent),
            (Some((id, _)), None) => id,
            (Some(_), Some(_)) => return Err(Silent::new("git", "the remote lists the ref twice")),
        };
        match ours {
            Some(ours) if ours == theirs => Ok(Standing::Equal),
            Some(_) if target.starts_with("refs/tags/") => Ok(Standing::Beside(theirs.to_owned())),
            Some(ours) => self.ancestry(at, target, ours, theirs),
            None => Err(Silent::new(
                "commit",
                format!("the remote has {theirs}, and our commit is not known here"),
            )),
        }
    }

    fn ancestry(&self, at: &Remote, target: &str, ours: &str, theirs: &str) -> Result<Standing, Silent> {
        let theirs_here = || self.id(&format!("{theirs}^{{commit}}"));
        if theirs_here()?.is_none() {
            // Objects only: no ref of the local repository moves.
            let quiet = ["--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-prune"];
            let more = ["--no-recurse-submodules", "--no-auto-maintenance", "--", &at.look, target];
            let fetch = self.remote_command(at, &[&["fetch"], &quiet[..], &more[..]].concat());
            let said = self.answer("fetch", fetch)?;
            if said.code != 0 {
                return Err(said.odd());
            }
            if theirs_here()?.is_none() {
                return Err(Silent::new("git", format!("the remote moved on from {theirs} meanwhile")));
            }
        }
        if self.is_ancestor(ours, theirs)? {
            return Ok(Standing::Contains);
        }
        if self.is_ancestor(theirs, ours)? {
            return Ok(Standing::Behind);
        }
        let shallow = self.ask(&["rev-parse", "--is-shallow-repository"])?;
        if shallow.out.trim() != "false" {
            return Err(Silent::new(
                "shallow",
                format!("a shallow clone cannot tell how {theirs} and {ours} relate"),
            ));
        }
        Ok(Standing::Beside(theirs.to_owned()))
    }

    fn is_ancestor(&self, ancestor: &str, of: &str) -> Result<bool, Silent> {
        let said = self.ask(&["merge-base", "--is-ancestor", ancestor, of])?;
        match said.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(said.odd()),
        }
    }

    /// Pushes one object to one ref, once, never by force, and nothing beside it.
    ///
    /// A guard's record says when all is over. Of a remote elsewhere no guard can say that, so there is none then.
    pub(crate) fn push(
        &self,
        to: &Remote,
        id: &str,
        target: &str,
        local: bool,
    ) -> Result<Report, GuardError> {
        let refspec = format!("{id}:{target}");
        let push =
            ["push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no", "--", &to.push, &refspec];
        let command = self.remote_command(to, &push);
        if local { self.runner.act(command, id) } else { self.runner.ask(command) }
    }
}

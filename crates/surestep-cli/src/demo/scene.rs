//! The demo's stage: a scratch repository, a bare remote that counts landings, a folder that plays the forge, a plan.
//!
//! What lands and then blocks does so by a handshake, never by luck: it lands, says so (`landed.NAME`), and waits for
//! `go.NAME`, for five seconds at most.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use surestep::StoreError;
use surestep::core::json::quote;
use surestep_file::Options;

use crate::fail::Fail;
use crate::text;

/// The demo's session.
pub(super) const SESSION: &str = "fix-118";

/// Who commits, and when: fixed, so that the commit's id is the same in every attempt.
const AUTHOR: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "demo"),
    ("GIT_AUTHOR_EMAIL", "demo@example.invalid"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "demo"),
    ("GIT_COMMITTER_EMAIL", "demo@example.invalid"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
];

const HANDSHAKE: &str = r#"n=0; while [ ! -e "$go" ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done"#;

/// What may land, and the file at the remote that has one line for each landing.
pub(super) const LANDINGS: [(&str, &str); 4] = [
    ("push", "remote.git/landings.log"),
    ("request", "forge/requests"),
    ("label", "forge/labels"),
    ("comment", "forge/comments"),
];

/// The stage.
pub(super) struct Scene {
    pub(super) dir: PathBuf,
    /// The kind of file system that does not keep its word, if it is one.
    pub(super) volatile: Option<String>,
    /// Removes the folder at the end, unless it is kept.
    _temporary: Option<tempfile::TempDir>,
}

impl Scene {
    /// Makes everything that the plan works on.
    pub(super) fn new(keep: Option<&Path>, check: bool) -> Result<Self, Fail> {
        let (dir, temporary) = folder(keep)?;
        let mut scene = Self { dir, volatile: None, _temporary: temporary };
        scene.volatile = scene.open_store()?;
        scene.repositories()?;
        scene.write("plan.json", &plan(check))?;
        if !check {
            scene.go("push")?;
        }
        Ok(scene)
    }

    pub(super) fn store(&self) -> PathBuf {
        self.dir.join(".surestep")
    }

    /// What stands for the user's state folder.
    pub(super) fn state(&self) -> PathBuf {
        self.dir.join(".state")
    }

    fn open_store(&self) -> Result<Option<String>, Fail> {
        let refuse = |e: StoreError| broken("the demo's store cannot be made", &e.to_string());
        match Options::default().open(self.store()) {
            Ok(_) => Ok(None),
            Err(StoreError::Volatile { kind, .. }) => {
                Options::default().allow_volatile(true).open(self.store()).map_err(refuse)?;
                Ok(Some(kind))
            }
            Err(e) => Err(refuse(e)),
        }
    }

    fn repositories(&self) -> Result<(), Fail> {
        self.git(&["init", "-q", "--bare", "-b", "main", "remote.git"])?;
        let hook = format!(
            "#!/bin/sh\nwhile read -r old new ref; do echo \"$new $ref\" >> landings.log; done\n\
             : > ../landed.push; go=../go.push; {HANDSHAKE}\n"
        );
        self.write("remote.git/hooks/post-receive", &hook)?;
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        let hook = self.dir.join("remote.git/hooks/post-receive");
        fs::set_permissions(&hook, mode).map_err(|e| io_fail("make executable", &hook, &e))?;
        self.git(&["init", "-q", "-b", "main", "work"])?;
        self.write("work/README", "A site.\n")?;
        self.git(&["-C", "work", "add", "README"])?;
        self.git(&["-C", "work", "commit", "-q", "-m", "First"])?;
        let forge = self.dir.join("forge");
        fs::create_dir(&forge).map_err(|e| io_fail("make", &forge, &e))
    }

    fn git(&self, args: &[&str]) -> Result<(), Fail> {
        let mut command = Command::new("git");
        clean_git(&mut command).args(args).current_dir(&self.dir).stdin(Stdio::null());
        let output = command.output().map_err(|e| broken("`git` cannot be run", &e.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(broken(&format!("`git {}` failed", args.join(" ")), &said))
    }

    fn write(&self, name: &str, content: &str) -> Result<(), Fail> {
        let path = self.dir.join(name);
        fs::write(&path, content).map_err(|e| io_fail("write", &path, &e))
    }

    /// Whether something landed and said so.
    pub(super) fn has_landed(&self, name: &str) -> bool {
        self.dir.join(format!("landed.{name}")).exists()
    }

    /// Lets what landed go on.
    pub(super) fn go(&self, name: &str) -> Result<(), Fail> {
        self.write(&format!("go.{name}"), "")
    }

    /// Landings, counted where they landed.
    pub(super) fn landings(&self) -> Vec<(&'static str, usize)> {
        let count =
            |file: &str| fs::read_to_string(self.dir.join(file)).map_or(0, |text| text.lines().count());
        LANDINGS.iter().map(|(name, file)| (*name, count(file))).collect()
    }
}

/// A git that sees nothing of the person's own settings.
pub(super) fn clean_git(command: &mut Command) -> &mut Command {
    for name in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CEILING_DIRECTORIES"]
    {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null").envs(AUTHOR)
}

fn folder(keep: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), Fail> {
    let Some(keep) = keep else {
        let made = tempfile::Builder::new().prefix("surestep-demo-").tempdir();
        let made = made.map_err(|e| broken("no temporary folder can be made", &e.to_string()))?;
        return Ok((made.path().to_owned(), Some(made)));
    };
    match fs::create_dir(keep) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_empty(keep) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let shown = text::tick(&keep.to_string_lossy());
            return Err(Fail::usage("SE0113", format!("{shown} exists and is not empty"))
                .state("nothing was written into it")
                .next("surestep demo --keep A-NEW-FOLDER"));
        }
        Err(e) => return Err(io_fail("make", keep, &e)),
    }
    let dir = fs::canonicalize(keep).map_err(|e| io_fail("find", keep, &e))?;
    Ok((dir, None))
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn io_fail(what: &str, path: &Path, e: &io::Error) -> Fail {
    broken(&format!("cannot {what} {}", text::tick(&path.to_string_lossy())), &e.to_string())
}

/// The demo cannot play.
pub(super) fn broken(what: &str, why: &str) -> Fail {
    Fail::new("SE0113", surestep::exit::UNEXPECTED, what)
        .whys(text::tail(why, 6))
        .state("nothing outside the demo's own folder was touched")
        .next_if("surestep demo --keep DIR", "to look at what it made")
        .next("surestep explain code SE0113")
}

/// The contribution: change, commit, push, request, label, comment.
fn plan(check: bool) -> String {
    let shell = |repo: &str, target: &str, run: &str, check: Option<&str>, env: &str| {
        let list = |script: &str| format!(r#"["sh","-c",{}]"#, quote(script));
        let check = check.map_or_else(String::new, |check| format!(r#","check":{}"#, list(check)));
        format!(
            r#"{{"kind":"shell","repo":"{repo}","target":"{target}","body":{{"run":{}{check},"local":true{env}}}}}"#,
            list(run)
        )
    };
    let env: Vec<String> =
        AUTHOR.iter().map(|(name, value)| format!("{}:{}", quote(name), quote(value))).collect();
    let env = format!(r#","env":{{{}}}"#, env.join(","));
    let forge = |file: &str, line: &str, after: &str| {
        format!(r#"echo "$SURESTEP_KEY {line}" >> forge/{file}{after}"#)
    };
    let look = |file: &str| format!(r#"grep -q "^$SURESTEP_KEY " forge/{file}"#);
    let commit = r#"cd work && git checkout -q -B fix-118 && git add CHANGE.md && git commit -q -m "Fix 118" -m "Surestep-Key: $SURESTEP_KEY""#;
    let committed = r#"git -C work log -1 --format=%B fix-118 -- | grep -q "$SURESTEP_KEY" || exit 1"#;
    let handshake = format!("; : > landed.request; go=go.request; {HANDSHAKE}");
    let operations = [
        r#"{"kind":"file.write","repo":"site","target":"work/CHANGE.md","body":{"content":"Fixes issue 118.\n"}}"#.to_owned(),
        shell("site", "commit", commit, Some(committed), &env),
        r#"{"kind":"git.push","repo":"../remote.git","target":"refs/heads/fix-118","body":{"dir":"work","commit":"refs/heads/fix-118"}}"#
            .to_owned(),
        shell("forge", "request", &forge("requests", "fix-118 -> main", &handshake), check.then(|| look("requests")).as_deref(), ""),
        shell("forge", "label", &forge("labels", "bug", ""), Some(&look("labels")), ""),
        shell("forge", "comment", &forge("comments", "Please have a look.", ""), Some(&look("comments")), ""),
    ];
    format!(
        "{{\"format\":\"surestep.plan/1\",\"session\":\"{SESSION}\",\"agent\":\"demo\",\"task\":\"Fix issue 118 and open a request\",\n\
         \"operations\":[\n  {}\n],\n\"verdict\":\"shipped\"}}\n",
        operations.join(",\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_of_the_demo_are_plans() {
        for check in [true, false] {
            let plan = surestep::Plan::parse(plan(check).as_bytes()).unwrap();
            assert_eq!(plan.operations.len(), 6);
            let request = plan.operations.get(3).unwrap().body.as_str().to_owned();
            assert_eq!(request.contains("check"), check);
        }
    }
}

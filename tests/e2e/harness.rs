//! What the end-to-end tests share: the real binary, scratch repositories, landings counted at the remote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::Deserialize;
use surestep_file::FileStore;

/// The real `surestep` binary, built once by cargo in the profile of this test.
pub(crate) fn surestep() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let exe = std::env::current_exe().expect("the test's own path");
        let folder = exe.parent().and_then(Path::parent).expect("target/PROFILE/deps/e2e");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "-q", "-p", "surestep-cli"]).current_dir(workspace());
        cargo.env("CARGO_TARGET_DIR", folder.parent().expect("target"));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo runs").success(), "the binary does not build");
        folder.join("surestep")
    })
}

/// The workspace's root.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// A tool that a test needs beyond Rust and git: in CI it must be there, elsewhere its test is skipped, with a reason.
pub(crate) fn need(tool: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {tool} >/dev/null")]).status();
    let there = found.is_ok_and(|status| status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "`{tool}` is missing, and CI must have it");
        println!("skipped: `{tool}` is not installed");
    }
    there
}

/// A scratch repository with its remote and forge (see tests/scratch.sh), and a store beside it.
pub(crate) struct Scratch {
    pub(crate) dir: tempfile::TempDir,
}

impl Scratch {
    /// A fresh one with repositories.
    pub(crate) fn new() -> Self {
        static TEMPLATE: OnceLock<tempfile::TempDir> = OnceLock::new();
        let template = TEMPLATE.get_or_init(|| {
            let dir = Self::bare().dir;
            let script = workspace().join("tests/scratch.sh");
            let made = Command::new("sh").arg(script).arg(dir.path()).stderr(Stdio::null()).status();
            assert!(made.expect("sh runs").success(), "the scratch repository cannot be made");
            dir
        });
        let scratch = Self::bare();
        let copied = Command::new("cp").arg("-a").arg(template.path().join(".")).arg(scratch.path()).status();
        assert!(copied.expect("cp runs").success(), "the scratch repository cannot be copied");
        scratch
    }

    /// A fresh one without repositories: only a folder `forge`.
    pub(crate) fn bare() -> Self {
        let base = workspace().join("target/e2e");
        std::fs::create_dir_all(&base).expect("a folder under target");
        let dir = tempfile::Builder::new().prefix("s-").tempdir_in(base).expect("a scratch folder");
        std::fs::create_dir(dir.path().join("forge")).expect("a forge");
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join(".surestep")
    }

    /// The folder that stands for the user's state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join(".state")
    }

    /// The store, opened in this process.
    pub(crate) fn open(&self) -> FileStore {
        let marks = Some(self.state().join("surestep"));
        FileStore::options().marks(marks).open(self.store()).expect("the store opens")
    }

    pub(crate) fn journal(&self, session: &str) -> PathBuf {
        self.store().join("sessions").join(session).join("journal")
    }

    /// The binary, in the scratch folder, with these arguments.
    pub(crate) fn command<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(surestep());
        command.args(args.iter().map(AsRef::as_ref)).current_dir(self.path());
        for name in ["SURESTEP_STORE", "SURESTEP_KEY", "SURESTEP_GUARD", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.state());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        command.stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<S: AsRef<str>>(&self, args: &[S]) -> Ran {
        Ran::of(self.command(args).output().expect("the binary runs"))
    }

    /// `show --json`, typed.
    pub(crate) fn show(&self, session: &str) -> Show {
        let ran = self.run(&["show", session, "--json"]);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("show --json: {e}\n{ran:?}"))
    }

    /// Lines of a file of the forge, or of any file in the scratch folder.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Landings of the contribution, counted where they land, by operation.
    pub(crate) fn landings(&self) -> BTreeMap<&'static str, usize> {
        let commits = Command::new("git")
            .args(["-C", "work", "log", "--format=%B", "fix-118"])
            .current_dir(self.path())
            .output()
            .expect("git runs");
        let commits = String::from_utf8_lossy(&commits.stdout).matches("Surestep-Key: ").count();
        let pushes = self.lines("remote.git/landings.log").iter().filter(|l| l.contains("fix-118")).count();
        let mut landings = BTreeMap::from([("commit", commits), ("push", pushes)]);
        for name in ["requests", "labels", "comments"] {
            landings.insert(name, self.lines(&format!("forge/{name}")).len());
        }
        landings
    }
}

/// Gives a command the environment of another one, which it wraps.
pub(crate) fn carry_env(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// What a finished process said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// What "same end" compares: the verdict, and each operation's number, key, state and receipt `ref`, in order.
pub(crate) type End = (Option<String>, Vec<EndLine>);

/// One operation of an [`End`].
pub(crate) type EndLine = (u32, String, String, Option<String>);

/// `show --json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Show {
    pub(crate) session: String,
    pub(crate) status: String,
    pub(crate) verdict: Option<String>,
    pub(crate) revision: u64,
    pub(crate) epoch: u64,
    pub(crate) operations: Vec<ShownOperation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ShownOperation {
    pub(crate) n: u32,
    pub(crate) key: String,
    pub(crate) kind: String,
    pub(crate) target: String,
    pub(crate) state: String,
    pub(crate) attempts: u32,
    pub(crate) receipt: Option<ShownReceipt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ShownReceipt {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
}

impl Show {
    /// What "same end" compares.
    pub(crate) fn end(&self) -> End {
        let line = |o: &ShownOperation| {
            (o.n, o.key.clone(), o.state.clone(), o.receipt.as_ref().map(|r| r.reference.clone()))
        };
        (self.verdict.clone(), self.operations.iter().map(line).collect())
    }
}

/// Polls until something holds, for at most so long.
#[track_caller]
pub(crate) fn wait_for(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How many commits a journal has.
pub(crate) fn commits(journal: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(journal) else { return 0 };
    let is_commit = |name: &str| name.len() == 13 && name.ends_with(".json") && !name.starts_with('.');
    entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_commit)).count()
}

/// A small random number, from the system.
pub(crate) fn random(below: u64) -> u64 {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).expect("random bytes");
    u64::from_le_bytes(bytes) % below.max(1)
}

/// The processes below one, by the kernel's own list.
pub(crate) fn below(pid: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parents.entry(parent.unwrap_or(0)).or_default().push(child);
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        for child in parents.get(&parent).into_iter().flatten() {
            found.push(*child);
            next.push(*child);
        }
    }
    found
}

/// SIGKILLs an engine and everything below it: guard, command, descendants. Engine and guard are stopped first, so
/// that neither sees the other die.
pub(crate) fn kill_below(child: &mut Child) {
    let signal = |pid: u32, signal| {
        let pid = rustix::process::Pid::from_raw(pid.try_into().expect("a pid")).expect("not 0");
        let _ = rustix::process::kill_process(pid, signal);
    };
    signal(child.id(), rustix::process::Signal::STOP);
    let all = below(child.id());
    for pid in &all {
        signal(*pid, rustix::process::Signal::STOP);
    }
    for pid in below(child.id()).into_iter().chain(all) {
        signal(pid, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

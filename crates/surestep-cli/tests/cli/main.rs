//! The real binary, as a person meets it: every exit code that the commands can give, and the screens that people read.

#![expect(clippy::expect_used, reason = "a harness: what cannot be set up is a failed test")]

mod doctor;
mod dry;
mod exits;
mod follow;
mod help;
mod matching;
mod odd;
mod screens;
mod settings;
mod streams;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder with a store of its own, on the disk that cargo builds on.
struct Desk {
    dir: tempfile::TempDir,
}

/// What a finished command said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Desk {
    fn new() -> Self {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Self { dir: tempfile::Builder::new().prefix("desk-").tempdir_in(base).expect("a scratch folder") }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("a file in the scratch folder");
        path
    }

    /// A plan of these operations.
    fn plan(&self, name: &str, session: &str, operations: &[String]) {
        let list = operations.join(",\n");
        let plan = format!(
            r#"{{"format":"surestep.plan/1","session":"{session}","agent":"ann","task":"Try it","verdict":"done","operations":[{list}]}}"#
        );
        self.file(name, &plan);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surestep"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in ["SURESTEP_STORE", "SURESTEP_CONFIG", "NO_COLOR", "LOGNAME"] {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.path().join(".state"));
        command.env("TZ", "UTC").env("USER", "ann");
        command
    }

    fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().expect("the binary runs"))
    }

    /// Starts it in the background, its streams thrown away.
    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
    }

    /// Waits until a file is there.
    fn wait_for(&self, name: &str) {
        let start = Instant::now();
        while !self.path().join(name).exists() {
            assert!(start.elapsed() < Duration::from_secs(20), "waited in vain for {name}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Said {
    fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    fn exits(self, code: u8) -> Self {
        assert_eq!(self.code, Some(i32::from(code)), "{self:#?}");
        self
    }

    /// Asserts that stderr holds the three things that every error and question must.
    #[track_caller]
    fn fails(self, code: &str) -> Self {
        let text = &self.stderr;
        assert!(text.contains(&format!("[{code}]: ")), "what happened, with {code}:\n{text}");
        assert!(text.contains("  state: "), "what was not done:\n{text}");
        assert!(
            text.contains("  next:  surestep ") || text.contains("  next:  --"),
            "the next command:\n{text}"
        );
        self
    }
}

/// A shell operation.
fn shell(target: &str, run: &str, more: &str) -> String {
    let run = run.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        r#"{{"kind":"shell","repo":"site","target":"{target}","body":{{"run":["sh","-c","{run}"]{more}}}}}"#
    )
}

/// Local, without a look-up.
const LOCAL: &str = r#","local":true"#;

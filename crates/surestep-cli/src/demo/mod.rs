//! `demo`: the newcomer's first minute. A contribution is made in a scratch repository; its workers are killed with
//! SIGKILL right after something landed and before that could be recorded; what landed is counted at the remote.
//!
//! ```text
//! with look-ups   run ✗ (worker, after the push) ─ resume ✗ (worker and guard, after the request) ─ resume ─ done
//! --no-check      run ✗ (worker and guard, after the request) ─ resume: a question ─ resolve ─ resume ─ done
//! ```

mod scene;
mod timeline;
mod worker;

use std::time::{Duration, Instant};

use serde::Serialize;
use surestep::{Engine, Envelope, SessionId, exit};

use self::scene::{SESSION, Scene, broken};
use self::worker::{Ended, Kill, Worker};
use crate::args;
use crate::context::{Context, Store, wall};
use crate::fail::Fail;
use crate::out::Ink;
use crate::text::{self, columns};
use crate::{duration, fails, view};

/// How long a killed worker's command may still run.
const WAIT: &str = "--wait=15s";

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DemoObject {
    schema: &'static str,
    exit: u8,
    check: bool,
    folder: Option<String>,
    session: &'static str,
    verdict: Option<String>,
    kills: Vec<KillView>,
    questions: usize,
    landings: Vec<Landing>,
    elapsed_ms: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KillView {
    after: &'static str,
    guard: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Landing {
    what: &'static str,
    count: usize,
}

/// The performance.
struct Stage<'a> {
    cx: &'a Context,
    scene: Scene,
    engine: Engine,
    kills: Vec<Kill>,
}

/// `demo`.
pub(crate) async fn demo(cx: &Context, args: &args::Demo) -> Result<u8, Fail> {
    let start = Instant::now();
    let check = !args.no_check;
    let scene = Scene::new(args.keep.as_deref(), check)?;
    let inner = cx.on_store(scene.store(), scene.volatile.is_some(), scene.state().join("surestep"));
    let engine = inner.engine(Store::MustExist, None)?;
    let mut stage = Stage { cx, scene, engine, kills: Vec::new() };
    stage.open(args.keep.is_some(), check);
    let mut questions = 0;
    if check {
        stage.killed("run", &["run", "plan.json"], 3, "push", false)?;
        stage.explain("Its guard, a small process that runs the command, outlived it and keeps the result for the next worker.");
        stage.killed("resume", &["resume", SESSION, WAIT], 4, "request", true)?;
        stage.explain("Nobody is left who knows how the request ended: it is in doubt. It will be looked up, by its key.");
        stage.to_its_end(&["resume", SESSION, WAIT])?;
    } else {
        stage.killed("run", &["run", "plan.json"], 4, "request", true)?;
        stage.explain("The request landed, nobody recorded it, and nothing can be asked. Running it again could open a second one.");
        questions = stage.asked()?;
        stage.to_its_end(&["resume", SESSION])?;
    }
    stage.close(args, check, questions, start.elapsed()).await
}

impl Stage<'_> {
    fn put(&self, line: &str) {
        self.cx.out.put(line);
    }

    fn title(&self, line: &str) {
        self.put("");
        self.put(&self.cx.out.ink(Ink::Strong, line));
    }

    fn explain(&self, line: &str) {
        self.put(&format!("  {line}"));
    }

    fn command(&self, words: &[&str]) {
        self.put(&self.cx.out.ink(
            Ink::Dim,
            &format!("  $ {}", text::command(std::iter::once("surestep").chain(words.iter().copied()))),
        ));
    }

    fn talk(&self, lines: &[String]) {
        for line in lines {
            self.put(&format!("    {}", text::line(line)));
        }
    }

    fn open(&self, keep: bool, check: bool) {
        let what = if check {
            "killed twice, and everything still happens once"
        } else {
            "killed, with nobody left to ask"
        };
        self.put(&self.cx.out.ink(Ink::Strong, &format!("surestep demo: a turn that is {what}")));
        let kept = if keep { "" } else { " (removed at the end; `--keep DIR` keeps it)" };
        self.explain(&format!("folder   {}{kept}", text::line(&self.scene.dir.to_string_lossy())));
        self.explain("plan     write a change, commit it, push it, open a request, label it, comment on it");
        self.explain("remote   a bare git repository and a folder that plays the forge; each landing adds a line there");
        if let Some(kind) = &self.scene.volatile {
            self.explain(&format!(
                "note     the folder is on {}, which may lose what it acknowledged when the machine crashes;",
                text::line(kind)
            ));
            self.explain("         allowed here (`--allow-volatile`), since nothing in it matters");
        }
    }

    /// A worker that is killed.
    fn killed(
        &mut self,
        verb: &str,
        words: &[&str],
        op: u32,
        what: &'static str,
        guard: bool,
    ) -> Result<(), Fail> {
        self.title(&format!("{verb}, and SIGKILL right after the {what} landed"));
        self.command(words);
        let worker = Worker::start(&self.scene, words)?;
        let (kill, said) = worker.kill_after(&self.scene, op, what, guard, || wall(&self.engine))?;
        self.talk(&said);
        let who = if guard { "the worker and its guard" } else { "the worker" };
        let line = format!("    SIGKILL to {who}: the {what} is at the remote, the journal does not know it");
        self.put(&self.cx.out.ink(Ink::Error, &line));
        self.kills.push(kill);
        self.count("at the remote now:");
        Ok(())
    }

    /// A worker that must ask, the question, and its answer.
    fn asked(&self) -> Result<usize, Fail> {
        self.title("resume: it does not guess, it asks");
        self.command(&["resume", SESSION, WAIT]);
        let ended = self.run(&["resume", SESSION, WAIT])?;
        self.expect(&ended, exit::PERSON)?;
        self.talk(&ended.talk.iter().filter(|l| l.starts_with("surestep:")).cloned().collect::<Vec<_>>());
        self.put(&format!("    exit code {}: a person must answer", exit::PERSON));
        self.put("");
        self.command(&["questions"]);
        let listed = self.run(&["questions"])?;
        self.expect(&listed, exit::PERSON)?;
        let plain = listed
            .stdout
            .replace(&format!(" --store {}", text::word(&self.scene.store().to_string_lossy())), "");
        self.talk(&plain.replace(" --allow-volatile", "").lines().map(str::to_owned).collect::<Vec<_>>());
        self.title("The answer: look at the remote, say what is there");
        let seen = self.scene.landings().into_iter().any(|(what, count)| what == "request" && count == 1);
        if !seen {
            return Err(broken(
                "the request is not at the remote",
                "the scene went otherwise than in the script",
            ));
        }
        self.explain("forge/requests has one line with the operation's key. So:");
        let words = ["resolve", SESSION, "4", "--landed", "--because", "the forge lists it"];
        self.command(&words);
        let ended = self.run(&words)?;
        self.expect(&ended, exit::DONE)?;
        self.talk(
            &ended.stdout.lines().filter(|l| !l.contains("to go on")).map(str::to_owned).collect::<Vec<_>>(),
        );
        Ok(1)
    }

    /// A worker that is let alone.
    fn to_its_end(&self, words: &[&str]) -> Result<(), Fail> {
        self.title("resume, and let it finish");
        self.command(words);
        let ended = self.run(words)?;
        self.talk(&ended.talk);
        self.expect(&ended, exit::DONE)
    }

    fn run(&self, words: &[&str]) -> Result<Ended, Fail> {
        Worker::start(&self.scene, words)?.wait()
    }

    fn expect(&self, ended: &Ended, code: u8) -> Result<(), Fail> {
        if ended.code == Some(i32::from(code)) {
            return Ok(());
        }
        let said = format!("{}\n{}", ended.stdout, ended.talk.join("\n"));
        Err(broken(&format!("the worker ended with exit code {:?} instead of {code}", ended.code), &said))
    }

    fn count(&self, label: &str) {
        let landings: Vec<String> =
            self.scene.landings().iter().map(|(what, count)| format!("{what} {count}")).collect();
        self.put(&format!("    {label} {}", landings.join(", ")));
    }

    /// The timeline, the counts, and what to try next.
    async fn close(
        self,
        args: &args::Demo,
        check: bool,
        questions: usize,
        elapsed: Duration,
    ) -> Result<u8, Fail> {
        let session =
            SessionId::new(SESSION).map_err(|e| broken("BUG: the demo's session", &e.to_string()))?;
        let envelope = self.engine.read(&session).await.map_err(|e| fails::of_step(self.cx, &e, &session))?;
        self.title("Timeline: the journal, with the kills put in");
        let moments = timeline::of(&envelope, &self.kills);
        let start = timeline::start(&moments).unwrap_or_else(|| wall(&self.engine));
        for moment in &moments {
            let line = moment.line(start);
            self.put(&if moment.kill { self.cx.out.ink(Ink::Error, &line) } else { line });
        }
        let once = self.counted();
        let verdict = view::verdict(envelope.session());
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.ending(&envelope, args, check, elapsed_ms);
        let exit = if once && verdict.as_deref() == Some("shipped") { exit::DONE } else { exit::UNEXPECTED };
        self.cx.out.object(&DemoObject {
            schema: "surestep.demo/1",
            exit,
            check,
            folder: args.keep.is_some().then(|| self.scene.dir.to_string_lossy().into_owned()),
            session: SESSION,
            verdict,
            kills: self.kills.iter().map(|kill| KillView { after: kill.after, guard: kill.guard }).collect(),
            questions,
            landings: self
                .scene
                .landings()
                .into_iter()
                .map(|(what, count)| Landing { what, count })
                .collect(),
            elapsed_ms,
        });
        if exit == exit::DONE {
            Ok(exit)
        } else {
            Err(broken("something did not land exactly once", "see the counts above"))
        }
    }

    /// The counts, taken at the remote.
    fn counted(&self) -> bool {
        self.title("Counted at the remote, not in the journal");
        let mut once = true;
        let rows: Vec<Vec<String>> = self
            .scene
            .landings()
            .into_iter()
            .zip(scene::LANDINGS)
            .map(|((what, count), (_, file))| {
                once &= count == 1;
                let word = if count == 1 { "once".to_owned() } else { format!("{count} times") };
                vec![format!("  {what}"), word, file.to_owned()]
            })
            .collect();
        for row in columns(&rows) {
            self.put(&self.cx.out.ink(if once { Ink::Good } else { Ink::Error }, &row));
        }
        once
    }

    fn ending(&self, envelope: &Envelope, args: &args::Demo, check: bool, elapsed_ms: u64) {
        let verdict = view::verdict(envelope.session()).unwrap_or_default();
        let kills = text::count(self.kills.len(), "kill");
        self.put("");
        self.put(&format!(
            "{}, verdict {}, {kills}, {} in the journal, {}",
            envelope.session().status(),
            text::tick(&verdict),
            text::count(envelope.commits().len(), "commit"),
            duration::short(elapsed_ms)
        ));
        match &args.keep {
            Some(_) => {
                let store = self.scene.store();
                let store = text::word(&store.to_string_lossy());
                let volatile = if self.scene.volatile.is_some() { " --allow-volatile" } else { "" };
                self.put(&format!("look around: surestep --store {store}{volatile} log {SESSION}"));
            }
            None if check => self
                .put("next: surestep demo --no-check   (the same, with nothing to ask: the honest question)"),
            None => {
                self.put("next: surestep demo --keep DIR   (keeps the folder: plan, repositories, journal)")
            }
        }
    }
}

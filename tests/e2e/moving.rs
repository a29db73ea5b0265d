//! A session on its way from one store to another, killed at every call that changes a disk: it steps in one place.
//!
//! Two stores with other roots, state folders, time zones and languages, as two machines would have. Landings are counted where they land.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use surestep::{Engine, Envelope, Kind, Revision, SessionId, Store as _};
use surestep_effects::guard::Guard;
use surestep_file::{FileStore, RealDisk};

use crate::harness::{Ran, Scratch, surestep};
use crate::kill_boundaries::KillDisk;

/// The worker: not a test of its own, it does nothing unless it is told to.
#[test]
fn worker() {
    let Ok(what) = std::env::var("SURESTEP_E2E_MOVE") else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let disk = KillDisk {
        real: RealDisk,
        count: Arc::default(),
        at: number("SURESTEP_E2E_KILL_AT"),
        boundaries_only: false,
        log: std::env::var_os("SURESTEP_E2E_LOG").map(PathBuf::from),
    };
    let root = if what == "export" { "a/store" } else { "b/store" };
    let store = FileStore::<RealDisk>::options().open_on(disk, root).expect("the store opens");
    let mut builder = Engine::builder(store).from_outside([Kind::new("shell").expect("a kind")]);
    for (effect, recovery) in surestep_effects::builtin(Guard::with_args(surestep(), ["__guard".into()])) {
        builder = builder.register(effect, recovery);
    }
    let engine = builder.build().expect("the engine");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let session = SessionId::new("m-1").expect("an id");
    if what == "export" {
        let to = std::env::var("SURESTEP_E2E_TO").expect("the other store's id");
        let envelope = runtime.block_on(engine.hand_off(&session, &to)).expect("it is handed off");
        std::fs::write("sent.json", envelope.to_json().expect("JSON")).expect("the envelope is written");
    } else {
        let sent = Envelope::parse(&std::fs::read("sent.json").expect("the envelope")).expect("whole");
        runtime.block_on(engine.take_in(&sent)).expect("it is taken in");
    }
}

fn store_id(scratch: &Scratch, root: &str) -> String {
    let store = FileStore::options().open(scratch.path().join(root)).expect("the store opens");
    store.id().to_owned()
}

/// One of the two machines: its own state folder, time zone and language.
fn machine(command: &mut Command, scratch: &Scratch, which: &str) {
    let (zone, language) = if which == "a" { ("UTC", "C") } else { ("Pacific/Auckland", "de_DE.UTF-8") };
    command
        .env("XDG_STATE_HOME", scratch.path().join(which).join("state"))
        .env("TZ", zone)
        .env("LANG", language)
        .env("LC_ALL", language);
}

fn at(scratch: &Scratch, which: &str, args: &[&str]) -> Ran {
    let store = format!("{which}/store");
    let mut all = vec!["--store", &store];
    all.extend_from_slice(args);
    let mut command = scratch.command(&all);
    machine(&mut command, scratch, which);
    Ran::of(command.output().expect("the binary runs"))
}

fn move_it(scratch: &Scratch, what: &str, to: &str, kill_at: usize, log: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("the test's own path"));
    command
        .args(["moving::worker", "--exact", "--quiet"])
        .current_dir(scratch.path())
        .env("SURESTEP_E2E_MOVE", what)
        .env("SURESTEP_E2E_TO", to)
        .env("SURESTEP_E2E_KILL_AT", kill_at.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    machine(&mut command, scratch, if what == "export" { "a" } else { "b" });
    if let Some(log) = log {
        command.env("SURESTEP_E2E_LOG", log);
    }
    command.status().expect("the worker runs").success()
}

/// A session at store `a` with one operation landed and two that could run at once; store `b` is empty.
fn template() -> (Scratch, String) {
    let scratch = Scratch::bare();
    let op = |target: &str, more: &str| {
        format!(
            r#"{{"kind":"shell","repo":"r","target":"{target}","body":{{"run":["sh","-c","echo x >> {target}"],"local":true}}{more}}}"#
        )
    };
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"m-1","verdict":"moved","conversation":[{{"role":"user","content":"go"}}],"operations":[{},{},{}]}}"#,
        op("one", ""),
        op("two", r#","approval":"required""#),
        op("three", "")
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    at(&scratch, "a", &["run", "plan.json"]).exits(4);
    at(&scratch, "a", &["approve", "m-1", "2", "--because", "go"]).exits(0);
    at(&scratch, "b", &["exec", "--session", "other", "--target", "t", "--local", "--", "true"]).exits(0);
    let to = store_id(&scratch, "b/store");
    (scratch, to)
}

/// Relative paths are read in the folder where the plan was first run, which is the template's.
fn landings(template: &Path) -> Vec<usize> {
    let count = |name: &str| std::fs::read_to_string(template.join(name)).unwrap_or_default().lines().count();
    ["one", "two", "three"].map(count).to_vec()
}

#[test]
fn killed_at_every_call_of_export_and_import_the_session_lives_in_exactly_one_place() {
    let every = if std::env::var_os("SURESTEP_ALL_PAIRS").is_some() { 1 } else { 5 };
    let (exports, imports) = {
        // Made anew like each of those below: a copy has another root to remember, and so other calls.
        let (control, to) = template();
        assert!(move_it(&control, "export", &to, 0, Some("exports.log")));
        assert!(move_it(&control, "import", &to, 0, Some("imports.log")));
        (control.lines("exports.log").len(), control.lines("imports.log").len())
    };
    assert!(exports > 5 && imports > 10, "{exports} calls to export, {imports} to import");
    println!("{exports} calls of an export and {imports} of an import, killed before every {every}.");
    let points: Vec<(usize, usize)> = (1..=exports)
        .map(|k| (k, 0))
        .chain((1..=imports).map(|k| (0, k)))
        .skip(crate::harness::random(every) as usize)
        .step_by(usize::try_from(every).expect("small"))
        .collect();
    let next = AtomicUsize::new(0);
    let ran_at_a = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((export, import)) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Each has a folder of its own for its landings: the plan's folder is part of what was bound.
                    let (own, to) = template();
                    let killed = !move_it(&own, "export", &to, *export, None);
                    assert_eq!(killed, *export > 0, "export at {export}");
                    if *export > 0 {
                        // Whoever owns it now goes on; nobody else can.
                        let here = at(&own, "a", &["resume", "m-1"]);
                        ran_at_a.fetch_add(usize::from(here.code == Some(0)), Ordering::Relaxed);
                        assert!(matches!(here.code, Some(0 | 6)), "{here:?}");
                        assert_eq!(at(&own, "b", &["resume", "m-1"]).code, Some(10));
                        assert!(move_it(&own, "export", &to, 0, None));
                    }
                    let killed = !move_it(&own, "import", &to, *import, None);
                    assert_eq!(killed, *import > 0, "import at {import}");
                    if *import > 0 {
                        let before = landings(own.path());
                        let there = at(&own, "b", &["resume", "m-1"]);
                        assert!(matches!(there.code, Some(0 | 6 | 10)), "{there:?}");
                        if there.code != Some(0) {
                            assert_eq!(landings(own.path()), before, "it ran where it was not taken in");
                        }
                        assert!(move_it(&own, "import", &to, 0, None));
                    }
                    at(&own, "b", &["resume", "m-1"]).exits(0);
                    at(&own, "a", &["resume", "m-1"]).exits(6);
                    assert_eq!(landings(own.path()), [1, 1, 1], "{export}, {import}");
                    // Asked again, nothing moves.
                    assert!(move_it(&own, "import", &to, 0, None));
                    let first = std::fs::read(own.path().join("sent.json")).expect("the envelope");
                    assert!(move_it(&own, "export", &to, 0, None));
                    assert_eq!(std::fs::read(own.path().join("sent.json")).expect("the envelope"), first);
                }
            });
        }
    });
    assert!(ran_at_a.into_inner() > 0, "no export was killed before it was durable");
}

#[test]
fn an_envelope_that_is_imported_at_two_stores_steps_at_one() {
    let (own, to) = template();
    assert!(move_it(&own, "export", &to, 0, None));
    at(&own, "c", &["exec", "--session", "other", "--target", "t", "--local", "--", "true"]).exits(0);
    for args in [&["import", "sent.json", "--allow", "shell"][..], &["step", "sent.json", "--allow", "shell"]]
    {
        let refused = at(&own, "c", args).exits(6);
        assert!(refused.stderr.contains("SE0804") && refused.stdout.is_empty(), "{refused:?}");
    }
    at(&own, "b", &["import", "sent.json", "--allow", "shell"]).exits(0);
    at(&own, "b", &["resume", "m-1"]).exits(0);
    assert_eq!(landings(own.path()), [1, 1, 1]);
    at(&own, "c", &["show", "m-1"]).exits(10);
}

#[test]
fn a_relay_in_any_language_steps_an_envelope_through_stdin_and_stdout() {
    let own = Scratch::bare();
    let plan = r#"{"format":"surestep.plan/1","verdict":"done","operations":[{"kind":"shell","repo":"r","target":"t","body":{"run":["sh","-c","echo x >> one"],"local":true}}]}"#;
    let envelope = Envelope::new(SessionId::new("relay-1").expect("an id"))
        .with_plan(surestep::Plan::parse(plan.as_bytes()).expect("a plan"));
    let text = envelope.to_json().expect("JSON");
    let text = format!(r#"{},"ext":{{"relay":"mine"}},"hop":7}}"#, text.trim_end_matches('}'));
    let text = if Envelope::parse(text.as_bytes()).is_ok() {
        text
    } else {
        // The document ends with nested objects: put the fields of others at its front.
        envelope.to_json().expect("JSON").replacen('{', r#"{"ext":{"relay":"mine"},"hop":7,"#, 1)
    };
    let step = |text: &str, args: &[&str]| {
        use std::io::Write as _;
        let mut command = own.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        child.stdin.take().expect("stdin").write_all(text.as_bytes()).expect("written");
        Ran::of(child.wait_with_output().expect("it ends"))
    };
    let refused = step(&text, &["step", "-"]).exits(2);
    assert!(refused.stderr.contains("SE0217") && refused.stdout.is_empty(), "{refused:?}");
    assert!(!own.path().join("one").exists());
    assert!(!own.path().join(".surestep").exists(), "a refused plan makes no store");
    let ran = step(&text, &["step", "-", "--allow", "shell"]).exits(0);
    let next = Envelope::parse(ran.stdout.as_bytes()).expect("an envelope comes back");
    assert_eq!(next.session().revision, Revision::new(2));
    assert!(ran.stdout.contains(r#""hop":7"#) && ran.stdout.contains(r#""ext":{"relay":"mine"}"#), "{ran:?}");
    // The old envelope again, and the new one: nothing is repeated.
    for again in [&text, &ran.stdout] {
        step(again, &["step", "-", "--allow", "shell"]).exits(0);
    }
    assert_eq!(own.lines("one").len(), 1);
    // What the settings allow need not be named again, and what they do not allow stays refused.
    std::fs::write(own.path().join("surestep.toml"), "[allow]\nkinds = [\"file.write\"]\n").expect("written");
    let text = text.replace("relay-1", "relay-2");
    step(&text, &["--store", "other", "step", "-"]).exits(2);
    std::fs::write(own.path().join("surestep.toml"), "[allow]\nkinds = [\"shell\"]\n").expect("written");
    step(&text, &["--store", "other", "step", "-"]).exits(0);
    assert_eq!(own.lines("one").len(), 2);
}

#[test]
fn a_store_put_back_to_before_a_hand_off_does_not_go_on_with_the_session() {
    let (own, to) = template();
    let copied = Command::new("cp").args(["-a", "a/store", "a/older"]).current_dir(own.path()).status();
    assert!(copied.expect("cp runs").success());
    assert!(move_it(&own, "export", &to, 0, None));
    at(&own, "b", &["import", "sent.json", "--allow", "shell"]).exits(0);
    std::fs::remove_dir_all(own.path().join("a/store")).expect("the store is removed");
    std::fs::rename(own.path().join("a/older"), own.path().join("a/store"))
        .expect("the older one is put back");
    at(&own, "a", &["resume", "m-1"]).exits(8);
    let refused = at(&own, "a", &["fsck", "--restored", "m-1"]).exits(6);
    assert!(refused.stderr.contains("handed off") && refused.stderr.contains(&to), "{refused:?}");
    at(&own, "a", &["fsck", "--restored"]).exits(0);
    at(&own, "a", &["resume", "m-1"]).exits(8);
    at(&own, "b", &["resume", "m-1"]).exits(0);
    assert_eq!(landings(own.path()), [1, 1, 1]);
}

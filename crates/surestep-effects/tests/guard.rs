//! The guard with real processes: what it waits for, what it cuts, and what outlives whom.
//!
//! An engine that is to be killed is this test binary, started again at `engine_helper`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};
use surestep_effects::guard::{
    Exit, Guard, GuardError, Job, Label, Record, RecordState, Report, TAIL_BYTES, read_record, since_boot_ms,
};

const GUARD: &str = env!("CARGO_BIN_EXE_surestep-guard");
const ENGINE: &str = "SURESTEP_TEST_ENGINE";

/// A folder with a lock file and room for a record.
struct Room {
    dir: tempfile::TempDir,
}

impl Room {
    fn new() -> Room {
        Room { dir: tempfile::tempdir().unwrap() }
    }

    fn at(dir: &Path) -> (PathBuf, PathBuf) {
        (dir.join("lock"), dir.join("record.json"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn record(&self) -> Record {
        read_record(self.path("record.json")).unwrap()
    }

    fn job(&self, script: &str, budget: Duration) -> Job {
        job(self.dir.path(), script, budget)
    }

    fn is_locked(&self) -> bool {
        lock(&self.path("lock")).is_err()
    }

    /// Wait until the record shows an end.
    fn ended(&self) -> RecordState {
        until("the record says ended", || {
            let record = read_record(self.path("record.json")).ok()?;
            matches!(record.state, RecordState::Ended { .. }).then_some(record.state)
        })
    }

    /// What a command wrote into a file of this folder, once it is there.
    fn written(&self, name: &str) -> String {
        until(name, || fs::read_to_string(self.path(name)).ok().filter(|text| text.ends_with('\n')))
            .trim()
            .to_owned()
    }

    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.written(name).parse().unwrap()).unwrap()
    }

    /// Start an engine that locks and runs the script, in a process of its own.
    fn engine(&self, script: &str, budget: Duration) -> Engine {
        let budget_ms = budget.as_millis().to_string();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "engine_helper", "--nocapture"])
            .env(ENGINE, self.dir.path())
            .env("SCRIPT", script)
            .env("BUDGET_MS", budget_ms)
            // As if it ran below another guard: both marks must stay findable.
            .env("SURESTEP_GUARD", "1-2-3")
            .process_group(0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Engine(child)
    }
}

struct Engine(Child);

impl Engine {
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn job(dir: &Path, script: &str, budget: Duration) -> Job {
    Job {
        secrets: Vec::new(),
        run: ["sh", "-c", script].map(str::to_owned).to_vec(),
        cwd: Some(dir.to_owned()),
        env: vec![("EXTRA".to_owned(), "extra".to_owned())],
        deadline_boot_ms: since_boot_ms() + u64::try_from(budget.as_millis()).unwrap(),
        label: Label { session: "s-1".to_owned(), operation: 7, key: "k-1".to_owned(), attempt: 2, epoch: 3 },
        record: Some(Room::at(dir).1),
        receipt: Some("r-1".to_owned()),
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(start.elapsed() < seconds(10.0), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_gone(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

/// Gone, or a zombie that holds nothing any more: not every pid 1 reaps in time.
fn is_dead(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.ok().is_none_or(|stat| stat.contains(") Z "))
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{program} is missing, and CI must have it");
        println!("skipped: there is no {program} here");
    }
    found
}

fn run(room: &Room, script: &str, budget: Duration) -> Report {
    let file = lock(&room.path("lock")).unwrap();
    Guard::new(GUARD).run(Some(&file), &room.job(script, budget)).unwrap()
}

/// The engine of the tests that kill one; a test without its variable does nothing.
#[test]
fn engine_helper() {
    let Some(dir) = std::env::var_os(ENGINE).map(PathBuf::from) else { return };
    let (lock_path, _) = Room::at(&dir);
    let file = lock(&lock_path).unwrap();
    let budget_ms = std::env::var("BUDGET_MS").unwrap().parse().unwrap();
    let script = std::env::var("SCRIPT").unwrap();
    let job = job(&dir, &script, Duration::from_millis(budget_ms));
    Guard::new(GUARD).run(Some(&file), &job).unwrap();
}

#[test]
fn the_exit_code_and_the_tails_come_back_and_stay_in_the_record() {
    let room = Room::new();
    let script = "echo $SURESTEP_SESSION $SURESTEP_KEY $SURESTEP_ATTEMPT $SURESTEP_EPOCH $EXTRA; \
        pwd >&2; cat; exit 7";
    let report = run(&room, script, seconds(10.0));
    assert_eq!(report.exit, Exit::Code(7));
    assert!(!report.cut && report.survivors.is_empty());
    assert_eq!(report.stdout, b"s-1 k-1 2 3 extra\n");
    let cwd = format!("{}\n", room.dir.path().canonicalize().unwrap().display());
    assert_eq!(report.stderr, cwd.as_bytes());
    assert!(report.ended_boot_ms <= since_boot_ms());
    assert!(!room.is_locked(), "the guard has gone with its report");

    let record = room.record();
    assert_eq!(record.label.operation, 7);
    assert_eq!(record.boot, report.boot);
    assert_eq!(
        record.state,
        RecordState::Ended {
            exit: Exit::Code(7),
            cut: false,
            stdout: "s-1 k-1 2 3 extra\n".to_owned(),
            stdout_truncated: false,
            stderr: cwd,
            stderr_truncated: false,
            ended_boot_ms: report.ended_boot_ms,
        }
    );
    assert!(!record.still_running());
    let mode = fs::metadata(room.path("record.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(room.dir.path()).unwrap().count(), 2, "no scratch file stays");
}

#[test]
fn a_signal_is_told_from_an_exit_code() {
    let room = Room::new();
    let report = run(&room, "kill -TERM $$", seconds(10.0));
    assert_eq!((report.exit, report.cut), (Exit::Signal(15), false));
}

#[test]
fn what_was_never_started_says_so() {
    let room = Room::new();
    let start = |change: &dyn Fn(&mut Job)| {
        let mut job = room.job("echo ran > ran", seconds(10.0));
        change(&mut job);
        match Guard::new(GUARD).run(None, &job).unwrap().exit {
            Exit::NotStarted(why) => why,
            exit @ (Exit::Code(_) | Exit::Signal(_) | Exit::Unknown(_)) => panic!("{exit:?}"),
        }
    };
    let why = start(&|job| job.run = vec!["/no/such/program".to_owned()]);
    assert!(why.contains("/no/such/program"), "{why}");
    assert!(matches!(room.record().state, RecordState::Ended { exit: Exit::NotStarted(_), cut: false, .. }));
    let why = start(&|job| job.cwd = Some(PathBuf::from("/no/such/folder")));
    assert!(why.contains("/no/such/folder"), "{why}");
    let why = start(&|job| job.deadline_boot_ms = since_boot_ms());
    assert!(why.contains("deadline"), "{why}");
    let why = start(&|job| job.record = Some(PathBuf::from("/no/such/folder/record")));
    assert!(why.contains("/no/such/folder/record"), "{why}");
    let why = start(&|job| job.run.clear());
    assert!(why.contains("no command"), "{why}");
    let nul = start(&|job| job.run.push("a\0b".to_owned()));
    assert!(nul.contains("starting"), "{nul}");
    assert!(!room.path("ran").exists());
}

#[test]
fn a_guard_that_cannot_start_or_dies_before_the_command_is_not_started() {
    let room = Room::new();
    let job = room.job("true", seconds(10.0));
    for guard in ["/no/such/guard", "/bin/true"] {
        let error = Guard::new(guard).run(None, &job).unwrap_err();
        assert!(matches!(error, GuardError::NotStarted { .. }), "{guard}: {error:?}");
    }
}

#[test]
fn an_engine_that_is_gone_before_the_command_gets_nothing_started() {
    let room = Room::new();
    let order = serde_json::json!({
        "run": ["sh", "-c", "echo ran > ran"],
        "cwd": room.dir.path().to_str().unwrap().as_bytes(),
        "env": [],
        "deadline_boot_ms": since_boot_ms() + 10_000,
        "label": {"session": "s", "operation": 1, "key": "k", "attempt": 1, "epoch": 1},
        "record": room.path("record.json").to_str().unwrap().as_bytes(),
        "secrets": [],
        "locked": false,
    })
    .to_string();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&u32::try_from(order.len()).unwrap().to_be_bytes()).unwrap();
    ours.write_all(order.as_bytes()).unwrap();
    drop(ours);
    let guard = Command::new(GUARD).stdout(OwnedFd::from(theirs)).status().unwrap();
    assert!(guard.success());
    assert!(!room.path("ran").exists());
    let RecordState::Ended { exit, .. } = room.ended() else { unreachable!() };
    assert!(matches!(&exit, Exit::NotStarted(why) if why.contains("engine")), "{exit:?}");
}

#[test]
fn started_by_hand_it_says_so() {
    let output = Command::new(GUARD).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not by hand"));
}

#[test]
fn a_guard_that_is_killed_while_the_command_runs_is_lost() {
    let room = Room::new();
    let error =
        Guard::new(GUARD).run(None, &room.job("kill -KILL $PPID; sleep 0.2", seconds(10.0))).unwrap_err();
    assert!(matches!(error, GuardError::Lost { .. }), "{error:?}");
    assert_eq!(room.record().state, RecordState::Begun);
}

#[test]
fn a_background_child_is_waited_for() {
    let room = Room::new();
    let script = "(sleep 0.6; echo late > late) >/dev/null 2>&1 & echo early";
    let start = Instant::now();
    let report = run(&room, script, seconds(10.0));
    assert!(start.elapsed() >= seconds(0.6));
    assert_eq!((report.exit, report.cut), (Exit::Code(0), false));
    assert!(room.path("late").exists());
}

#[test]
fn the_deadline_cuts_the_command_and_its_background_children() {
    let room = Room::new();
    let script = "sleep 60 & echo $! > child; setsid sleep 61 & echo $! > apart; sleep 62";
    let start = Instant::now();
    let report = run(&room, script, seconds(0.5));
    assert!(start.elapsed() < seconds(2.0));
    assert_eq!((report.exit, report.cut), (Exit::Signal(9), true));
    assert!(is_gone(room.pid("child")) && is_gone(room.pid("apart")));
}

#[test]
fn a_daemon_that_forked_twice_and_closed_everything_is_cut() {
    let room = Room::new();
    if !has("python3") {
        return;
    }
    fs::write(
        room.path("daemon.py"),
        "import os, time\n\
         if os.fork(): os._exit(0)\n\
         os.setsid()\n\
         if os.fork(): os._exit(0)\n\
         os.chdir('/')\n\
         os.closerange(0, 4096)\n\
         os.environ.clear()\n\
         fd = os.open(DIR + '/daemon', os.O_CREAT | os.O_WRONLY)\n\
         os.write(fd, b'%d\\n' % os.getpid())\n\
         os.close(fd)\n\
         time.sleep(60)\n"
            .replace("DIR", &format!("{:?}", room.dir.path())),
    )
    .unwrap();
    let start = Instant::now();
    let report = run(&room, "python3 daemon.py", seconds(2.0));
    assert!(start.elapsed() >= seconds(2.0), "the daemon was waited for");
    assert_eq!((report.exit, report.cut), (Exit::Code(0), true));
    assert!(is_gone(room.pid("daemon")));
    assert!(!room.is_locked());
}

#[test]
fn a_detached_node_child_is_cut() {
    let room = Room::new();
    if !has("node") {
        return;
    }
    let script = "node -e \"const c = require('child_process').spawn('sleep', ['60'], \
        {detached: true, stdio: 'ignore'}); \
        require('fs').writeFileSync('detached', c.pid + '\\n'); c.unref()\"";
    let report = run(&room, script, seconds(2.5));
    assert_eq!((report.exit, report.cut), (Exit::Code(0), true));
    assert!(is_gone(room.pid("detached")));
}

#[test]
fn a_crowd_that_keeps_forking_is_cut() {
    let room = Room::new();
    let script = "f() { while :; do setsid sleep 30 & sleep 0.01; done; }; f & f & f & wait";
    let report = run(&room, script, seconds(0.5));
    assert!(report.cut && report.survivors.is_empty(), "{report:?}");
    assert!(!room.is_locked());
}

#[test]
fn a_flood_of_output_does_not_block_and_leaves_its_end() {
    let room = Room::new();
    let script = "head -c 50000000 /dev/zero; echo end; head -c 50000000 /dev/zero >&2";
    let report = run(&room, script, seconds(20.0));
    assert_eq!(report.exit, Exit::Code(0));
    assert_eq!((report.stdout.len(), report.stdout_truncated), (TAIL_BYTES, true));
    assert_eq!((report.stderr.len(), report.stderr_truncated), (TAIL_BYTES, true));
    assert!(report.stdout.ends_with(b"\0end\n"));
}

#[test]
fn the_command_outlives_its_engine_under_the_lock_and_leaves_its_exit_code() {
    let room = Room::new();
    let engine = room.engine("echo $$ > pid; sleep 1; echo late; exit 3", seconds(10.0));
    room.pid("pid");
    engine.kill();
    assert!(room.is_locked(), "the guard holds the lock");
    let record = room.record();
    assert_eq!(record.state, RecordState::Begun);
    assert!(record.still_running());
    let living: Vec<_> = record.living().into_iter().map(|process| process.command).collect();
    assert!(living.iter().any(|command| command.starts_with("surestep-guard")), "{living:?}");
    assert!(living.iter().any(|command| command.starts_with("sh -c")), "{living:?}");

    let RecordState::Ended { exit, cut, stdout, .. } = room.ended() else { unreachable!() };
    assert_eq!((exit, cut, stdout.as_str()), (Exit::Code(3), false, "late\n"));
    until("the lock is free", || (!room.is_locked()).then_some(()));
    assert!(!room.record().still_running());
}

#[test]
fn the_lock_is_never_free_before_the_record_says_ended() {
    let room = Room::new();
    let engine = room.engine("echo $$ > pid; sleep 0.5", seconds(10.0));
    room.pid("pid");
    engine.kill();
    until("the lock is free", || (!room.is_locked()).then_some(()));
    assert!(matches!(room.record().state, RecordState::Ended { .. }));
}

#[test]
fn the_deadline_is_kept_without_an_engine() {
    let room = Room::new();
    let engine = room.engine("echo $$ > pid; setsid sleep 60 & sleep 61", seconds(1.0));
    let pid = room.pid("pid");
    engine.kill();
    assert!(room.is_locked());
    let RecordState::Ended { exit, cut, .. } = room.ended() else { unreachable!() };
    assert_eq!((exit, cut), (Exit::Signal(9), true));
    assert!(is_gone(pid));
    until("the lock is free", || (!room.is_locked()).then_some(()));
}

#[test]
fn the_descendants_of_a_killed_guard_still_hold_the_lock() {
    let room = Room::new();
    let engine = room.engine("echo $PPID > guard; sleep 1.2", seconds(10.0));
    let guard = room.pid("guard");
    engine.kill();
    rustix::process::kill_process(guard, Signal::KILL).unwrap();
    until("the guard is dead", || is_dead(guard).then_some(()));
    assert!(room.is_locked(), "the command holds the lock");
    let record = room.record();
    assert_eq!(record.state, RecordState::Begun);
    assert!(record.still_running(), "the command bears the guard's mark");
    until("the lock is free", || (!room.is_locked()).then_some(()));
    assert_eq!(room.record().state, RecordState::Begun, "nobody was there to say more");
    assert!(!room.record().still_running());
}

#[test]
fn an_interrupt_at_the_terminal_does_not_reach_the_command() {
    let room = Room::new();
    let mut engine = room.engine("echo $$ > pid; sleep 0.5; echo done > done", seconds(10.0));
    room.pid("pid");
    let group = Pid::from_child(&engine.0);
    // Both: where a test runs in a shell's background, interrupts are ignored from the start.
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    rustix::process::kill_process_group(group, Signal::TERM).unwrap();
    assert!(!engine.0.wait().unwrap().success(), "the engine itself is interrupted");
    assert_eq!(room.written("done"), "done");
    assert!(matches!(room.ended(), RecordState::Ended { exit: Exit::Code(0), .. }));
}

#[test]
fn the_lock_does_not_leak_into_other_children_of_the_host() {
    let room = Room::new();
    let file = lock(&room.path("lock")).unwrap();
    let job = room.job("sleep 0.3", seconds(10.0));
    let mut stranger = None;
    std::thread::scope(|scope| {
        scope.spawn(|| Guard::new(GUARD).run(Some(&file), &job).unwrap());
        until("the record", || room.path("record.json").exists().then_some(()));
        stranger = Some(Command::new("sleep").arg("5").spawn().unwrap());
    });
    drop(file);
    assert!(!room.is_locked());
    let mut stranger = stranger.unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Needs root: a process that the guard may not kill is one that turned into another user.
#[test]
fn a_survivor_is_named_and_keeps_the_lock_until_it_is_gone() {
    let tool = Path::new("/usr/bin/setpriv");
    if !rustix::process::geteuid().is_root() || !tool.exists() {
        println!("skipped: needs root and setpriv");
        return;
    }
    let room = Room::new();
    let file = lock(&room.path("lock")).unwrap();
    fs::set_permissions(room.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let guard = room.path("surestep-guard");
    let rising = room.path("rising");
    // By `cp`: a descriptor open for writing here, inherited by another test's fork, makes the copy
    // "text file busy".
    for (from, to) in [(Path::new(GUARD), &guard), (tool, &rising)] {
        assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
    }
    fs::set_permissions(&rising, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(fs::metadata(&rising).unwrap().uid(), 0);

    let falling = ["--reuid=65534", "--clear-groups", guard.to_str().unwrap()].map(Into::into);
    let job = room.job("./rising --reuid=0 --clear-groups sleep 4", seconds(0.5));
    let report = Guard::with_args(tool, falling).run(Some(&file), &job).unwrap();
    assert!(matches!(report.exit, Exit::Unknown(_)), "{report:?}");
    assert!(report.cut);
    let named: Vec<_> = report.survivors.iter().map(|it| it.command.as_str()).collect();
    assert_eq!(named, ["sleep 4"]);
    assert_eq!(room.record().state, RecordState::Begun);
    drop(file);
    assert!(room.is_locked(), "the guard lives on");
    let RecordState::Ended { cut, .. } = room.ended() else { unreachable!() };
    assert!(cut);
    until("the lock is free", || (!room.is_locked()).then_some(()));
}

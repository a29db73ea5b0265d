//! A push whose server is still at work when its client is killed.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Scratch, kill_below, wait_for};

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `git daemon` over the scratch folder, on a free port.
fn daemon(scratch: &Scratch) -> (Daemon, u16) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    // Not through the `git` wrapper: killing that would leave the daemon behind.
    let folder = Command::new("git").arg("--exec-path").output().expect("git runs").stdout;
    let folder = String::from_utf8_lossy(&folder).trim().to_owned();
    let child = Command::new(format!("{folder}/git-daemon"))
        .args(["--export-all", "--enable=receive-pack", "--listen=127.0.0.1", "--reuseaddr"])
        .arg(format!("--port={port}"))
        .arg(format!("--base-path={}", scratch.path().display()))
        .arg(scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("git daemon starts");
    let daemon = Daemon(child);
    wait_for("git daemon", Duration::from_secs(10), || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    (daemon, port)
}

#[test]
fn a_push_whose_server_is_still_in_its_hook_when_the_client_group_is_killed_lands_once() {
    let scratch = Scratch::new();
    let hook = scratch.path().join("remote.git/hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\necho x >> in-hook\nsleep 3\n").expect("a hook");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).expect("it is executable");
    let config = ["-C", "remote.git", "config", "core.logAllRefUpdates", "always"];
    let logs = Command::new("git").args(config).current_dir(scratch.path()).status();
    assert!(logs.is_ok_and(|status| status.success()), "the remote keeps a log of its refs");
    let (_daemon, port) = daemon(&scratch);
    let plan = format!(
        r#"{{"format":"surestep.plan/1","session":"push","verdict":"pushed","operations":[{{"kind":"git.push","repo":"git://127.0.0.1:{port}/remote.git","target":"refs/heads/fix","deadline_s":6,"body":{{"dir":"work","commit":"main"}}}}]}}"#
    );
    std::fs::write(scratch.path().join("plan.json"), plan).expect("the plan is written");
    let mut child = scratch
        .command(&["--lag-ms=1000", "run", "plan.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    wait_for("the hook", Duration::from_secs(20), || !scratch.lines("remote.git/in-hook").is_empty());
    kill_below(&mut child);
    scratch.run(&["resume", "push", "--wait=60s"]).exits(0);
    // The remote's own log of the ref: its post-receive hook does not run for a client that is gone.
    assert_eq!(scratch.lines("remote.git/logs/refs/heads/fix").len(), 1, "one landing");
    assert_eq!(scratch.lines("remote.git/in-hook").len(), 1, "the server saw one push");
    assert_eq!(scratch.show("push").operations[0].attempts, 1);
}

//! `git.push` with real git, bare repositories and `git daemon`. A hook of the remote counts the landings: not
//! `post-receive`, which a receiver whose client is gone never comes to (it dies of its report, the ref has moved),
//! but `reference-transaction`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{Desk, KEY, Op, found, guard, kill_bearing, until, word};
use surestep::{Effect, Receipt, Reconciler};
use surestep_effects::guard::read_record;
use surestep_effects::{GitPush, GitPushLook};

const MAIN: &str = "refs/heads/main";

/// A clone with one commit (`base`, which the remote has too), a bare remote, and the count of landings.
struct Repo {
    desk: Desk,
    remote: String,
}

fn git(dir: &Path, args: &[&str]) -> String {
    let out = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(out.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

fn hook(repository: &Path, name: &str, script: &str) {
    let path = repository.join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Repo {
    fn new() -> Self {
        let desk = Desk::new();
        git(desk.dir.path(), &["init", "--quiet", "--bare", "remote.git"]);
        git(desk.dir.path(), &["init", "--quiet", "--initial-branch=work", "clone"]);
        let remote = desk.path("remote.git").to_str().unwrap().to_owned();
        let repo = Self { desk, remote };
        repo.commit("base");
        repo.git(&["push", "--quiet", &repo.remote, "HEAD:refs/heads/base"]);
        repo.count_landings();
        repo
    }

    fn count_landings(&self) {
        let count =
            "[ $1 = committed ] || exit 0; while read old new ref; do echo $new $ref >>landings; done";
        hook(Path::new(&self.remote), "reference-transaction", count);
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.desk.path("clone"), args)
    }

    /// A new commit on what is checked out.
    fn commit(&self, message: &str) -> String {
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// What somebody else puts on a ref of the remote, from a clone of their own; its id.
    fn foreign(&self, on: &str, force: bool) -> String {
        let theirs = tempfile::tempdir().unwrap();
        git(theirs.path(), &["clone", "--quiet", "--no-checkout", &self.remote, "c"]);
        let dir = theirs.path().join("c");
        git(&dir, &["checkout", "--quiet", "--detach", on]);
        git(&dir, &["commit", "--quiet", "--allow-empty", "-m", "theirs"]);
        let force = if force { "+" } else { "" };
        git(&dir, &["push", "--quiet", "origin", &format!("{force}HEAD:{MAIN}")]);
        git(&dir, &["rev-parse", "HEAD"])
    }

    fn landings(&self) -> usize {
        self.desk.read("remote.git/landings").lines().filter(|line| line.ends_with(MAIN)).count()
    }

    fn there(&self) -> String {
        git(Path::new(&self.remote), &["for-each-ref", "--format=%(objectname)", MAIN])
    }

    fn body(commit: &str) -> String {
        format!(r#"{{"commit":"{commit}","dir":"clone"}}"#)
    }

    async fn push_as(&self, op: &Op<'_>) -> String {
        word(&self.desk.execute(&GitPush::new(guard()), op).await)
    }

    async fn push(&self, commit: &str) -> String {
        self.push_as(&Op::new(&self.remote, MAIN, &Self::body(commit))).await
    }

    async fn look_as(&self, op: &Op<'_>) -> String {
        found(&self.desk.look(&GitPush::new(guard()), &GitPushLook::new(guard()), op).await)
    }

    async fn look(&self, commit: &str) -> String {
        self.look_as(&Op::new(&self.remote, MAIN, &Self::body(commit))).await
    }
}

#[tokio::test]
async fn a_push_lands_once_and_is_found() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    assert_eq!(repo.look(&id).await, "not landed", "the ref is absent");
    assert_eq!(repo.push(&id).await, format!("landed {id}"));
    assert_eq!(repo.look(&id).await, format!("landed {id}"));
    assert_eq!(repo.push(&id.to_uppercase()).await, format!("landed {id}"), "a second push is harmless");
    assert_eq!((repo.landings(), repo.there()), (1, id.clone()));
    let record = read_record(repo.desk.record()).unwrap();
    assert_eq!(record.receipt, Some(id.clone()));
    assert!(record.command.contains(&format!("{id}:{MAIN}")), "{:?}", record.command);
    assert!(!record.command.iter().any(|arg| arg.contains("force") || arg.starts_with('+')));
}

#[tokio::test]
async fn a_fast_forward_lands_and_what_is_behind_is_not_landed() {
    let repo = Repo::new();
    let first = repo.commit("first");
    repo.push(&first).await;
    let second = repo.commit("second");
    assert_eq!(repo.look(&second).await, "not landed");
    assert_eq!(repo.push(&second).await, format!("landed {second}"));
    assert_eq!(repo.landings(), 2);
}

#[tokio::test]
async fn a_foreign_commit_on_top_is_a_landing() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    repo.push(&id).await;
    let theirs = repo.foreign(&id, false);
    let refs = repo.git(&["for-each-ref"]);
    assert_eq!(repo.look(&id).await, format!("landed {id}"));
    assert_eq!(repo.push(&id).await, format!("landed {id}"), "git refuses, the look says why");
    assert_eq!((repo.landings(), repo.there()), (2, theirs));
    assert_eq!(repo.git(&["for-each-ref"]), refs, "no local ref moved");
    assert!(!repo.desk.path("clone/.git/FETCH_HEAD").exists());
}

#[tokio::test]
async fn a_foreign_commit_beside_is_a_conflict_and_never_overwritten() {
    let repo = Repo::new();
    let base = repo.git(&["rev-parse", "HEAD"]);
    let id = repo.commit("ours");
    let theirs = repo.foreign(&base, false);
    assert_eq!(repo.look(&id).await, "conflict conflict");
    assert_eq!(repo.push(&id).await, "never rejected");
    assert_eq!((repo.landings(), repo.there()), (1, theirs));
    // The same where ours had landed and was thrown out again.
    let other = Repo::new();
    let id = other.commit("ours");
    other.push(&id).await;
    other.foreign("origin/base", true);
    assert_eq!(other.look(&id).await, "conflict conflict");
}

#[tokio::test]
async fn a_remote_that_cannot_be_read_says_nothing() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    let op_body = Repo::body(&id);
    let op = Op::new(&repo.remote, MAIN, &op_body);
    fs::rename(&repo.remote, repo.desk.path("away.git")).unwrap();
    assert_eq!(repo.look_as(&op).await, "unknown git");
    assert_eq!(repo.push_as(&op).await, "ended git", "a path: it is over, whatever it was");
    fs::rename(repo.desk.path("away.git"), &repo.remote).unwrap();
    // Nothing is known either where our own repository is gone.
    fs::rename(repo.desk.path("clone"), repo.desk.path("gone")).unwrap();
    assert_eq!(repo.look_as(&op).await, "unknown not_started");
}

#[tokio::test]
async fn a_name_means_the_commit_of_the_first_execution() {
    let repo = Repo::new();
    let first = repo.commit("first");
    assert_eq!(repo.look("HEAD").await, "not landed");
    hook(Path::new(&repo.remote), "pre-receive", "exit 1");
    assert_eq!(repo.push("HEAD").await, "ended remote_rejected");
    fs::remove_file(repo.desk.path("remote.git/hooks/pre-receive")).unwrap();
    let second = repo.commit("second");
    assert_eq!(repo.look("HEAD").await, "not landed");
    let body = Repo::body("HEAD");
    let op = Op::new(&repo.remote, MAIN, &body).attempt(2);
    assert_eq!(repo.push_as(&op).await, format!("landed {first}"));
    assert_eq!(repo.look("HEAD").await, format!("landed {first}"));
    let pinned = format!("refs/surestep/{}", KEY.trim_start_matches("v1:"));
    assert_eq!(repo.git(&["rev-parse", &pinned]), first);
    // Another operation has another key, and its own commit.
    let other = Op { key: "v1:ffffffffffffffffffffffffffffffff", ..Op::new(&repo.remote, MAIN, &body) };
    assert_eq!(repo.push_as(&other).await, format!("landed {second}"));
    assert_eq!(repo.look("HEAD").await, format!("landed {first}"), "it is below theirs now");
}

#[tokio::test]
async fn a_late_result_names_the_commit_where_none_is_kept() {
    let repo = Repo::new();
    let first = repo.commit("first");
    repo.git(&["push", "--quiet", &repo.remote, &format!("HEAD:{MAIN}")]);
    repo.git(&["checkout", "--quiet", "--orphan", "other"]);
    repo.commit("other");
    assert_eq!(repo.look("HEAD").await, "conflict conflict");
    let body = Repo::body("HEAD");
    let mut attempt = repo.desk.attempt(&GitPush::new(guard()), &Op::new(&repo.remote, MAIN, &body));
    attempt.call.hint = Some(Receipt::new(first.clone()));
    let finding = GitPushLook::new(guard()).look(&attempt).await.unwrap();
    assert_eq!(found(&finding), format!("landed {first}"));
}

#[tokio::test]
async fn what_fails_before_the_push_is_known_not_to_have_landed() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    let place = |body: &'static str| Op::new(&repo.remote, MAIN, body);
    assert_eq!(repo.push(&"a".repeat(40)).await, "never no_commit");
    assert_eq!(repo.push("refs/heads/nope").await, "never no_commit");
    assert_eq!(repo.push_as(&place(r#"{"commit":"HEAD","dir":"nowhere"}"#)).await, "never not_started");
    assert_eq!(repo.push_as(&place(r#"{"commit":"HEAD","dir":"/"}"#)).await, "never git");
    let tree = repo.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(repo.push(&tree).await, "never no_commit");
    let late = Repo::body(&id);
    let late = repo.push_as(&Op::new(&repo.remote, MAIN, &late).budget_ms(-1)).await;
    assert!(late.starts_with("not sent "), "{late}");
    assert_eq!((repo.landings(), repo.there()), (0, String::new()));
}

#[tokio::test]
async fn hooks_that_say_no_leave_a_doubt() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    hook(&repo.desk.path("clone/.git"), "pre-push", "exit 1");
    assert_eq!(repo.push(&id).await, "ended git");
    fs::remove_file(repo.desk.path("clone/.git/hooks/pre-push")).unwrap();
    hook(Path::new(&repo.remote), "update", "exit 1");
    assert_eq!(repo.push(&id).await, "ended remote_rejected");
    assert_eq!(repo.look(&id).await, "not landed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_client_of_a_path_is_over_only_after_the_receiver() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    hook(Path::new(&repo.remote), "pre-receive", "touch begun; sleep 3; touch passed");
    let (remote, begun) = (repo.remote.clone(), repo.desk.path("remote.git/begun"));
    let killer = std::thread::spawn(move || {
        until("the receiver runs", || begun.exists());
        kill_bearing(&["git", "push", "--porcelain", &remote])
    });
    assert_eq!(repo.push(&id).await, "over git");
    assert_eq!(killer.join().unwrap(), 1);
    assert!(repo.desk.path("remote.git/passed").exists(), "the guard waited for the receiver");
    assert_eq!((repo.landings(), repo.look(&id).await), (1, format!("landed {id}")), "without its client");
}

#[tokio::test]
async fn a_push_to_a_path_that_was_cut_can_no_longer_land() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    hook(Path::new(&repo.remote), "pre-receive", "touch begun; sleep 4; touch passed");
    let body = Repo::body(&id);
    assert_eq!(repo.push_as(&Op::new(&repo.remote, MAIN, &body).budget_ms(1_500)).await, "over git");
    assert!(repo.desk.path("remote.git/begun").exists());
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!repo.desk.path("remote.git/passed").exists());
    assert_eq!((repo.landings(), repo.look(&id).await), (0, "not landed".to_owned()));
}

/// `git daemon` on a free port: a remote whose work is not below our guard.
struct Daemon {
    child: Child,
    url: String,
}

impl Daemon {
    fn new(repo: &Repo) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = Path::new(&git(Path::new("/"), &["--exec-path"])).join("git-daemon");
        let base = repo.desk.dir.path().to_str().unwrap();
        let child = Command::new(program)
            .args([&format!("--base-path={base}"), "--export-all", "--enable=receive-pack", "--reuseaddr"])
            .args(["--listen=127.0.0.1", &format!("--port={port}"), base])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the daemon listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, url: format!("git://127.0.0.1:{port}/remote.git") }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_client_of_a_daemon_leaves_a_doubt_that_the_lag_is_for() {
    let repo = Repo::new();
    let daemon = Daemon::new(&repo);
    let id = repo.commit("ours");
    hook(Path::new(&repo.remote), "pre-receive", "touch begun; sleep 3");
    let body = Repo::body(&id);
    let op = Op::new(&daemon.url, MAIN, &body);
    let terms = repo.desk.terms(&GitPush::new(guard()), &op).unwrap();
    assert_eq!((terms.local, terms.lag_ms), (false, 15_000));
    let (url, begun) = (daemon.url.clone(), repo.desk.path("remote.git/begun"));
    let killer = std::thread::spawn(move || {
        until("the receiver runs", || begun.exists());
        kill_bearing(&["git", "push", "--porcelain", &url])
    });
    assert_eq!(repo.push_as(&op).await, "unknown git", "not over: the receiver goes on");
    assert_eq!(killer.join().unwrap(), 1);
    assert_eq!(repo.look_as(&op).await, "not landed", "which is true, and has yet to be earned");
    assert!(!repo.desk.record().exists(), "no record may claim an end that the guard cannot see");
    until("it lands after all", || repo.landings() == 1);
    assert_eq!(repo.look_as(&op).await, format!("landed {id}"));
    assert_eq!(repo.push_as(&op).await, format!("landed {id}"));
    assert_eq!(repo.landings(), 1);
}

#[tokio::test]
async fn a_daemon_that_is_gone_or_says_no_is_told_apart() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    let body = Repo::body(&id);
    let mut daemon = Daemon::new(&repo);
    hook(Path::new(&repo.remote), "pre-receive", "exit 1");
    let op = Op::new(&daemon.url, MAIN, &body);
    // The remote's own word ends its work; it decides nothing.
    assert_eq!(repo.push_as(&op).await, "ended remote_rejected");
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert_eq!(repo.push_as(&op).await, "unknown git");
    assert_eq!(repo.look_as(&op).await, "unknown git");
}

#[tokio::test]
async fn a_remotes_name_is_one_place_for_pushing_and_looking() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    let body = Repo::body(&id);
    let origin = Op::new("origin", MAIN, &body);
    let local = |op: &Op<'_>| repo.desk.terms(&GitPush::new(guard()), op).unwrap().local;
    assert!(!local(&origin), "no such remote yet");
    git(repo.desk.dir.path(), &["init", "--quiet", "--bare", "fetch.git"]);
    let elsewhere = repo.desk.path("fetch.git");
    repo.git(&["remote", "add", "origin", elsewhere.to_str().unwrap()]);
    repo.git(&["remote", "set-url", "--push", "origin", &repo.remote]);
    assert!(local(&origin));
    assert_eq!(repo.push_as(&origin).await, format!("landed {id}"));
    assert_eq!(repo.there(), id);
    assert_eq!(repo.look_as(&origin).await, format!("landed {id}"), "asked where it was pushed to");
    repo.git(&["remote", "set-url", "--push", "--add", "origin", elsewhere.to_str().unwrap()]);
    assert_eq!(repo.push_as(&origin).await, "never remote", "two places are two operations");
    repo.git(&["config", "--unset-all", "remote.origin.pushurl"]);
    repo.git(&["remote", "set-url", "origin", "ssh://nowhere.invalid/x.git"]);
    assert!(!local(&origin));
}

#[tokio::test]
async fn a_rewritten_url_is_one_place_too() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    let body = Repo::body(&id);
    let prefix = format!("{}/", repo.desk.dir.path().display());
    repo.git(&["config", &format!("url.{prefix}.pushInsteadOf"), "https://nowhere.invalid/"]);
    let op = Op::new("https://nowhere.invalid/remote.git", MAIN, &body);
    assert!(repo.desk.terms(&GitPush::new(guard()), &op).unwrap().local);
    assert_eq!(repo.push_as(&op).await, format!("landed {id}"));
    assert_eq!(repo.look_as(&op).await, format!("landed {id}"));
    // What was a path when it was bound, and no longer is, is neither pushed to nor believed.
    let path = Op::new(&repo.remote, MAIN, &body);
    let attempt = repo.desk.attempt(&GitPush::new(guard()), &path);
    repo.git(&["config", "url.ssh://nowhere.invalid/.insteadOf", &prefix]);
    let outcome = GitPush::new(guard()).execute(&attempt).await.unwrap();
    assert_eq!(word(&outcome), "never remote");
    assert_eq!(found(&GitPushLook::new(guard()).look(&attempt).await.unwrap()), "unknown remote");
}

#[tokio::test]
async fn a_chosen_ssh_stays_as_it_was_chosen() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    let body = Repo::body(&id);
    // Its last argument is what git wants to run at the other end.
    let ssh = repo.desk.path("ssh");
    fs::write(&ssh, "#!/bin/sh\nfor command; do :; done\nexec sh -c \"$command\"\n").unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    repo.git(&["config", "core.sshCommand", ssh.to_str().unwrap()]);
    let there = format!("nowhere.invalid:{}", repo.remote);
    let op = Op::new(&there, MAIN, &body);
    assert!(!repo.desk.terms(&GitPush::new(guard()), &op).unwrap().local);
    assert_eq!(repo.push_as(&op).await, format!("landed {id}"));
    assert_eq!(repo.look_as(&op).await, format!("landed {id}"));
    assert_eq!(repo.landings(), 1);
}

#[tokio::test]
async fn a_tag_is_ours_only_if_it_is_equal() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    repo.git(&["tag", "-a", "-m", "v1", "v1"]);
    let tag = repo.git(&["rev-parse", "v1"]);
    let (body, plain) = (Repo::body("refs/tags/v1"), Repo::body(&id));
    let annotated = Op::new(&repo.remote, "refs/tags/v1", &body);
    assert_eq!(repo.push_as(&annotated).await, format!("landed {tag}"));
    assert_eq!(repo.look_as(&annotated).await, format!("landed {tag}"));
    let other =
        Op { key: "v1:ffffffffffffffffffffffffffffffff", ..Op::new(&repo.remote, "refs/tags/v1", &plain) };
    assert_eq!(repo.look_as(&other).await, "conflict conflict");
    assert_eq!(repo.push_as(&other).await, "never rejected");
    assert_eq!(repo.push(&tag).await, "never no_commit", "a tag is no commit for a branch");
}

#[tokio::test]
async fn a_shallow_clone_does_not_call_what_it_cannot_see_a_conflict() {
    let repo = Repo::new();
    let below = repo.commit("below");
    repo.push(&below).await;
    let id = repo.commit("ours");
    repo.commit("top");
    let url = format!("file://{}", repo.desk.path("clone").display());
    git(repo.desk.dir.path(), &["clone", "--quiet", "--depth=1", &url, "shallow"]);
    let body = r#"{"commit":"HEAD","dir":"shallow"}"#;
    assert_eq!(repo.look_as(&Op::new(&repo.remote, MAIN, body)).await, "unknown shallow");
    assert_eq!(repo.look(&id).await, "not landed", "the whole history can tell");
}

#[tokio::test]
async fn nothing_is_pushed_along() {
    let repo = Repo::new();
    let id = repo.commit("ours");
    repo.git(&["tag", "-a", "-m", "v2", "v2"]);
    repo.git(&["config", "push.followTags", "true"]);
    assert_eq!(repo.push(&id).await, format!("landed {id}"));
    assert_eq!(git(Path::new(&repo.remote), &["tag"]), "");
}

/// Started anew as if from a git hook, whose variables point at another repository.
#[tokio::test]
async fn a_hooks_variables_do_not_lead_elsewhere() {
    const NAME: &str = "a_hooks_variables_do_not_lead_elsewhere";
    const STORY: &str = "SURESTEP_TEST_REPOSITORY";
    let Some(dir) = std::env::var_os(STORY) else {
        let repo = Repo::new();
        let id = repo.commit("ours");
        let mut inner = Command::new(std::env::current_exe().unwrap());
        inner.args(["--exact", NAME]).env(STORY, repo.desk.dir.path());
        inner.env("GIT_DIR", "/nowhere").env("GIT_INDEX_FILE", "/nowhere");
        assert!(inner.status().unwrap().success());
        assert_eq!((repo.landings(), repo.there()), (1, id));
        return;
    };
    let dir = Path::new(&dir);
    let body = format!(r#"{{"commit":"HEAD","dir":"{}"}}"#, dir.join("clone").display());
    let remote = dir.join("remote.git");
    let op = Op::new(remote.to_str().unwrap(), MAIN, &body);
    assert!(word(&Desk::new().execute(&GitPush::new(guard()), &op).await).starts_with("landed "));
}

#[test]
fn what_cannot_be_pushed_is_refused_when_it_is_bound() {
    let desk = Desk::new();
    let refused = |repo: &str, target: &str, body: &str| {
        desk.terms(&GitPush::new(guard()), &Op::new(repo, target, body))
    };
    let head = r#"{"commit":"HEAD"}"#;
    for target in
        ["", "main", "HEAD", "refs/", "refs/heads/", "refs/heads/a..b", "refs/heads/a b", "refs/for/main"]
    {
        assert!(refused("/r.git", target, head).is_err(), "{target}");
    }
    for target in ["refs/heads/*", "refs/heads/a:b", "refs/heads/.a", "refs/heads/a.lock", "+refs/heads/a"] {
        assert!(refused("/r.git", target, head).is_err(), "{target}");
    }
    let hint = refused("/r.git", "main", head).unwrap_err().message;
    assert!(hint.contains("refs/heads/main"), "{hint}");
    for repo in ["", "--upload-pack=x", "-", "a\nb"] {
        assert!(refused(repo, MAIN, head).is_err(), "{repo}");
    }
    for body in
        ["{}", r#"{"commit":""}"#, r#"{"commit":"HEAD~1"}"#, r#"{"commit":"-x"}"#, r#"{"commit":"a:b"}"#]
    {
        assert!(refused("/r.git", MAIN, body).is_err(), "{body}");
    }
    assert!(refused("/r.git", MAIN, r#"{"commit":"HEAD","force":true}"#).is_err());
    let terms = refused("/r.git", MAIN, head).unwrap();
    assert_eq!((terms.deadline_ms, terms.lag_ms, terms.local), (600_000, 0, true));
    assert!(terms.can_ask && !terms.distinguishes);
    for remote in ["ssh://h.invalid/r.git", "h.invalid:r.git", "https://h.invalid/r"] {
        let terms = refused(remote, MAIN, head).unwrap();
        assert_eq!((terms.lag_ms, terms.local), (15_000, false), "{remote}");
    }
}

//! The store, and the file system that it lies or would lie on.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, access, flock, statvfs};
use serde::Deserialize;
use surestep::{StoreError, exit};

use super::{Check, mounts};
use crate::context::{Context, Store};
use crate::run::all_sessions;
use crate::text::{self, tick};

/// Below this much free space a new operation may be refused: its commit and its settle reserve 64 KiB each.
const SPACE_MIN: u64 = 1 << 20;
/// Below this much free space there is little room left.
const SPACE_LOW: u64 = 100 << 20;
/// The same for inodes: a commit is a file.
const INODES_MIN: u64 = 16;
const INODES_LOW: u64 = 1_000;

pub(super) async fn checks(cx: &Context) -> Vec<Check> {
    let mut checks = Vec::new();
    let accepted = cx.allow_volatile;
    let there = nearest(&cx.store);
    // Whether the file system may be used is a look of its own, below.
    let cx = &Context { allow_volatile: true, ..cx.clone() };
    let opened = cx.options().read_only(true).open(&cx.store);
    let root = match opened {
        Ok(store) => {
            let root = store.root().to_owned();
            let id = surestep::Store::id(&store).to_owned();
            checks.push(Check::ok("store", format!("{}, id {id}", tick(&root.to_string_lossy()))));
            checks.push(format(&root));
            checks.push(sessions(cx).await);
            checks.push(privacy(&root));
            Some(root)
        }
        Err(StoreError::Absent { .. }) => {
            let path = cx.store.to_string_lossy();
            checks.push(Check::ok(
                "store",
                format!(
                    "none yet at {}: the first `run`, `exec` or `import` makes it, and its id",
                    tick(&path)
                ),
            ));
            None
        }
        Err(e) => {
            let refused = Check::of("store", cx.store_fail(&e));
            checks.push(Check {
                next: refused.next.iter().map(|n| n.replace(&cx.again, "surestep doctor")).collect(),
                ..refused
            });
            None
        }
    };
    checks.push(file_system(cx, accepted, &there));
    checks.push(writable(root.as_deref().unwrap_or(&there)));
    checks.push(space(&there));
    checks.push(locks(root.as_deref(), &there));
    checks
}

/// The nearest part of a path that exists, without links.
pub(super) fn nearest(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|part| std::fs::canonicalize(part).ok());
    there.unwrap_or_else(|| PathBuf::from("/"))
}

/// What the store's own file says of its format; the others of its fields were read when it was opened.
#[derive(Deserialize)]
struct Format {
    format: String,
}

fn format(root: &Path) -> Check {
    let text = std::fs::read_to_string(root.join("surestep.json")).unwrap_or_default();
    match serde_json::from_str::<Format>(&text) {
        Ok(Format { format }) => Check::ok("format", format),
        Err(e) => Check::problem("format", exit::INTEGRITY, text::line(&e.to_string())),
    }
}

async fn sessions(cx: &Context) -> Check {
    let listed = match cx.engine(Store::Read, None) {
        Ok(engine) => all_sessions(cx, &engine).await,
        Err(fail) => Err(fail),
    };
    match listed {
        Ok((sessions, nameless)) => match nameless.into_iter().next() {
            None => Check::ok("sessions", text::count(sessions.len(), "session")),
            Some(fail) => Check::of("sessions", fail),
        },
        Err(fail) => Check::of("sessions", fail),
    }
}

fn privacy(root: &Path) -> Check {
    match std::fs::metadata(root) {
        Ok(meta) if meta.mode() & 0o077 != 0 => {
            let mode = meta.mode() & 0o7777;
            Check::warning("privacy", format!("others may look into the store (mode {mode:04o})"))
                .next(text::command(["chmod", "700", &root.to_string_lossy()]))
        }
        Ok(_) => Check::ok("privacy", "only its owner may look into the store"),
        Err(e) => Check::problem("privacy", exit::STORE, text::line(&e.to_string())),
    }
}

fn file_system(cx: &Context, accepted: bool, there: &Path) -> Check {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mounts::of(&table, there);
    let shown = mount.as_ref().map_or_else(
        || "not known".to_owned(),
        |mount| format!("{}, mounted at {}", mount.kind, tick(&mount.point)),
    );
    // The store's own judgement, as `run` would meet it.
    match cx.options().allow_volatile(false).read_only(true).open(&cx.store) {
        Err(StoreError::Volatile { kind, .. }) if accepted => Check::warning(
            "file system",
            format!("{shown}: {kind} does not keep what it acknowledges, and was accepted by name"),
        )
        .next("put the store on a disk (ext4, xfs, btrfs), unless you can lose it"),
        Err(StoreError::Volatile { kind, .. }) => Check::problem(
            "file system",
            exit::USAGE,
            format!("{shown}: {kind} does not keep what it acknowledges"),
        )
        .next("surestep --store PATH …, with a path on a disk")
        .next("--allow-volatile, or `allow_volatile = true` in surestep.toml, if you can lose the store"),
        Ok(_) | Err(_) => match mount {
            Some(mount) if mount.read_only => {
                Check::problem("file system", exit::STORE, format!("{shown}, read-only"))
                    .next("mount it for writing; `show`, `log` and `list` work all the same")
            }
            Some(_) => Check::ok("file system", format!("{shown}: keeps what it acknowledges")),
            None => Check::warning("file system", shown).next("mount /proc"),
        },
    }
}

fn writable(folder: &Path) -> Check {
    let shown = tick(&folder.to_string_lossy());
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok("writable", shown),
        Err(e) => Check::problem("writable", exit::STORE, format!("{shown}: {}", std::io::Error::from(e)))
            .next("give this user the right to write there, or name another store"),
    }
}

fn space(there: &Path) -> Check {
    let stat = match statvfs(there) {
        Ok(stat) => stat,
        Err(e) => {
            return Check::warning("space", format!("not known: {}", std::io::Error::from(e)))
                .next(text::command(["df", "-h", &there.to_string_lossy()]));
        }
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // Some file systems make inodes as they go, and say 0 of 0.
    let inodes = (stat.f_files > 0).then_some(stat.f_favail);
    let few = |min: u64| inodes.is_some_and(|n| n < min);
    let shown = format!(
        "{} MiB free{}",
        free >> 20,
        inodes.map_or_else(String::new, |n| format!(", {n} inodes free"))
    );
    let next = "make room: free some space, or raise the quota";
    if free < SPACE_MIN || few(INODES_MIN) {
        Check::problem("space", exit::STORE, format!("{shown}: no operation can be started")).next(next)
    } else if free < SPACE_LOW || few(INODES_LOW) {
        Check::warning("space", format!("{shown}: little is left")).next(next)
    } else {
        Check::ok("space", shown)
    }
}

/// Whether the file system can lock: tried on what is there, and let go at once.
fn locks(root: Option<&Path>, there: &Path) -> Check {
    let tried = root.map_or_else(|| there.to_owned(), |root| root.join("surestep.json"));
    let locked = File::open(&tried).and_then(|file| Ok(flock(&file, FlockOperation::NonBlockingLockShared)?));
    match locked {
        Ok(()) => Check::ok("locks", "flock works here"),
        Err(e) => Check::problem("locks", exit::STORE, format!("{}: {e}", tick(&tried.to_string_lossy())))
            .next("surestep --store PATH …, with a path on a file system that has locks"),
    }
}

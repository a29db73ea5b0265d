//! Taking a session: folders, lock, sweeping, and what holding it proves.
//!
//! The lock is `flock` on a file that is never deleted, renamed or unlocked, only closed; the kernel frees it when
//! the last copy of the descriptor is gone, in us and in every process below a guard. So holding it proves that the
//! predecessor and everything below its guards are dead. A fork of ours that does not exec keeps it as well.
//!
//! The lock comes into being with its content: written as a temporary file and renamed onto a name that must be
//! free. `holder.json` beside it is for people and never decides anything; it names the program but not its
//! arguments, since a command line may hold a credential.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use surestep::{Hold, HoldId, HoldProof, Holder, SessionId, StoreError, Tether};

use crate::atomic::{self, Failed};
use crate::disk::{Disk, Identity};
use crate::fault::{found, io};
use crate::held::{Held, State};
use crate::journal::{self, Birth};
use crate::layout::Place;
use crate::store::Shared;
use crate::{guards, host, mailbox, names};

/// How long a lock that somebody has is tried.
const TRY_FOR: Duration = Duration::from_millis(50);
/// The pause between two tries.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// Who holds a session, for people.
#[derive(Serialize, Deserialize)]
struct Note {
    format: String,
    pid: u32,
    start_time: Option<u64>,
    boot: String,
    program: String,
}

/// Takes the hold on a session.
pub(crate) fn take<D: Disk>(store: &Arc<Shared<D>>, session: &SessionId) -> Result<Hold, StoreError> {
    let disk = &store.disk;
    let place = store.layout.session(session);
    let (before, ..) = store.survey(session, &place)?; // damage is found before anything is made
    make_folders(disk, store, &place, before.birth)?;
    if before.birth == Birth::None {
        make_lock(disk, &place)?;
    }
    let (lock, identity) = lock(disk, &place, session)?;
    let orphans = guards::orphans(disk, &place, session)?;
    if !orphans.is_empty() {
        return Err(StoreError::Busy { holder: Holder { what: orphans.join("; ") } });
    }
    let (survey, mark, behind) = store.survey(session, &place)?;
    sweep(disk, &place);
    let dir = place.journal();
    let journal = disk.open_dir(&dir).map_err(io("cannot open the folder", &dir))?;
    let tether = match disk.share(&lock).map_err(io("cannot share", &place.lock()))? {
        Some(shared) => Tether::new(shared, place.guards()),
        None => Tether::none(),
    };
    let proof = HoldProof {
        predecessor_dead: true,
        machine: host::machine(&store.id),
        unfinished: guards::unfinished(disk, &place, session, survey)?,
    };
    let held = Arc::new(Held {
        store: store.clone(),
        session: session.clone(),
        place,
        lock,
        identity,
        journal,
        state: Mutex::new(State {
            born: survey.birth == Birth::Born,
            last: Some(survey.last),
            unsure: None,
            reserved: Vec::new(),
        }),
    });
    if !survey.is_absent() {
        held.confirm_birth()?;
        let raised = mark.is_none_or(|mark| mark.revision != survey.last);
        if raised && behind.is_none() && store.marks.are_kept() {
            let commits = journal::commits(disk, &held.place, session, survey.last, survey)?;
            if let Some(last) = commits.last() {
                store.marks.set(disk, last);
            }
        }
    }
    leave_note(disk, &held.place);
    store.remember(&held);
    let id = HoldId::new(surestep::random_id()).map_err(|error| StoreError::Other(error.to_string()))?;
    Ok(Hold { id, session: session.clone(), proof, tether, lease_ms: None, inner: held })
}

/// What taking the hold would prove now. The lock is tried and let go; nothing is written.
pub(crate) fn probe<D: Disk>(store: &Arc<Shared<D>>, session: &SessionId) -> Result<HoldProof, StoreError> {
    let disk = &store.disk;
    let place = store.layout.session(session);
    let (survey, ..) = store.survey(session, &place)?;
    let machine = host::machine(&store.id);
    if survey.birth == Birth::None {
        return Ok(HoldProof { predecessor_dead: true, machine, unfinished: vec![] });
    }
    let _lock = lock(disk, &place, session)?;
    let orphans = guards::orphans(disk, &place, session)?;
    if !orphans.is_empty() {
        return Err(StoreError::Busy { holder: Holder { what: orphans.join("; ") } });
    }
    let unfinished = guards::unfinished(disk, &place, session, survey)?;
    Ok(HoldProof { predecessor_dead: true, machine, unfinished })
}

/// Makes the session's folders. They are durable once the lock says `born`; until then they are made so each time.
fn make_folders<D: Disk>(disk: &D, store: &Shared<D>, place: &Place, birth: Birth) -> Result<(), StoreError> {
    let mut made = atomic::make_folder(disk, &place.dir)?;
    for folder in place.folders() {
        made |= atomic::make_folder(disk, &folder)?;
    }
    if made || birth != Birth::Born {
        atomic::sync_folder(disk, &store.layout.sessions())?;
        atomic::sync_folder(disk, &place.dir)?;
    }
    Ok(())
}

/// Makes the lock, unless somebody else just did.
fn make_lock<D: Disk>(disk: &D, place: &Place) -> Result<(), StoreError> {
    let name = place.lock();
    match atomic::publish(disk, &name, journal::BEARING) {
        Ok(()) | Err(Failed::Taken) => Ok(()),
        Err(Failed::Before(error) | Failed::Unsure(error)) => {
            // Who made the lock first may have swept our temporary file.
            match found(disk.stat(&name)).map_err(io("cannot examine", &name))? {
                Some(_) if not_found(&error) => Ok(()),
                Some(_) | None => Err(error),
            }
        }
    }
}

fn not_found(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

/// Opens and locks the lock file, and makes sure that it is the one that others would open.
pub(crate) fn lock<D: Disk>(
    disk: &D,
    place: &Place,
    session: &SessionId,
) -> Result<(D::File, Identity), StoreError> {
    let name = place.lock();
    let until = Instant::now() + TRY_FOR;
    loop {
        let file = disk.open(&name).map_err(io("cannot open", &name))?;
        let locked = disk.try_lock(&file).map_err(io("cannot lock", &name))?;
        if locked {
            let identity = disk.identity(&file).map_err(io("cannot examine", &name))?;
            let named = found(disk.stat(&name)).map_err(io("cannot examine", &name))?;
            if named.is_some_and(|named| named.identity == identity) {
                return Ok((file, identity));
            }
        }
        drop(file);
        if Instant::now() >= until {
            return Err(match locked {
                true => StoreError::HoldLost { why: format!("{} is being replaced", name.display()) },
                false => StoreError::Busy { holder: holder(disk, place, session) },
            });
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// Removes what died with earlier owners. Only under the lock, only our own names; a failure does no harm.
fn sweep<D: Disk>(disk: &D, place: &Place) {
    for folder in [place.dir.clone(), place.journal()] {
        for name in disk.list(&folder).unwrap_or_default() {
            if names::is_temp(&name) {
                atomic::discard(disk, &folder.join(name));
            }
        }
    }
    // A guard holds the lock while it writes: whatever it left half-written is dead, too.
    let guards = place.guards();
    for name in disk.list(&guards).unwrap_or_default() {
        if name.to_str().is_some_and(|name| name.ends_with(".tmp")) {
            atomic::discard(disk, &guards.join(name));
        }
    }
    mailbox::sweep_dead(disk, &place.late());
    mailbox::sweep_dead(disk, &place.requests());
}

/// Says who we are, for people. It need not survive anything, so it is not made durable, and may fail.
fn leave_note<D: Disk>(disk: &D, place: &Place) {
    let pid = std::process::id();
    let program = host::command(pid).into_iter().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let note = Note {
        format: "surestep.holder/1".into(),
        pid,
        start_time: host::start_time(pid),
        boot: host::boot_id(),
        program,
    };
    let Ok(text) = serde_json::to_string(&note) else { return };
    let Ok(temp) = atomic::create(disk, &place.dir) else { return };
    if disk
        .write(&temp.file, text.as_bytes())
        .and_then(|()| disk.replace(&temp.path, &place.holder()))
        .is_err()
    {
        atomic::discard(disk, &temp.path);
    }
}

/// Who holds a session, as far as that is known.
fn holder<D: Disk>(disk: &D, place: &Place, session: &SessionId) -> Holder {
    let mut known = alive(disk, place, session);
    if known.is_empty() {
        known.push(
            "a process that left no note: most likely a command of a killed run that is still at work".into(),
        );
    }
    Holder { what: known.join("; ") }
}

/// Who is seen alive of those that hold, or held, a session: in one line each.
pub(crate) fn alive<D: Disk>(disk: &D, place: &Place, session: &SessionId) -> Vec<String> {
    let mut known = guards::living(disk, place, session);
    let note = disk.read(&place.holder()).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
    if let Some(Note { pid, start_time, boot, program, .. }) = note
        && boot == host::boot_id()
        && start_time.is_some()
        && host::start_time(pid) == start_time
    {
        let command = host::shown(&host::command(pid));
        known.push(format!("pid {pid} ({})", if command.is_empty() { program } else { command }));
    }
    known
}

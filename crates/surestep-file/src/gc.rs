//! Taking away what is no longer needed: first a plan, then exactly that plan.
//!
//! - **Seal**: a finished session's commits become one `envelope.json`.
//! - **Prune**: a sealed session older than the retention leaves a tombstone.
//! - **Content** that no session names any more, or that stands in a sealed envelope, is removed.
//!
//! Each session is held while it is changed. Who writes content, or tombstones, and who removes content exclude each
//! other by `gc.lock`, so that no commit ever names content that is about to be removed.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use surestep::{Digest, Envelope, Hold, Revision, SessionId, StoreError, Wall};

use crate::disk::{Disk, FileKind};
use crate::fault::{found, io};
use crate::gc_plan::{GcDone, GcError, GcPlan, GcSession, as_of};
use crate::held::Held;
use crate::pruned::{self, Tombstone};
use crate::store::Shared;
use crate::{envelope, hold, journal, listing, names};

/// How often a lock that somebody has is tried, a minute in all: another collection, or the writing of much content.
const TRIES_MAX: u32 = 12_000;
/// The pause between two tries.
const TRY_EVERY: Duration = Duration::from_millis(5);
/// How many sessions are held at once: three descriptors each.
const HELD_MAX: usize = 100;

/// What one session means to a collection.
struct Seen {
    fate: Fate,
    /// The content that its journal names, and its sealed envelope does not hold.
    names: Vec<Digest>,
}

enum Fate {
    Stays,
    Seal(GcSession),
    Prune(GcSession),
    /// Its tombstone is there, its folder not yet gone.
    Pruned,
}

impl<D: Disk> Shared<D> {
    /// What would be taken away now.
    pub(crate) fn gc_plan(&self, now: Wall, retention: Duration) -> Result<GcPlan, StoreError> {
        self.survey_all(now, retention, true)
    }

    /// Looks at every session. Content that is named only by sessions which are to be sealed counts as free if they
    /// will be.
    fn survey_all(&self, now: Wall, retention: Duration, will_seal: bool) -> Result<GcPlan, StoreError> {
        let mut plan = GcPlan {
            as_of: now,
            retention,
            seal: Vec::new(),
            prune: Vec::new(),
            content: Vec::new(),
            dead: Vec::new(),
            unreadable: Vec::new(),
        };
        let mut named = HashSet::new();
        let (content, dead) = self.files()?;
        plan.dead = dead;
        for session in self.all_sessions()? {
            let Seen { fate, names } = match self.seen(&session, now, retention) {
                Ok(seen) => seen,
                Err(StoreError::Pruned { .. }) => Seen { fate: Fate::Pruned, names: Vec::new() },
                Err(error) => {
                    plan.unreadable.push((session, error.to_string()));
                    continue;
                }
            };
            match fate {
                Fate::Stays => named.extend(names),
                Fate::Seal(one) => {
                    plan.seal.push(one);
                    named.extend(names.into_iter().filter(|_| !will_seal));
                }
                Fate::Prune(one) => plan.prune.push(one),
                Fate::Pruned => {
                    let dir = self.layout.session(&session).dir;
                    plan.dead.push((dir.clone(), bytes_below(&self.disk, &dir)?));
                }
            }
        }
        if plan.unreadable.is_empty() {
            plan.content = content.into_iter().filter(|(digest, _)| !named.contains(digest)).collect();
        }
        Ok(plan)
    }

    fn all_sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let page = surestep::Page { after: None, limit: usize::MAX };
        Ok(listing::page(&self.disk, &self.layout, &page)?.sessions)
    }

    fn seen(&self, session: &SessionId, now: Wall, retention: Duration) -> Result<Seen, StoreError> {
        let place = self.layout.session(session);
        let sealed = envelope::peek(&self.disk, &place)?.map_or(Revision::NONE, |peek| peek.revision);
        let commits = self.read(session, Revision::FIRST)?.commits;
        let Some(last) = commits.last() else { return Ok(Seen { fate: Fate::Stays, names: Vec::new() }) };
        let at = last.at();
        let folded = Envelope::from_commits(session.clone(), commits)
            .map_err(|error| crate::fault::corrupt(place.journal(), 0, error.to_string()))?;
        let state = folded.session();
        let over = at <= now
            && (state.handed_off.is_some() || state.turn().is_some_and(|turn| turn.ended.is_some()));
        let later = folded.commits().iter().filter(|commit| commit.revision() > sealed);
        let names = later.flat_map(|commit| commit.entries()).filter_map(said).collect();
        let Some(head) = state.head.filter(|_| over) else { return Ok(Seen { fate: Fate::Stays, names }) };
        let bytes = bytes_below(&self.disk, &place.dir)?;
        let one = GcSession { session: session.clone(), revision: state.revision, head, at, bytes };
        // Who sealed it may have died before the commits that the envelope holds were removed.
        let left = journal::listed(&self.disk, &place)?.first().is_some();
        if sealed < state.revision || left {
            return Ok(Seen { fate: Fate::Seal(one), names });
        }
        let age = now.unix_ms().saturating_sub(at.unix_ms());
        let old = u64::try_from(age).is_ok_and(|age| u128::from(age) >= retention.as_millis());
        let fate = if old && state.handed_off.is_none() { Fate::Prune(one) } else { Fate::Stays };
        Ok(Seen { fate, names })
    }

    /// All content with its length, in order, and what dead processes left.
    #[expect(clippy::type_complexity, reason = "two lists")]
    fn files(&self) -> Result<(Vec<(Digest, u64)>, Vec<(PathBuf, u64)>), StoreError> {
        let (mut content, mut dead) = (Vec::new(), Vec::new());
        for (name, folder) in entries(&self.disk, &self.layout.blobs())? {
            if name.len() != 2 {
                continue;
            }
            for (name, file) in entries(&self.disk, &folder)? {
                let Some(stat) = found(self.disk.stat(&file)).map_err(io("cannot examine", &file))? else {
                    continue;
                };
                if names::is_temp(name.as_ref()) {
                    dead.push((file, stat.len));
                } else if let Ok(digest) = format!("sha256:{name}").parse::<Digest>() {
                    content.push((digest, stat.len));
                }
            }
        }
        for folder in [self.layout.sessions(), self.layout.pruned()] {
            for (name, path) in entries(&self.disk, &folder)? {
                if names::is_temp(name.as_ref()) {
                    dead.push((path.clone(), bytes_below(&self.disk, &path)?));
                }
            }
        }
        content.sort();
        dead.sort();
        Ok((content, dead))
    }

    /// Carries out the plan of this name, or nothing.
    pub(crate) fn gc_apply(
        self: &Arc<Self>,
        asked: &str,
        now: Wall,
        retention: Duration,
    ) -> Result<GcDone, GcError> {
        let changed = || GcError::Changed { asked: asked.to_owned() };
        let plan = self.gc_plan(as_of(asked).ok_or_else(changed)?, retention)?;
        if plan.name() != asked {
            return Err(changed());
        }
        let mut done = GcDone::default();
        let mut shards: BTreeMap<String, Vec<&GcSession>> = BTreeMap::new();
        for one in &plan.prune {
            shards.entry(pruned::shard(&one.session)).or_default().push(one);
        }
        for (shard, sessions) in &shards {
            for some in sessions.chunks(HELD_MAX) {
                self.prune(shard, some, now, &mut done)?;
            }
        }
        for one in &plan.seal {
            match self.held_as_planned(one) {
                Ok((_hold, held)) => match held.seal() {
                    Ok(()) => done.sealed += 1,
                    Err(error) => done.left.push((one.session.clone(), error.to_string())),
                },
                Err(error) => done.left.push((one.session.clone(), error.to_string())),
            }
        }
        self.remove_content(&plan, &mut done)?;
        Ok(done)
    }

    /// Holds a session, and makes sure that it is what the plan says.
    fn held_as_planned(self: &Arc<Self>, one: &GcSession) -> Result<(Hold, Arc<Held<D>>), StoreError> {
        let hold = hold::take(self, &one.session)?;
        let head = self.read(&one.session, one.revision)?.commits.last().map(surestep::Commit::sum);
        if head != Some(one.head) {
            return Err(StoreError::Other("it went on since the plan was made".into()));
        }
        let held = hold.inner.clone().downcast::<Held<D>>();
        held.map(|held| (hold, held)).map_err(|_| StoreError::HoldLost { why: "another store's".into() })
    }

    /// Prunes sessions of one shard: tombstones first, durable, then the folders.
    fn prune(
        self: &Arc<Self>,
        shard: &str,
        sessions: &[&GcSession],
        now: Wall,
        done: &mut GcDone,
    ) -> Result<(), StoreError> {
        let mut holds = Vec::new();
        let mut tombstones = Vec::new();
        for one in sessions {
            match self.held_as_planned(one) {
                Ok((hold, held)) => {
                    let commits = self.read(&one.session, one.revision)?.commits;
                    let epoch = commits.last().map_or(surestep::Epoch::NONE, surestep::Commit::epoch);
                    let GcSession { session, revision, head, .. } = (*one).clone();
                    tombstones.push(Tombstone { session, revision, epoch, head, at: now });
                    holds.push((hold, held));
                }
                Err(error) => done.left.push((one.session.clone(), error.to_string())),
            }
        }
        if holds.is_empty() {
            return Ok(());
        }
        let alone = self.gc_lock(true)?;
        let all = pruned::add(&self.disk, &self.layout, shard, &tombstones)?;
        drop(alone);
        self.marks.bury(&self.disk, shard, &all, &tombstones);
        for (_, held) in &holds {
            // Away under one name at once, then piece by piece: whoever dies on the way leaves it to the next one.
            let away =
                self.layout.sessions().join(format!("{}{}", names::TEMP_PREFIX, surestep::random_id()));
            let dir = &held.place.dir;
            self.disk.replace(dir, &away).map_err(io("cannot move away", dir))?;
            remove_below(&self.disk, &away)?;
            done.pruned += 1;
        }
        Ok(())
    }

    /// Removes the content that no session names, and what dead processes left.
    fn remove_content(&self, plan: &GcPlan, done: &mut GcDone) -> Result<(), StoreError> {
        if plan.content.is_empty() && plan.dead.is_empty() {
            return Ok(());
        }
        let _alone = self.gc_lock(true)?;
        // Under the lock nobody is between writing content and publishing the commit that names it.
        let present = self.survey_all(plan.as_of, plan.retention, false)?;
        for (digest, _) in &present.content {
            let (_, file) = self.layout.blob(digest);
            self.disk.remove(&file).map_err(io("cannot remove", &file))?;
            done.content += 1;
        }
        for (path, _) in &present.dead {
            remove_below(&self.disk, path)?;
        }
        Ok(())
    }

    /// The lock between those who write content and the one who removes it.
    pub(crate) fn gc_lock(&self, alone: bool) -> Result<D::File, StoreError> {
        let name = self.layout.gc_lock();
        if found(self.disk.stat(&name)).map_err(io("cannot examine", &name))?.is_none() {
            match self.disk.create_new(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(io("cannot create", &name)(error));
                }
                Ok(_) | Err(_) => {}
            }
        }
        let file = self.disk.open(&name).map_err(io("cannot open", &name))?;
        for _ in 0..TRIES_MAX {
            let locked = if alone { self.disk.try_lock(&file) } else { self.disk.try_lock_shared(&file) };
            if locked.map_err(io("cannot lock", &name))? {
                return Ok(file);
            }
            std::thread::sleep(TRY_EVERY);
        }
        let what = "a process that removes or writes content, by gc.lock".into();
        Err(StoreError::Busy { holder: surestep::Holder { what } })
    }
}

fn said(entry: &surestep::Entry) -> Option<Digest> {
    if let surestep::Entry::Said(said) = entry { Some(said.digest) } else { None }
}

/// The names in a folder, with their paths, in order; of names that are no text there is none of ours.
fn entries<D: Disk>(disk: &D, folder: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let names = found(disk.list(folder)).map_err(io("cannot list", folder))?.unwrap_or_default();
    let mut all: Vec<_> =
        names.iter().filter_map(|name| Some((name.to_str()?.to_owned(), folder.join(name)))).collect();
    all.sort();
    Ok(all)
}

/// The length of all regular files below a folder.
fn bytes_below<D: Disk>(disk: &D, path: &Path) -> Result<u64, StoreError> {
    let Some(stat) = found(disk.stat(path)).map_err(io("cannot examine", path))? else { return Ok(0) };
    match stat.kind {
        FileKind::Regular => Ok(stat.len),
        FileKind::Link | FileKind::Special => Ok(0),
        FileKind::Directory => {
            let mut bytes = 0;
            for name in found(disk.list(path)).map_err(io("cannot list", path))?.unwrap_or_default() {
                bytes += bytes_below(disk, &path.join(name))?;
            }
            Ok(bytes)
        }
    }
}

/// Removes a file, or a folder with all that is in it. What is gone already is gone.
fn remove_below<D: Disk>(disk: &D, path: &Path) -> Result<(), StoreError> {
    let Some(stat) = found(disk.stat(path)).map_err(io("cannot examine", path))? else { return Ok(()) };
    let removed = if stat.kind == FileKind::Directory {
        for name in found(disk.list(path)).map_err(io("cannot list", path))?.unwrap_or_default() {
            remove_below(disk, &path.join(name))?;
        }
        disk.remove_dir(path)
    } else {
        disk.remove(path)
    };
    found(removed).map(drop).map_err(io("cannot remove", path))
}

//! The invariants, checked over a journal without the fold that the machine uses: I1 to I9 from its entries alone, I10
//! from what was said.
//!
//! For test kits and for `fsck`: one function a property, all of them after every event.

use std::collections::BTreeMap;

use crate::bound::BoundOperation;
use crate::bound::RecoveryClass;
use crate::commit::Commit;
use crate::conversation::parts;
use crate::entry::{End, Entry};
use crate::ids::{Attempt, Epoch, OpNumber};
use crate::outcome::Via;
use crate::record::Raw;

/// A journal that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invariant} is broken at revision {revision}: {how}")]
pub struct Broken {
    /// Which one, as `I1`.
    pub invariant: &'static str,
    /// Where.
    pub revision: u64,
    /// How.
    pub how: String,
}

#[derive(Default)]
struct Track {
    attempts: Vec<(Attempt, Epoch)>,
    absent: Vec<Attempt>,
    settled: Option<&'static str>,
    skipped_or_landed: bool,
    restored: bool,
}

impl Track {
    /// A restore may have lost an attempt: it is open until it is accounted for.
    fn lost(&mut self) {
        self.restored = true;
        if self.settled.is_none() {
            self.attempts.insert(0, (Attempt::LOST, Epoch::NONE));
            self.absent.retain(|a| *a != Attempt::LOST);
        }
    }
}

/// Checks a whole journal.
///
/// # Errors
/// The first invariant that is broken.
pub fn check(commits: &[Commit]) -> Result<(), Broken> {
    invariant_i5_the_chain_holds(commits)?;
    invariant_i6_epochs_never_fall(commits)?;
    let bound = invariant_i3_keys_are_fixed_at_bind(commits)?;
    invariants_of_operations(commits, &bound)
}

/// Checks I10 over a whole journal and all that was said, in its order: no call id twice, no result without its call, no
/// second result, and when a turn finishes, none missing. A journal from before this was enforced may break it.
///
/// # Errors
/// The first place where it is broken.
pub fn check_conversation(commits: &[Commit], messages: &[Raw]) -> Result<(), Broken> {
    let mut left = messages.iter();
    let mut results: BTreeMap<String, u32> = BTreeMap::new();
    for commit in commits {
        for entry in commit.entries() {
            if let Entry::Said(said) = entry {
                for _ in 0..said.messages {
                    let message = left.next().ok_or_else(|| broken("I10", commit, "a message is missing"))?;
                    for part in parts(message) {
                        let call = part.call.is_some();
                        let count = results.get_mut(&part.id).map(|count| {
                            *count += u32::from(!call);
                            *count
                        });
                        let id = &part.id;
                        match (call, count) {
                            (true, None) => drop(results.insert(part.id, 0)),
                            (false, Some(1)) => {}
                            (true, Some(_)) => {
                                return Err(broken("I10", commit, format!("two calls `{id}`")));
                            }
                            (false, None) => return Err(broken("I10", commit, format!("no call `{id}`"))),
                            (false, Some(n)) => {
                                return Err(broken("I10", commit, format!("{n} results for call `{id}`")));
                            }
                        }
                    }
                }
            } else if let Entry::Finished(_) = entry
                && let Some((id, _)) = results.iter().find(|(_, count)| **count == 0)
            {
                return Err(broken(
                    "I10",
                    commit,
                    format!("the turn is over, and call `{id}` has no result"),
                ));
            }
        }
    }
    match left.next() {
        None => Ok(()),
        Some(_) => commits.last().map_or(Ok(()), |last| Err(broken("I10", last, "a message too many"))),
    }
}

fn broken(invariant: &'static str, commit: &Commit, how: impl Into<String>) -> Broken {
    Broken { invariant, revision: commit.revision().value(), how: how.into() }
}

fn invariant_i5_the_chain_holds(commits: &[Commit]) -> Result<(), Broken> {
    let mut prev = None;
    for (n, commit) in commits.iter().enumerate() {
        if commit.revision().value() != n as u64 + 1 || commit.prev() != prev {
            return Err(broken("I5", commit, "it does not follow the commit before it"));
        }
        prev = Some(commit.sum());
    }
    Ok(())
}

fn invariant_i6_epochs_never_fall(commits: &[Commit]) -> Result<(), Broken> {
    let mut epoch = Epoch::NONE;
    let mut owned = false;
    for commit in commits {
        if commit.epoch() < epoch {
            return Err(broken("I6", commit, "the epoch fell"));
        }
        let claims = commit.entries().iter().any(|e| matches!(e, Entry::Claimed(_)));
        let restores = commit.entries().iter().any(|e| matches!(e, Entry::Restored(_)));
        if (commit.epoch() > epoch || !owned) && !claims && !restores {
            return Err(broken("I6", commit, "a commit without an owner"));
        }
        epoch = commit.epoch();
        owned = !commit.entries().iter().any(|e| matches!(e, Entry::Released(_)));
    }
    Ok(())
}

fn invariant_i3_keys_are_fixed_at_bind(commits: &[Commit]) -> Result<Vec<BoundOperation>, Broken> {
    let mut bound: Vec<BoundOperation> = Vec::new();
    for commit in commits {
        for entry in commit.entries() {
            if let Entry::Bound(e) = entry {
                for operation in &e.operations {
                    if bound.iter().any(|other| other.key == operation.key) {
                        return Err(broken("I3", commit, format!("key {} is bound twice", operation.key)));
                    }
                    bound.push(operation.clone());
                }
            }
        }
    }
    Ok(bound)
}

fn invariants_of_operations(commits: &[Commit], bound: &[BoundOperation]) -> Result<(), Broken> {
    let mut tracks: BTreeMap<OpNumber, Track> = BTreeMap::new();
    let mut count = 0;
    let mut first_of_turn = 0;
    let mut restored = false;
    for commit in commits {
        for entry in commit.entries() {
            match entry {
                Entry::Bound(e) => {
                    first_of_turn = count;
                    count += e.operations.len();
                    for n in (first_of_turn..count).filter(|_| restored) {
                        tracks.entry(OpNumber::at(n)).or_default().lost();
                    }
                }
                Entry::Restored(_) => {
                    restored = true;
                    for n in 0..count {
                        tracks.entry(OpNumber::at(n)).or_default().lost();
                    }
                }
                Entry::Intended(e) => {
                    let key = bound.get(e.op.index()).map(|b| b.key);
                    if key != Some(e.key) {
                        return Err(broken("I3", commit, format!("operation {} has another key", e.op)));
                    }
                    for n in first_of_turn..e.op.index() {
                        if tracks.get(&OpNumber::at(n)).is_none_or(|t| t.settled.is_none()) {
                            return Err(broken(
                                "I4",
                                commit,
                                format!("operation {} is not the lowest", e.op),
                            ));
                        }
                    }
                    let repeats =
                        bound.get(e.op.index()).is_some_and(|b| b.recovery == RecoveryClass::Repeat);
                    let track = tracks.entry(e.op).or_default();
                    invariant_i9_settled_never_changes(track, commit, "intended", e.op)?;
                    if track.attempts.last().is_some_and(|(last, _)| e.attempt <= *last) {
                        return Err(broken(
                            "I8",
                            commit,
                            format!("attempt {} of operation {}", e.attempt, e.op),
                        ));
                    }
                    let open = track.attempts.iter().any(|(a, _)| !track.absent.contains(a));
                    if open && !repeats {
                        return Err(broken("I2", commit, format!("operation {} may have landed", e.op)));
                    }
                    track.attempts.push((e.attempt, commit.epoch()));
                }
                Entry::Succeeded(e) => {
                    let track = tracks.entry(e.op).or_default();
                    invariant_i9_settled_never_changes(track, commit, "succeeded", e.op)?;
                    invariant_i1_settled_was_intended(track, commit, e.op, e.attempt, e.via)?;
                    track.settled = Some("succeeded");
                    track.skipped_or_landed = true;
                }
                Entry::Failed(e) => {
                    let track = tracks.entry(e.op).or_default();
                    invariant_i9_settled_never_changes(track, commit, "failed", e.op)?;
                    invariant_i1_settled_was_intended(track, commit, e.op, e.attempt, e.via)?;
                    match e.via {
                        Via::Reconciled | Via::Operator => {
                            track.absent = track.attempts.iter().map(|(a, _)| *a).collect();
                        }
                        Via::Executed | Via::Late | Via::Engine => track.absent.push(e.attempt),
                    }
                    if e.last && track.attempts.iter().all(|(a, _)| track.absent.contains(a)) {
                        track.settled = Some("failed");
                    }
                }
                Entry::Skipped(e) => {
                    let track = tracks.entry(e.op).or_default();
                    invariant_i9_settled_never_changes(track, commit, "skipped", e.op)?;
                    track.settled = Some("skipped");
                    track.skipped_or_landed = true;
                }
                Entry::Denied(e) => {
                    let track = tracks.entry(e.op).or_default();
                    invariant_i9_settled_never_changes(track, commit, "denied", e.op)?;
                    track.settled = Some("denied");
                }
                Entry::Finished(e) => {
                    let all = (first_of_turn..count)
                        .all(|n| tracks.get(&OpNumber::at(n)).is_some_and(|t| t.skipped_or_landed));
                    if e.outcome == End::Completed && !all {
                        return Err(broken("I7", commit, "completed with an operation that is not done"));
                    }
                }
                Entry::Opened(_)
                | Entry::Said(_)
                | Entry::Claimed(_)
                | Entry::Released(_)
                | Entry::Doubted(_)
                | Entry::Approved(_)
                | Entry::Cancelled(_)
                | Entry::HandedOff(_) => {}
            }
        }
    }
    Ok(())
}

fn invariant_i9_settled_never_changes(
    track: &Track,
    commit: &Commit,
    entry: &str,
    op: OpNumber,
) -> Result<(), Broken> {
    match track.settled {
        None => Ok(()),
        Some(settled) => Err(broken("I9", commit, format!("operation {op} is {settled}, then {entry}"))),
    }
}

/// I1, seen from the journal: what the execution itself says is of an attempt that was intended under that epoch.
fn invariant_i1_settled_was_intended(
    track: &Track,
    commit: &Commit,
    op: OpNumber,
    attempt: Attempt,
    via: Via,
) -> Result<(), Broken> {
    let intended = track.attempts.iter().find(|(a, _)| *a == attempt);
    let own = match via {
        Via::Executed => intended.is_some_and(|(_, epoch)| *epoch <= commit.epoch()),
        Via::Engine | Via::Late => intended.is_some(),
        Via::Reconciled | Via::Operator => intended.is_some() || track.restored,
    };
    if own {
        Ok(())
    } else {
        Err(broken("I1", commit, format!("attempt {attempt} of operation {op} was never intended")))
    }
}

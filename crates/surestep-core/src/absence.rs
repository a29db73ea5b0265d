//! Earned absence: when "not found" may be believed.
//!
//! A look-up that finds nothing says only that nothing was visible when it began. An attempt is *absent* once
//! - (a) its adapter said *not sent* or *refused*, or the engine never sent it; or
//! - (b) the look-up began, on one clock, later than its end plus the visibility lag; or
//! - (c) it was local work of an older epoch whose owner, with all below its guard, is proved dead.
//!
//! An operation is absent only if every one of its attempts is. Wall clocks take no part.

use crate::ids::{Attempt, Epoch};
use crate::key::Key;
use crate::session::{AttemptRecord, Operation};
use crate::time::{Mark, Stamp};

/// What a hold and its store prove, as the core needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    /// The predecessor, and everything below its guards, is gone.
    pub predecessor_dead: bool,
    /// A hash of this machine and this store; empty where the machine is not known.
    pub machine: String,
    /// Attempts whose guard began on this boot and is not known to have ended.
    pub unfinished: Vec<(Key, Attempt)>,
    /// The store server's stamps of the commits, by revision from 1, on stores with a server.
    pub publishes: Vec<Stamp>,
    /// The store server's stamp of the read.
    pub read: Option<Stamp>,
}

/// Milliseconds until a look-up that begins then could prove the operation absent; 0: one that begins now does.
#[must_use]
pub fn wait_ms(operation: &Operation, epoch: Epoch, proof: &Proof, began: &Mark) -> u64 {
    operation
        .unaccounted()
        .map(|attempt| attempt_wait_ms(operation, attempt, epoch, proof, began))
        .max()
        .unwrap_or(0)
}

fn attempt_wait_ms(
    operation: &Operation,
    attempt: &AttemptRecord,
    epoch: Epoch,
    proof: &Proof,
    began: &Mark,
) -> u64 {
    let terms = &operation.bound;
    if terms.local && dead_below_guard(operation, attempt, epoch, proof, began) {
        return 0;
    }
    // The end stands in the journal, so every look-up begins after it: without a lag no clock is needed.
    if terms.local && terms.lag_ms == 0 && attempt.ended.is_some() {
        return 0;
    }
    let left = |elapsed: u64, span: u64| {
        (span.saturating_add(terms.lag_ms).saturating_add(2)).saturating_sub(elapsed)
    };
    let since_end = attempt.ended.as_ref().and_then(|ended| began.since(ended));
    let after_end = since_end.map(|elapsed| left(elapsed, 0));
    if let (Some(wait), true) = (after_end, terms.local) {
        return wait;
    }
    // Work that the remote may still be doing does not end before its deadline.
    let budget = attempt.budget_ms;
    let by_deadline = if let Some(elapsed) = began.since(&attempt.intended) {
        left(elapsed, budget)
    } else if let Some(elapsed) = by_stamps(attempt, proof) {
        left(elapsed, budget)
    } else {
        let first_read = attempt.reads.iter().filter_map(|read| began.since(read)).max();
        left(first_read.unwrap_or(0), budget)
    };
    by_deadline.max(after_end.unwrap_or(0))
}

/// (c): taking over the lock proved that the owner and everything below its guard are gone.
fn dead_below_guard(
    operation: &Operation,
    attempt: &AttemptRecord,
    epoch: Epoch,
    proof: &Proof,
    began: &Mark,
) -> bool {
    if attempt.epoch >= epoch || !proof.predecessor_dead || attempt.number == Attempt::LOST {
        return false;
    }
    if attempt.intended.boot == began.boot {
        began.since(&attempt.intended).is_some()
            && !proof.unfinished.contains(&(operation.bound.key, attempt.number))
    } else {
        !attempt.machine.is_empty() && attempt.machine == proof.machine
    }
}

fn by_stamps(attempt: &AttemptRecord, proof: &Proof) -> Option<u64> {
    let index = usize::try_from(attempt.revision.value().checked_sub(1)?).ok()?;
    proof.read?.since(proof.publishes.get(index)?)
}

/// Whether a `repeat` may execute again: the remote surely still remembers our key (§6).
#[must_use]
pub fn may_repeat(operation: &Operation, proof: &Proof, now: &Mark) -> bool {
    repeat_left_ms(operation, proof, now) > 0
}

/// Milliseconds that are left in which a `repeat` may be sent.
#[must_use]
pub fn repeat_left_ms(operation: &Operation, proof: &Proof, now: &Mark) -> u64 {
    let terms = &operation.bound;
    // An attempt that a restore lost began nobody knows when: the remote may have forgotten its key already.
    let first = operation.attempts.iter().find(|a| a.number != Attempt::LOST || !a.absent);
    let (Some(within), Some(first)) = (terms.within_ms, first.filter(|a| a.number != Attempt::LOST)) else {
        return 0;
    };
    let Some(elapsed) = now.since(&first.intended).or_else(|| by_stamps(first, proof)) else { return 0 };
    within.saturating_sub(elapsed.saturating_add(terms.deadline_ms).saturating_add(terms.lag_ms))
}

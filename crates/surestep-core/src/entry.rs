//! The journal's entries: what is written, and nothing that can be derived.
//!
//! One record per entry, told apart by its `entry` field. What an entry does to an operation is decided in one
//! place, the table in [`operation`](crate::operation).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use crate::bound::BoundOperation;
use crate::ids::{Attempt, Digest, Epoch, HoldId, Kind, OpNumber, RequestId, Revision, TurnNumber};
use crate::key::Key;
use crate::outcome::{Counts, Fault, Receipt, Via};
use crate::record::record;
use crate::time::{Mark, Pause, Wall};

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Every operation succeeded or was skipped.
    Completed,
    /// An operation failed for good or was denied.
    Failed,
    /// A person cancelled it.
    Cancelled,
}

record! {
    /// The session exists.
    pub struct Opened: entry "opened" {
        /// Who acts, for people.
        agent: String,
        /// What for, for people.
        task: String,
        ;
        /// W3C trace context of the caller.
        traceparent: String,
        /// The id of the store that it was opened at: its home until it is handed off.
        store: String,
    }
}

record! {
    /// Messages were added to the conversation; their content is kept beside the journal, by digest.
    pub struct Said: entry "said" {
        /// Digest of the messages' canonical JSON list.
        digest: Digest,
        /// How many messages.
        messages: u32,
        /// Length of that list, in bytes.
        bytes: u64,
        ;
    }
}

record! {
    /// A turn's plan was bound.
    pub struct Bound: entry "bound" {
        /// The lane: 0 for a plan.
        lane: u32,
        /// The turn's number.
        turn: TurnNumber,
        /// Digest of what makes two plans equal.
        digest: Digest,
        /// What the turn says when all of it is done.
        verdict: String,
        /// Its operations, in order.
        operations: Vec<BoundOperation>,
        ;
        /// Why, in the planner's words.
        rationale: String,
        /// The folder against which relative paths in bodies are read.
        dir: String,
        /// The plan came from outside: only these kinds may run in this turn.
        allow: Vec<Kind>,
    }
}

record! {
    /// Ownership changed.
    pub struct Claimed: entry "claimed" {
        /// The new epoch.
        epoch: Epoch,
        /// The random id of the hold: it alone decides.
        hold: HoldId,
        /// Who, for people.
        owner: String,
        ;
        /// The session was handed off to this store, and is taken in: the store is its home from here on.
        store: String,
        /// With `store`: only these kinds may run in the turns that came with it.
        allow: Vec<Kind>,
    }
}

record! {
    /// The owner let go.
    pub struct Released: entry "released" { ; }
}

record! {
    /// An attempt may begin once this is durable.
    pub struct Intended: entry "intended" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// The attempt.
        attempt: Attempt,
        /// The whole time it has, in milliseconds, counted from the mark.
        budget_ms: u64,
        /// The boot on which it was intended.
        boot: String,
        /// When, in milliseconds since that boot.
        since_boot_ms: u64,
        /// Its end, for people.
        deadline: Wall,
        ;
        /// A hash of machine and store: the same machine on another boot is known by it.
        machine: String,
    }
}

record! {
    /// The operation landed.
    pub struct Succeeded: entry "succeeded" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// The attempt that was open.
        attempt: Attempt,
        /// Who says so.
        via: Via,
        /// What it left behind.
        receipt: Receipt,
        ;
        /// The person who says so.
        by: String,
        /// Why.
        because: String,
        /// The request that this answers.
        request: RequestId,
    }
}

record! {
    /// One attempt surely did not land. It settles the attempt; the operation only with `last`.
    pub struct Failed: entry "failed" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// The attempt.
        attempt: Attempt,
        /// Who says so.
        via: Via,
        /// What was said.
        fault: Fault,
        /// Which counter it goes to.
        counts: Counts,
        /// Whether the operation has failed for good.
        last: bool,
        ;
        /// The wait before the next attempt.
        rest: Pause,
        /// The person who says so.
        by: String,
        /// Why.
        because: String,
        /// Said by a person before absence was earned, on their own responsibility.
        overridden: bool,
        /// The request that this answers.
        request: RequestId,
    }
}

record! {
    /// The attempt may have landed: evidence and waits of a doubt.
    pub struct Doubted: entry "doubted" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// The attempt.
        attempt: Attempt,
        ;
        /// What is known.
        why: Fault,
        /// When a process of this boot first read the intent.
        read: Mark,
        /// When the attempt was known to be over.
        ended: Mark,
        /// The next look-up is not before its end.
        rest: Pause,
        /// How many look-ups in a row could not tell.
        looks: u32,
        /// A person must answer.
        person: bool,
        /// The worker ended by itself.
        by_itself: bool,
    }
}

record! {
    /// A person said yes to exactly this.
    pub struct Approved: entry "approved" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// Digest of the body that may run.
        digest: Digest,
        /// Who.
        by: String,
        /// Why.
        because: String,
        ;
        /// Digest of all that may run: the bound operation with its terms, and the folder of its relative paths.
        whole: Digest,
        /// The request that this answers.
        request: RequestId,
    }
}

record! {
    /// A person said no.
    pub struct Denied: entry "denied" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// Who.
        by: String,
        /// Why.
        because: String,
        ;
        /// The request that this answers.
        request: RequestId,
    }
}

record! {
    /// A person leaves the operation as it is and goes on.
    pub struct Skipped: entry "skipped" {
        /// The operation.
        op: OpNumber,
        /// Its key.
        key: Key,
        /// Who.
        by: String,
        /// Why.
        because: String,
        /// Skipped out of doubt: it may have landed.
        may_have_landed: bool,
        ;
        /// The request that this answers.
        request: RequestId,
    }
}

record! {
    /// A person wants no new intent; what is in doubt is settled first.
    pub struct Cancelled: entry "cancelled" {
        /// Who.
        by: String,
        /// Why.
        because: String,
        ;
        /// The request that this answers.
        request: RequestId,
    }
}

record! {
    /// The turn is over.
    pub struct Finished: entry "finished" {
        /// The lane.
        lane: u32,
        /// The turn.
        turn: TurnNumber,
        /// How it ended.
        outcome: End,
        ;
    }
}

record! {
    /// The session lives elsewhere from here on.
    pub struct HandedOff: entry "handed_off" {
        /// The receiving store's id: the session's home once that has taken it in.
        to: String,
        /// The epoch that it is taken in with.
        epoch: Epoch,
        ;
    }
}

record! {
    /// The store was put back to an older copy: what is not settled may have run.
    pub struct Restored: entry "restored" {
        /// The revision that was once reached.
        mark_revision: Revision,
        /// The epoch that was once reached.
        mark_epoch: Epoch,
        /// The boot on which this was found.
        boot: String,
        /// When, in milliseconds since that boot.
        since_boot_ms: u64,
        ;
        /// The sum of the last commit that was once reached; absent where only a person says that there was more.
        mark_head: Digest,
    }
}

macro_rules! entries {
    ($($variant:ident $tag:literal),* $(,)?) => {
        /// One entry of the journal.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Entry {
            $(#[doc = concat!("`", $tag, "`")] $variant($variant),)*
        }

        impl Entry {
            /// The words that an entry's `entry` field may hold.
            pub const TAGS: &[&str] = &[$($tag),*];

            /// The entry's word.
            #[must_use]
            pub const fn tag(&self) -> &'static str {
                match self { $(Self::$variant(_) => $tag,)* }
            }

            /// The schema of each entry.
            #[cfg(feature = "schema")]
            pub(crate) fn schemas(all: &mut schemars::SchemaGenerator) -> Vec<schemars::Schema> {
                vec![$(all.subschema_for::<$variant>()),*]
            }
        }

        $(impl From<$variant> for Entry {
            fn from(entry: $variant) -> Self { Self::$variant(entry) }
        })*

        impl Serialize for Entry {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$variant(entry) => entry.serialize(to),)* }
            }
        }

        impl<'de> Deserialize<'de> for Entry {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let raw = Box::<RawValue>::deserialize(from)?;
                let peeked: Peek = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
                match peeked.entry.as_str() {
                    $($tag => serde_json::from_str(raw.get()).map(Self::$variant).map_err(D::Error::custom),)*
                    other => Err(D::Error::custom(format!("{UNKNOWN_ENTRY} `{other}`"))),
                }
            }
        }
    };
}

/// How the error for an entry that this version does not know begins.
pub(crate) const UNKNOWN_ENTRY: &str = "this version knows no entry";

/// Reads only the tag.
#[derive(Deserialize)]
struct Peek {
    entry: String,
}

entries! {
    Opened "opened", Said "said", Bound "bound", Claimed "claimed", Released "released",
    Intended "intended", Succeeded "succeeded", Failed "failed", Doubted "doubted",
    Approved "approved", Denied "denied", Skipped "skipped", Cancelled "cancelled",
    Finished "finished", HandedOff "handed_off", Restored "restored",
}

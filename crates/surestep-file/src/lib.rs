//! The embedded file store of surestep: durable turns in a folder, without a server.
//!
//! ```text
//! <root>/surestep.json                              format and id of the store
//! <root>/sessions/<name>/lock                       flock and birth mark; never deleted, renamed or unlocked
//! <root>/sessions/<name>/journal/00000003.json      one commit
//! <root>/sessions/<name>/late/…  requests/…         late results; people's words for the owner
//! <root>/sessions/<name>/guards/…  holder.json      the guards' records; who holds the lock, for people
//! <root>/blobs/<aa>/<sha256>                        content by digest
//! <root>/aside/<time>-<random>/…                    what a repair moved, under its own path; never read as state
//! ```
//!
//! Assumptions about the medium, numbered so that a failure can name the one that did not hold:
//! 1. After `fsync` of a file returned `Ok`, its bytes and length survive a loss of power.
//! 2. After `fsync` of a directory returned `Ok`, so do the names in it; a rename is seen wholly or not at all.
//! 3. A rename that must not replace (`RENAME_NOREPLACE`, or `link`) is atomic among the processes of the machine.
//! 4. Overwriting the eight bytes of the birth mark, within one sector, gives the old or the new ones.
//! 5. `flock` excludes, and is freed by the kernel when the last copy of its descriptor is closed.
//!
//! File systems that do not promise them (memory, network, user space, volatile overlays) are refused unless named.
//!
//! Where the decisions live: [`disk`] every call on a file system; `atomic` how a file is published; `journal` what
//! makes a session whole, and the birth mark; `marks` and `rolled` how an older copy is noticed; `hold` what taking the
//! lock does and proves; `held` publishing and what happens when nobody knows; `names` how an id becomes a file name;
//! `mounts` which file systems are refused; [`check`] what is wrong with a store; [`repair`] how that is moved aside, and what then starts in doubt.

mod atomic;
pub mod check;
mod check_beside;
mod check_session;
mod check_store;
pub mod disk;
mod envelope;
mod fault;
mod gc;
mod gc_plan;
mod guards;
mod held;
mod hold;
mod host;
mod journal;
mod layout;
mod listing;
mod mailbox;
mod marks;
mod mounts;
mod names;
mod open;
mod pruned;
mod real;
pub mod repair;
mod repair_home;
mod repair_session;
mod rolled;
mod sealed;
#[doc(hidden)]
pub mod side;
mod store;

pub use disk::{Disk, FileKind, Identity, Stat};
pub use fault::Class;
pub use gc_plan::{GcDone, GcError, GcPlan, GcSession};
pub use marks::{HighMark, MarksState};
pub use open::{GoneStore, Options};
pub use pruned::Tombstone;
pub use real::RealDisk;
pub use rolled::RolledBack;
pub use store::FileStore;

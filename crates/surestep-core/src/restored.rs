//! A store that was put back to an older copy: the entry that says so.

use crate::entry::Restored;
use crate::ids::{Digest, Epoch, Revision};
use crate::misfit::Misfit;
use crate::record::Extra;
use crate::time::Now;
use crate::turn::{Next, Turn};

impl Turn {
    /// Stages the `restored` entry, alone: from it on every operation that is not finally settled, and each one
    /// bound later, is in doubt, since a commit that is lost may have run it. `once` is how far the session is known
    /// to have got.
    ///
    /// # Errors
    /// When the session cannot take it: it was handed off.
    pub fn restore(mut self, once: (Revision, Epoch, Option<Digest>), now: &Now) -> Result<Next, Misfit> {
        let (mark_revision, mark_epoch, mark_head) = once;
        let entry = Restored {
            mark_revision,
            mark_epoch,
            boot: now.mark.boot.clone(),
            since_boot_ms: now.mark.since_boot_ms,
            mark_head,
            extra: Extra::default(),
        };
        self.push(entry.into(), now)?;
        self.stage(now, None)
    }
}

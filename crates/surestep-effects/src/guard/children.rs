//! Seeing one's children end, whatever the parent left behind.

use std::sync::Arc;

use signal_hook::consts::SIGCHLD;

/// A parent may have left SIGCHLD ignored: then the system reaps every child by itself, no exit status is ever seen, and
/// every command would end as unknown. A handler that does nothing takes that away; in what is started afterwards the
/// signal has its default meaning again. For the first lines of a `main`; a library leaves its host's signals alone.
pub fn heed_children() {
    // Refused only for signals that cannot be handled, which this one is not.
    let _ = signal_hook::flag::register(SIGCHLD, Arc::default());
}

//! Every call on the disk fails, once and for good (acceptance 3): effects never exceed what the journal says, what was
//! seen is never lost, and the run succeeds once the fault is gone.

mod binary;
mod disk;
mod limits;
mod sweep;

//! The file store, end to end, on the real disk and on one that fails.

mod faults;
mod files;
mod guards;
mod holds;
mod publish;
mod room;
mod support;

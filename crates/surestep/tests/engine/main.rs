//! The engine, attacked: one binary, a `mod` per theme.
//!
//! `common` is the world: a remote that is scripted per target and counts calls and landings apart, a clock under
//! control, and a store that fails where it is told to. Every test ends with [`common::World::check`], which holds the
//! journal against the invariants I1 to I9.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets something unexpected stops there"
)]

mod answers; // a person's words
mod commits;
mod common;
mod conversation; // a commit fails: what is known is kept, what was not sent is not in doubt
mod doubt; // it errored is not it did not happen
mod examples; // the examples run
mod mailbox;
mod moves;
mod ownership; // epochs, leases, rivals
mod plans; // binding, refusals, turns
mod rests;
mod schedules;
mod scrubbing; // what a text does to hide a credential
mod secrets; // none in what is stored // everything at once, from seeds // time: until, backoff, repeat
mod sources; // secrets that a body names

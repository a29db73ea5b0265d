//! End to end, from outside: one binary, a module per theme.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy.toml does not count as tests"
)]

mod tidy;

mod approvals;
mod bodies;
mod contention;
mod damage;
mod envelopes;
mod faults;
mod fixtures;
mod flushes;
mod format;
mod full_disk;
mod fuzz_corpus;
mod gc;
mod growth;
mod harness;
mod kill_boundaries;
mod kill_random;
mod modes;
mod moving;
mod orphans;
mod push;
mod restored;
mod schemas;
mod secrets;
mod time;
mod unchecked;

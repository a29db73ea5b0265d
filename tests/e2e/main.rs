//! End to end, from outside: one binary, a module per theme.

mod tidy;

mod bodies;
mod contention;
mod envelopes;
mod flushes;
mod full_disk;
mod harness;
//mod kill_boundaries;
mod kill_random;
mod orphans;
mod push;
mod time;
mod unchecked;

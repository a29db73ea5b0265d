//! Exit codes of the command line: a stable part of the interface.

use surestep_core::{End, Rest};

/// Done.
pub const DONE: u8 = 0;
/// Something unexpected.
pub const UNEXPECTED: u8 = 1;
/// Usage, plan or configuration.
pub const USAGE: u8 = 2;
/// The turn finished as failed.
pub const FAILED: u8 = 3;
/// A person must answer.
pub const PERSON: u8 = 4;
/// The turn rests until a time.
pub const UNTIL: u8 = 5;
/// Held or fenced by another.
pub const HELD: u8 = 6;
/// A newer format or version.
pub const VERSION: u8 = 7;
/// Damaged files.
pub const INTEGRITY: u8 = 8;
/// A divergence was found.
pub const DIVERGED: u8 = 9;
/// No such session or operation.
pub const NO_SUCH: u8 = 10;
/// The store is unavailable, full or locked.
pub const STORE: u8 = 11;
/// The wait limit was reached.
pub const WAIT_LIMIT: u8 = 12;
/// The turn was cancelled.
pub const CANCELLED: u8 = 13;

/// The exit code of a rest.
#[must_use]
pub const fn of(rest: &Rest) -> u8 {
    match rest {
        Rest::Finished(report) => match report.outcome {
            End::Completed => DONE,
            End::Failed => FAILED,
            End::Cancelled => CANCELLED,
        },
        Rest::NeedsPerson(_) => PERSON,
        Rest::Until { .. } => UNTIL,
        Rest::HandedOff { .. } => HELD,
        Rest::NoPlan => DONE,
        _ => UNEXPECTED,
    }
}

/// With several sessions: the first of these that occurs decides.
pub const ORDER: [u8; 12] = [
    UNEXPECTED, STORE, INTEGRITY, VERSION, PERSON, DIVERGED, FAILED, CANCELLED, HELD, WAIT_LIMIT, UNTIL, DONE,
];

//! Limits and defaults, each with its unit in its name. What is over a limit is refused at bind, never at settle.

/// Length of a session id, in bytes.
pub const SESSION_ID_BYTES_MAX: usize = 200;
/// Operations in one plan.
pub const PLAN_OPERATIONS_MAX: usize = 2_000;
/// Canonical text of one operation's body, in bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Length of an operation's `repo` or `target`, in bytes.
pub const PLACE_BYTES_MAX: usize = 4 << 10;
/// Length of a plan's verdict, task or agent, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// A receipt kept inside a commit, in bytes of JSON; its `detail` is cut to fit.
pub const RECEIPT_BYTES_MAX: usize = 16 << 10;
/// A receipt's `ref`, in bytes.
pub const RECEIPT_REF_BYTES_MAX: usize = 1 << 10;
/// A fault's message, in bytes; it is cut at a character border.
pub const FAULT_BYTES_MAX: usize = 4 << 10;
/// A receipt's `detail` that is repeated in a call's result, in bytes; a longer one is left out there.
pub const RESULT_DETAIL_BYTES_MAX: usize = 2 << 10;
/// Room that is reserved for a settle before its effect starts, in bytes.
pub const SETTLE_BYTES_RESERVED: u64 = 64 << 10;

/// Refusals ("answers") of one operation before it fails.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// Attempts of one operation that may be lost to crashes before a person is asked.
pub const RESTARTS_MAX: u32 = 20;
/// First wait after a refusal, in milliseconds; it doubles with each.
pub const BACKOFF_FIRST_MS: u64 = 1_000;
/// Longest wait after a refusal, in milliseconds.
pub const BACKOFF_MAX_MS: u64 = 300_000;
/// First wait between two look-ups of one doubt, in milliseconds; it doubles with each.
pub const LOOK_FIRST_MS: u64 = 5_000;
/// Longest wait between two look-ups of one doubt, in milliseconds.
pub const LOOK_MAX_MS: u64 = 3_600_000;
/// Look-ups in a row that could not tell, after which a person is asked.
pub const LOOKS_UNKNOWN_MAX: u32 = 4;
/// Longest rest that a stored time can cause, in milliseconds.
pub const REST_MAX_MS: u64 = 24 * 3_600_000;
/// Longest deadline that an operation may name, in milliseconds.
pub const DEADLINE_MAX_MS: u64 = 24 * 3_600_000;
/// Longest visibility lag that an operation may name, in milliseconds.
pub const LAG_MAX_MS: u64 = 24 * 3_600_000;
/// How much older than the first intent something without our mark may be and still be ours, in milliseconds.
pub const FOREIGN_MARGIN_MS: u64 = 600_000;
/// Default time limit of a lease on stores that have one, in milliseconds.
pub const LEASE_DEFAULT_MS: u64 = 30_000;
/// Lost time between an intent's commit and its sending after which head and hold are read again, in milliseconds.
pub const RECHECK_AFTER_MS: u64 = 1_000;
/// Time for one look-up, in milliseconds.
pub const LOOK_DEADLINE_MS: u64 = 60_000;

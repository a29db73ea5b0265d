//! `surestep-guard`: the guard as a program of its own, for users of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    surestep_effects::guard::guard_main()
}

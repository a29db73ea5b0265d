//! Every history within a bound: kills before and after each commit, execution and look-up, every outcome, late
//! landings, look-ups that cannot tell, early and late restarts on the same boot, another boot and another machine,
//! under a hold that proves death and under one that only fences.
//!
//! The bound is the number of things that go wrong in one history ([`Config::faults`]); the time and the place of each
//! restart come on top of it and are enumerated too. Each history is then driven on, undisturbed, to its end, which
//! must be the end of the control.

#![allow(clippy::panic, clippy::print_stderr, reason = "test support")]

mod common;

use common::{Config, explore, plan};
use surestep_core::RecoveryClass::{self, Ask, Halt, Repeat};

#[derive(Clone, Copy)]
struct Bound {
    operations: usize,
    faults: u32,
}

/// All stores, visibilities and speeds for one kind of operation.
fn every_history(recovery: RecoveryClass, then_ask: bool, local: bool, bounds: &[Bound]) {
    for bound in bounds {
        for (proves, visible_at_once, event_ms) in
            [(true, false, 3), (true, true, 0), (false, false, 0), (false, true, 3)]
        {
            let faults = bound.faults;
            let config = Config { recovery, then_ask, local, proves, visible_at_once, event_ms, faults };
            let started = std::time::Instant::now();
            match explore(&config, &plan(bound.operations)) {
                Ok(explored) => eprintln!(
                    "{} operation(s), {faults} fault(s), {config:?}: {explored:?} in {:?}",
                    bound.operations,
                    started.elapsed()
                ),
                Err(why) => panic!("{} operation(s): {why}", bound.operations),
            }
        }
    }
}

const BOUNDS: &[Bound] = &[
    Bound { operations: 1, faults: 2 },
    Bound { operations: 2, faults: 1 },
    Bound { operations: 3, faults: 1 },
];

#[test]
fn every_history_of_an_operation_that_can_be_asked_about_ends_like_the_control() {
    every_history(Ask, false, false, BOUNDS);
}

#[test]
fn every_history_of_a_local_operation_ends_like_the_control() {
    every_history(Ask, false, true, BOUNDS);
}

#[test]
fn every_history_of_an_operation_that_nobody_can_be_asked_about_ends_like_the_control_or_asks() {
    every_history(Halt, false, false, BOUNDS);
}

#[test]
fn every_history_of_a_repeatable_operation_ends_like_the_control_or_asks() {
    every_history(Repeat, false, false, BOUNDS);
}

#[test]
fn every_history_of_a_repeatable_operation_with_a_look_up_ends_like_the_control() {
    every_history(Repeat, true, false, BOUNDS);
}

/// One fault more, for nights: `just exhaustive`.
#[test]
fn every_longer_history_ends_like_the_control_or_asks() {
    if std::env::var_os("SURESTEP_DEEP").is_none() {
        println!("skipped: it takes many minutes in a release build; set SURESTEP_DEEP to run it");
        return;
    }
    let deeper = [Bound { operations: 2, faults: 2 }, Bound { operations: 1, faults: 3 }];
    for (recovery, then_ask, local) in [
        (Ask, false, true),
        (Halt, false, false),
        (Repeat, true, false),
        (Repeat, false, false),
        (Ask, false, false),
    ] {
        every_history(recovery, then_ask, local, &deeper);
    }
}

//! The examples are run, not only compiled.

#[path = "../../examples/custom_effect.rs"]
mod custom_effect;
#[path = "../../examples/orchestrator.rs"]
mod orchestrator;
#[path = "../../examples/resume_from_bytes.rs"]
mod resume_from_bytes;

#[test]
fn the_orchestrator_handles_every_rest() {
    orchestrator::main().unwrap();
}

#[test]
fn a_custom_effect_brings_its_own_recovery() {
    custom_effect::main().unwrap();
}

#[test]
fn a_turn_resumes_in_another_engine_from_bytes() {
    resume_from_bytes::main().unwrap();
}

//! Fuzz target: `envelope` (tests/fuzz/src/properties.rs).
#![no_main]

#[path = "../src/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::run("envelope", data);
});

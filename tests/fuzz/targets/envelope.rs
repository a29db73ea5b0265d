//! Fuzz target: `envelope` (tests/fuzz/targets/properties.rs).
#![no_main]

mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::run("envelope", data);
});

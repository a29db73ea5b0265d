//! Fuzz target: `reader` (tests/fuzz/targets/properties.rs).
#![no_main]

mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::run("reader", data);
});

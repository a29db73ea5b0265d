//! The fuzzers' kept corpus, through the same properties, in every build: what was once found stays found.

use crate::harness::workspace;

#[path = "../fuzz/targets/properties.rs"]
mod properties;

#[test]
fn every_kept_input_holds_the_properties() {
    let mut bytes = 0;
    for target in properties::TARGETS {
        let folder = workspace().join("tests/fuzz/corpus").join(target);
        let inputs: Vec<_> = std::fs::read_dir(&folder).expect("a corpus").map(Result::unwrap).collect();
        assert!(inputs.len() >= 3, "{}: only {} inputs", folder.display(), inputs.len());
        for input in inputs {
            let data = std::fs::read(input.path()).expect("an input");
            bytes += data.len();
            properties::run(target, &data);
        }
    }
    assert!(bytes < 300_000, "the corpus has grown to {bytes} bytes: minimise it");
}

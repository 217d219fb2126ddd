//! The policies in `examples/policies` load and their own tests pass.

use std::path::Path;

use policy::{Format, Policy};

#[test]
fn every_example_policy_loads_and_carries_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let policy = Policy::load(&source, Format::Json)
            .unwrap_or_else(|error| panic!("{}: {:?}", path.display(), error.problems));
        let outcomes = policy.run_tests();
        assert!(outcomes.len() >= 3, "{} has too few tests", path.display());
        for outcome in outcomes {
            assert!(outcome.passed, "{}: {outcome:?}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 4, "only {seen} examples found");
}

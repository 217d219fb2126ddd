//! A build without the feature `demo`: it has everything but the demo, and says how to get it.

use crate::cli_test::CliTest;

#[test]
fn a_build_without_the_demo_says_how_to_get_it() {
    let test = CliTest::new();
    let output = test.run(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
    assert!(output.stderr.contains("this build has no demo data"), "{}", output.stderr);
    assert!(output.stderr.contains("hint: `cargo install"), "{}", output.stderr);
    assert!(!test.path("home-demo").exists(), "no home is created for it");
}

#[test]
fn a_build_without_the_demo_has_no_sandbox() {
    let output = CliTest::new().run(&["sandbox", "whoop"]);
    assert_eq!(output.code, 2, "{}", output.all_output());
    assert!(output.stderr.contains("unrecognized subcommand"), "{}", output.stderr);
}

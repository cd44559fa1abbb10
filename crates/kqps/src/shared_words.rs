//! Words that stand in two crates which do not know each other must be the same.

use std::collections::BTreeSet;

use kqps_server::Model;
use kqps_testbed::echo_io;

#[test]
fn the_lab_knows_the_io_models_of_the_servers() {
    let of_lab: BTreeSet<&str> = echo_io::models().collect();
    assert_eq!(of_lab, Model::NAMES.iter().copied().collect());
}

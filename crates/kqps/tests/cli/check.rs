//! `kqps check`: one of three words, with its status.

use crate::load::bench::{Bench, Echo, kqps, words};

/// A check of the echo with these flags: its status and its first line.
fn checked(bench: &Bench, flags: &[&str]) -> (Option<i32>, String) {
    let output =
        kqps(&["check", &bench.echo.address, "-d"]).arg(bench.queries()).args(flags).output().unwrap();
    let (out, err) = words(&output);
    (output.status.code(), out.lines().next().map_or(err, str::to_owned))
}

#[test]
fn a_server_is_never_limited_far_below_its_capacity_nor_fine_far_above() {
    // A query takes 200 µs, so the echo answers 5,000 a second at most.
    let bench = Bench::before(Echo::with(&["--work", "200us"]));
    let (status, said) = checked(&bench, &["--need", "500"]);
    let fine = "carries 500 q/s with headroom: all of 625 q/s was answered in time";
    // Beside other tests the host may hide the answer, but a wrong word is never said.
    assert!(
        (status == Some(0) && said.starts_with("fine: 127.0.0.1:") && said.contains(fine))
            || (status == Some(4) && said.starts_with("cannot tell: ")),
        "{status:?} {said}"
    );
    let (status, said) = checked(&bench, &["--need", "50k"]);
    assert!(
        (status == Some(3) && said.starts_with("limited: "))
            || (status == Some(4) && said.starts_with("cannot tell: ")),
        "{status:?} {said}"
    );
}

#[test]
fn loads_above_the_greatest_are_refused_before_any_is_sent() {
    let bench = Bench::new();
    let (status, said) = checked(&bench, &["--need", "1k", "--max", "1k"]);
    assert!(status == Some(2) && said.contains("give --max 1,250"), "{status:?} {said}");
    let elsewhere = ["check", "192.0.2.1", "--allow-target", "192.0.2.1", "--need", "9k", "-d"];
    let output = kqps(&elsewhere).arg(bench.queries()).output().unwrap();
    let err = words(&output).1;
    assert!(err.contains("at most 10,000 q/s are sent to another host"), "{err}");
}

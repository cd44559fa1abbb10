//! How far a server scales, on the page: the curve with its band, the table of constants, or why neither is known.

use kqps_verdict::judge::judge;

use crate::support::scaling::run;

#[test]
fn a_series_has_a_curve_with_its_band_and_a_row_of_constants() {
    let run = run(16);
    let page = kqps_report::page(&run, &judge(&run));
    // The rates have the curve, and the efficiencies have none.
    for class in ["law", "law-band"] {
        assert_eq!(page.matches(&format!("<polyline class=\"{class}\"")).count(), 1, "{class}");
        assert_eq!(page.matches(&format!("<span class=\"mark {class}\"")).count(), 1, "{class}");
    }
    let table = page.split("How far it scales: the Universal Scalability Law</h3>").nth(1).unwrap();
    let table = table.split("</table>").next().unwrap();
    let heads = ["one worker<", "echo, by workers<", "all, by workers, published<"];
    for wanted in heads.into_iter().chain([">0.05<", "12 workers", "extrapolated"]) {
        assert!(table.contains(wanted), "{wanted}: {table}");
    }
    assert!(!page.contains("How far it scales is not known"));
}

#[test]
fn a_host_with_few_cores_says_so_and_shows_what_was_published() {
    let run = run(2);
    let page = kqps_report::page(&run, &judge(&run));
    assert!(
        page.contains("How far it scales is not known: this host has 2 cores, which is too few"),
        "{page}"
    );
    assert!(page.contains("all, by workers, published<") && !page.contains("echo, by workers<"), "{page}");
    assert!(!page.contains("<polyline class=\"law"));
}

//! Dynamic updates (RFC 2136), from the same file.

use super::both::Both;
use super::heard::sorted;
use super::peer::Answer;
use super::shape;

/// The lines of dnsperf's manual page, and a second update.
const UPDATES: &str = "\
example.com
require a
require a A
require a A 1.2.3.4
prohibit x
prohibit x A
add x 3600 A 10.1.2.3
delete y A 10.1.2.3
delete z A
delete w
send
example.org
add q.example.org. 60 TXT \"a b\"
send
";

#[test]
fn updates_have_the_bytes_of_dnsperf() {
    let Some(both) = Both::new() else { return };
    both.write("updates", UPDATES);
    for flags in ["-u -d updates", "-u -d updates -e -n 2", "-u -d updates -D -m tcp -v -q 1"] {
        let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
        assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{flags}: {}", ours.err);
        assert_eq!(sorted(&ours.heard), sorted(&theirs.heard), "{flags}");
        assert_eq!(shape::lines(&ours.out), shape::lines(&theirs.out), "{flags}\n{}", ours.out);
    }
}

/// Names in data are compressed where every reader knows the type, and data of a prohibited set are ignored.
#[test]
fn names_in_data_are_compressed_like_those_of_dnsperf() {
    let Some(both) = Both::new() else { return };
    both.write(
        "updates",
        "example.com\nprohibit x A 1.2.3.4\nadd m 60 MX 10 mail\nadd c 60 CNAME mail\nadd n 60 NS ns.example.com.\n\
         add p 60 PTR host.example.org.\nadd s 60 SRV 1 2 3 mail\nadd t 60 TXT mail\ndelete c CNAME mail\n\
         add @ 60 SOA ns.example.com. admin.example.org. 1 2 3 4 5\nadd d 60 DNAME example.org.\nsend\n",
    );
    let flags = "-u -d updates";
    let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
    assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{}{}", ours.err, theirs.err);
    assert_eq!((sorted(&ours.heard), ours.heard.len()), (sorted(&theirs.heard), 1));
}

#[test]
fn an_update_with_a_bad_line_is_left_out() {
    let Some(both) = Both::new() else { return };
    both.write(
        "updates",
        "example.com\nfoo bar\nsend\nexample.net\nadd x\nsend\n\
         example.org\nadd x 60 A 1.2.3.4\nsend\na.test\nadd y 5 A 1.2.3.4\n",
    );
    let flags = "-u -d updates";
    let (theirs, ours) = (both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags));
    assert_eq!((ours.status, theirs.status), (Some(0), Some(0)), "{}", ours.err);
    assert_eq!((sorted(&ours.heard), ours.heard.len()), (sorted(&theirs.heard), 1));
    assert!(ours.err.contains("3 lines left out, no query: dynamic update"), "{}", ours.err);
}

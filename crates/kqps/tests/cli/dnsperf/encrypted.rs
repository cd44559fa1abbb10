//! DNS over TLS and over HTTPS, beside dnsperf, at kqps's own echo.

use super::both::Both;
use super::shape;
use crate::load::bench::words;
use crate::load::encrypted;

#[test]
fn both_play_over_tls_and_https() {
    let Some(both) = Both::new() else { return };
    for (scheme, flags) in [
        ("tls", "-m dot"),
        ("tls", "-m dot -c 2 -q 10 -n 2"),
        // With more streams Debian's 2.10 misses replies that come together.
        ("https", "-m doh -q 1"),
        ("https", "-m doh -q 1 -O doh-method=POST -O doh-uri=https://localhost/dns-query"),
    ] {
        let (_server, url, _) = encrypted::server(scheme, &[]);
        let port = url.rsplit_once(':').unwrap().1;
        let line = format!("-s 127.0.0.1 -p {port} -d queries -t 2 {flags}");
        let [theirs, ours] = [true, false].map(|is_theirs| both.command(is_theirs, &line).output().unwrap());
        assert_eq!((ours.status.code(), theirs.status.code()), (Some(0), Some(0)), "{flags}");
        let (theirs, (ours, err)) = (words(&theirs).0, words(&ours));
        assert_eq!(shape::lines(&ours), shape::lines(&theirs), "{flags}\n{ours}\n{err}\n{theirs}");
        assert!(ours.contains("Queries lost:         0 (0.00%)"), "{flags}\n{ours}\n{err}");
    }
}

//! The texts of dnsperf's help.

/// The version whose flags are taken. Scripts read it as one word, so it does not name kqps.
pub(super) const VERSION: &str = "2.15.0";

/// The text that `-h` prints, and that follows an error of the command line.
pub(super) const USAGE: &str = "\
Usage: dnsperf [-f family] [-m mode] [-s server_addr] [-p port]
               [-a local_addr] [-x local_port] [-d datafile] [-c clients]
               [-T threads] [-n maxruns] [-l timelimit] [-b buffer_size]
               [-t timeout] [-e] [-E code:value] [-D]
               [-y [alg:]name:secret] [-q num_queries] [-Q max_qps]
               [-S stats_interval] [-u] [-B] [-v] [-W] [-j] [-h] [-H] [-O]
  -f address family of DNS transport, inet or inet6 (default: any)
  -m set transport mode: udp, tcp, dot or doh (default: udp)
  -s the server to query (default: 127.0.0.1)
  -p the port on which to query the server (default: udp/tcp 53, DoT 853 or DoH 443)
  -a the local address from which to send queries
  -x the local port from which to send queries (default: 0)
  -d the input data file (default: stdin)
  -c the number of clients to act as
  -T the number of threads to run
  -n run through input at most N times
  -l run for at most this many seconds
  -b socket send/receive buffer size in kilobytes
  -t the timeout for query completion in seconds (default: 5)
  -e enable EDNS 0
  -E send EDNS option
  -D set the DNSSEC OK bit (implies EDNS)
  -y the TSIG algorithm, name and secret (base64)
  -q the maximum number of queries outstanding (default: 100)
  -Q limit the number of queries per second
  -S print qps statistics every N seconds
  -u send dynamic updates instead of queries
  -B read input file as TCP-stream binary format
  -v verbose: report each query and additional information to stdout
  -W log warnings and errors to stdout instead of stderr
  -j print results as JSON, an object in each line
  -h print this help
  -H print long options help
  -O set long options: <name>=<value>
";

/// The text that `-H` prints.
pub(super) const LONG: &str = "\
Usage: dnsperf ... -O <name>[=<value>] ...

Available long options:
  tls-sni=<tls_sni>: the TLS SNI to use for TLS connections
  qps-threshold-wait=<microseconds>: minimum threshold for enabling wait in rate limiting (has no effect in kqps)
  latency-histogram: collect and print detailed latency histograms
  verbose-interval-stats: print detailed statistics for each stats_interval
  num-queries-per-conn=<queries>: Number of queries to send per connection
  suppress=<message[,message,...]>: suppress messages/warnings, see man-page for list of message types
  doh-method=<doh_method>: the HTTP method to use for DNS-over-HTTPS: GET or POST (default: GET)
  doh-uri=<doh_uri>: the URI to use for DNS-over-HTTPS (default: https://localhost/dns-query)
  prefix=<kind>: random labels before every name: label[:BYTES[xLABELS]], bytes[:BYTES] or number:LOW-HIGH (kqps only)
";

//! Compares reply sizes and rates with the capacity of links: a name server that sends larger replies fills a
//! link at a lower rate.

use kqps_observation::Run;
use kqps_observation::question::Experiment;

use super::Figures;

/// The bytes of an Ethernet frame on the wire beside its payload: preamble 8, header 14, checksum 4, and a gap
/// of 12 (IEEE 802.3).
const FRAME_BYTES: f64 = 38.0;
/// The least payload of a frame (IEEE 802.3).
const PAYLOAD_LEAST_BYTES: f64 = 46.0;
/// The bytes of the IPv4 (RFC 791) and UDP (RFC 768) headers.
const HEADERS_BYTES: f64 = 28.0;

/// How many replies of this size a link carries in a second, in one direction, over UDP and IPv4. `reply_bytes`
/// is the size of the DNS message.
pub fn carried_qps(reply_bytes: f64, link_gbit_per_s: f64) -> f64 {
    let frame_bytes = (reply_bytes + HEADERS_BYTES).max(PAYLOAD_LEAST_BYTES) + FRAME_BYTES;
    link_gbit_per_s * 1e9 / 8.0 / frame_bytes
}

/// A cell as a point: the size of its replies and its rate.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPoint {
    /// Index into the figures of the run.
    pub figures: usize,
    /// The name of the subject.
    pub subject: String,
    /// Mean size of a correct reply's DNS message, bytes.
    pub reply_bytes: f64,
    /// Correct answers a second: the median of the starts.
    pub rate_qps: f64,
}

/// The measured cells of an experiment whose reply size is known.
pub fn points_of(run: &Run, figures: &[Figures], experiment: &Experiment) -> Vec<LinkPoint> {
    let own = figures.iter().enumerate().filter(|(_, one)| one.experiment == experiment.name);
    let point = |(index, one): (usize, &Figures)| {
        Some(LinkPoint {
            figures: index,
            subject: run.cells[one.cell as usize].subject.clone(),
            reply_bytes: one.reply_bytes?,
            rate_qps: one.median_qps?.median,
        })
    };
    own.filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_what_the_standard_says() {
        let whole = |bytes, gbit| carried_qps(bytes, gbit) as u64;
        // The well-known 14.88 million smallest frames a second at 10 Gb/s, and 812,743 of 1,500 bytes.
        assert_eq!((whole(18.0, 10.0), whole(12.0, 10.0)), (14_880_952, 14_880_952));
        assert_eq!(whole(1472.0, 10.0), 812_743);
        assert_eq!((whole(112.0, 10.0), whole(112.0, 100.0)), (7_022_471, 70_224_719));
    }
}

//! Metrics in the format that a client of Prometheus asks for: `OpenMetrics` 1.0 if it names that, and else the text format
//! 0.0.4, which `promtool check metrics` and every other reader takes.

use std::fmt::Write as _;

use crate::answer::Answer;

/// The media types, with the versions of their formats.
const OPEN_METRICS: (&str, &str) = ("application/openmetrics-text", "1.0.0");
const TEXT: (&str, &str) = ("text/plain", "0.0.4");

const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer with metrics, which `open_metrics` are in that format. `accept` holds the values of the client's `Accept`
/// fields, separated by commas, and is empty without one.
pub fn exposition(open_metrics: String, accept: &str) -> Answer {
    if prefers_open_metrics(accept) {
        return Answer::Body { media_type: OPEN_METRICS_TYPE, text: open_metrics };
    }
    Answer::Body { media_type: TEXT_TYPE, text: text_format(&open_metrics) }
}

/// Whether a client names `OpenMetrics`, and does not weigh the text format more (RFC 9110, section 12.5.1).
fn prefers_open_metrics(accept: &str) -> bool {
    let weight = |format| {
        ranges(accept)
            .filter_map(|range| range.rank(format))
            .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
    };
    match (weight(OPEN_METRICS), weight(TEXT)) {
        (Some((Precision::Named, open)), text) => open > 0.0 && text.is_none_or(|(_, text)| open >= text),
        _ => false,
    }
}

/// A range of media types, with the version that it asks for and its weight.
struct Range<'a> {
    media_type: &'a str,
    version: Option<&'a str>,
    weight: f32,
}

/// How precisely a range names a media type. The most precise one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    Any,
    Group,
    Named,
}

impl Range<'_> {
    /// How precisely the range names a format, and with which weight; `None` if it does not hold the format.
    fn rank(&self, (media_type, version): (&str, &str)) -> Option<(Precision, f32)> {
        let group = media_type.split('/').next().unwrap_or_default();
        let precision = match self.media_type.split_once('/')? {
            ("*", "*") => Precision::Any,
            (named, "*") if named.eq_ignore_ascii_case(group) => Precision::Group,
            _ if self.media_type.eq_ignore_ascii_case(media_type) => Precision::Named,
            _ => return None,
        };
        self.version.is_none_or(|asked| asked == version).then_some((precision, self.weight))
    }
}

/// The ranges of an `Accept`. A weight that cannot be read is 1.
fn ranges(accept: &str) -> impl Iterator<Item = Range<'_>> {
    accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let mut found = Range { media_type: parts.next().unwrap_or_default(), version: None, weight: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "version" => found.version = Some(value.trim().trim_matches('"')),
                "q" | "Q" => found.weight = value.trim().parse().unwrap_or(1.0),
                _ => {}
            }
        }
        found
    })
}

/// `OpenMetrics` as text of the older format. There, a family of counters or infos has the name of its samples, an info is a
/// gauge, and no line ends the text.
fn text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            break;
        }
        let described = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
        let typed = |line: &str, name: &str| {
            let kind = line.strip_prefix("# TYPE ")?.strip_prefix(name)?.strip_prefix(' ')?;
            Some(kind.to_owned())
        };
        if let Some((name, help)) = described
            && let Some(kind) = lines.peek().and_then(|next| typed(next, name))
        {
            lines.next();
            let (suffix, kind) = match kind.as_str() {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            let _ = write!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
        } else {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_format_that_it_weighs_most() {
        let of_prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                               text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5, \
                               application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,*/*;q=0.1";
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=\"1.0.0\"",
            "text/plain;q=0.5, application/openmetrics-text",
            "text/plain, application/openmetrics-text",
            "*/*, application/openmetrics-text;q=0.9, text/plain;q=0.1",
            of_prometheus_2,
            of_prometheus_3,
        ] {
            assert!(prefers_open_metrics(accept), "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "application/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;version=0.0.1, text/plain;q=0.1",
            "application/openmetrics-text;q=0.3, text/plain;q=0.5",
            "application/openmetrics-text;q=0.3, text/*;q=0.5",
            "application/openmetrics-text;q=0, */*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            ";q, /,=",
        ] {
            assert!(!prefers_open_metrics(accept), "{accept}");
        }
    }

    #[test]
    fn the_text_format_names_families_as_their_samples_and_knows_no_info() {
        let open = "# HELP a What is running.\n# TYPE a info\na_info{v=\"1\"} 1\n\
                    # HELP b Sent.\n# TYPE b counter\nb_total{c=\"# EOF\"} 8\n\
                    # HELP d Seconds.\n# TYPE d histogram\nd_sum 1.0\nd_count 2\nd_bucket{le=\"+Inf\"} 2\n\
                    # HELP e Open.\n# TYPE e gauge\ne 3\n# EOF\n";
        let text = "# HELP a_info What is running.\n# TYPE a_info gauge\na_info{v=\"1\"} 1\n\
                    # HELP b_total Sent.\n# TYPE b_total counter\nb_total{c=\"# EOF\"} 8\n\
                    # HELP d Seconds.\n# TYPE d histogram\nd_sum 1.0\nd_count 2\nd_bucket{le=\"+Inf\"} 2\n\
                    # HELP e Open.\n# TYPE e gauge\ne 3\n";
        let body = |accept| match exposition(open.to_owned(), accept) {
            Answer::Body { media_type, text } => (media_type, text),
            _ => panic!("no body"),
        };
        assert_eq!(body("text/plain"), (TEXT_TYPE, text.to_owned()));
        assert_eq!(body("application/openmetrics-text"), (OPEN_METRICS_TYPE, open.to_owned()));
    }
}

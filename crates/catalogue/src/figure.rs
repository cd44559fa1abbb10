//! The figures of a cell: a row for each, with its names in tables and exports, its unit, and how it is compared.

use crate::choice::choice;

choice! {
    /// A figure of a cell.
    Figure {
        /// Median of the starts with its order-statistic interval, queries per second.
        #[default]
        Median = "median",
        /// Mean, minimum and maximum of the starts, queries per second.
        MeanMinMax = "mean-min-max",
        /// The rate that others published, queries per second.
        Published = "published",
        /// Rate at n workers, divided by n times the rate at one.
        Efficiency = "efficiency",
        /// Share of the standard interface's ceiling.
        CeilingShare = "ceiling-share",
        /// CPU seconds of the subject per million answers.
        Cpu = "cpu",
        /// CPU seconds per million answers of each kind of the subject's threads. For a front, this separates its
        /// own share from the servers'.
        CpuByThread = "cpu-by-thread",
        /// Memory of the subject (proportional if it can be read), bytes.
        Memory = "memory",
        /// Memory of the subject divided by the number of records in its zones, bytes.
        MemoryPerRecord = "memory-per-record",
        /// Memory of the subject beyond that with the fewest connections, divided by the further connections, bytes.
        MemoryPerConnection = "memory-per-connection",
        /// Time from the start of the subject until it answers, seconds.
        LoadTime = "load-time",
        /// Mean size of a correct reply's DNS message, bytes.
        ReplySize = "reply-size",
        /// p99 of latency at half load, microseconds.
        P99AtHalf = "p99-at-half",
        /// Mean latency at the cell's rate, microseconds.
        LatencyMean = "latency-mean",
        /// p99 of latency at the cell's rate, microseconds.
        LatencyP99 = "latency-p99",
        /// Share of the sent queries without a reply, at the cell's rate.
        Lost = "lost",
        /// Time from the begin of the event in each load until it was done, seconds.
        EventTime = "event-time",
        /// Longest time without a correct reply at the event, seconds.
        EventSilence = "event-silence",
        /// Answers that the clients lost because of the event.
        EventLost = "event-lost",
        /// CPU time of the subject from the begin of the event until it was done, seconds.
        EventCpu = "event-cpu",
        /// Most resident memory of the subject meanwhile, bytes.
        EventMemory = "event-memory",
        /// Share of the dynamic updates of the event that were accepted.
        UpdatesAccepted = "updates-accepted",
        /// Share of a resolver's sent queries that were answered rightly in time.
        AnsweredRight = "answered-right",
        /// Queries that a resolver asked the servers of an Internet in a box, for each query sent to it.
        Upstream = "upstream",
        /// Time from a cold cache until a resolver answers 99 % within 10 ms, seconds.
        WarmAfter = "warm-after",
        /// Share of a resolver's sent queries whose right replies came sooner than any server of the Internet in a box answers.
        Hits = "hits",
        /// Median latency of these replies, microseconds.
        HitLatency = "hit-latency",
        /// Median latency of a resolver's other right replies and lost queries, microseconds.
        MissLatency = "miss-latency",
    }
}

/// The row of a figure.
#[derive(Clone, Copy, Debug)]
pub struct FigureRow {
    /// The figure.
    pub figure: Figure,
    /// The head of its column.
    pub head: &'static str,
    /// The word of the glossary that explains it; `None` if it needs no explanation.
    pub term: Option<&'static str>,
    /// The name in exports, with the unit at its end.
    pub export: &'static str,
    /// Its text in the terminal, with `{}` for its value.
    pub phrase: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// Whether it stands although the rate is refused.
    pub stands_alone: bool,
    /// The heads of its least and its greatest value in a finding; `None` if a greater value is a better one.
    pub extremes: Option<[&'static str; 2]>,
}

/// The unit of a figure, by which its value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Queries or answers a second.
    Rate,
    /// A share, 0 to 1, printed in whole percents.
    Share,
    /// A share, 0 to 1, printed in thousandths of a percent.
    SmallShare,
    /// CPU seconds.
    CpuSeconds,
    /// Bytes of a process.
    Memory,
    /// Bytes of a record, a connection or a message.
    Bytes,
    /// Seconds.
    Seconds,
    /// Microseconds.
    Microseconds,
    /// Answers.
    Answers,
    /// A number for each query.
    PerQuery,
}

/// A row without a term whose figure depends on the rate, and of which a greater value is a better one.
const fn row(
    figure: Figure,
    head: &'static str,
    export: &'static str,
    phrase: &'static str,
    unit: Unit,
) -> FigureRow {
    FigureRow { figure, head, term: None, export, phrase, unit, stands_alone: false, extremes: None }
}

/// All rows, in the order of [`Figure::ALL`].
pub const ROWS: [FigureRow; Figure::ALL.len()] = [
    FigureRow { term: Some("figure"), ..row(Figure::Median, "median", "rate_qps", "{}", Unit::Rate) },
    FigureRow { term: Some("start"), ..row(Figure::MeanMinMax, "mean", "mean_qps", "mean {}", Unit::Rate) },
    row(Figure::Published, "published", "published_qps", "published {}", Unit::Rate),
    FigureRow {
        term: Some("efficiency"),
        ..row(Figure::Efficiency, "efficiency", "efficiency_share", "efficiency {}", Unit::Share)
    },
    FigureRow {
        term: Some("ceiling"),
        ..row(Figure::CeilingShare, "of the ceiling", "ceiling_share", "{} of the ceiling", Unit::Share)
    },
    FigureRow {
        term: Some("CPU per million"),
        extremes: Some(["Least CPU time per million answers, with", "Most, with"]),
        ..row(Figure::Cpu, "CPU per million", "cpu_s_per_million", "{} CPU s per million", Unit::CpuSeconds)
    },
    FigureRow {
        term: Some("CPU per million"),
        extremes: Some(["Least CPU time per million answers, with", "Most, with"]),
        ..row(Figure::CpuByThread, "by thread", "cpu_s_per_million", "of them {}", Unit::CpuSeconds)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Least memory, with", "Most, with"]),
        ..row(Figure::Memory, "memory", "memory_bytes", "{}", Unit::Memory)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Least memory per record, with", "Most, with"]),
        ..row(
            Figure::MemoryPerRecord,
            "memory per record",
            "memory_bytes_per_record",
            "{} a record",
            Unit::Bytes,
        )
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Least memory per connection, with", "Most, with"]),
        ..row(
            Figure::MemoryPerConnection,
            "memory per connection",
            "memory_bytes_per_connection",
            "{} a connection",
            Unit::Bytes,
        )
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Shortest time to load, with", "Longest, with"]),
        ..row(Figure::LoadTime, "time to load", "load_time_mean_s", "loaded in {}", Unit::Seconds)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Smallest replies, with", "Largest, with"]),
        ..row(Figure::ReplySize, "reply size", "reply_bytes", "replies of {}", Unit::Bytes)
    },
    FigureRow {
        term: Some("p99"),
        extremes: Some(["Lowest p99 latency at half load, with", "Highest, with"]),
        ..row(
            Figure::P99AtHalf,
            "p99 at half load",
            "p99_at_half_us",
            "p99 {} at half load",
            Unit::Microseconds,
        )
    },
    FigureRow {
        extremes: Some(["Lowest mean latency, with", "Highest, with"]),
        ..row(Figure::LatencyMean, "mean latency", "latency_mean_us", "mean {}", Unit::Microseconds)
    },
    FigureRow {
        term: Some("p99"),
        extremes: Some(["Lowest p99 latency, with", "Highest, with"]),
        ..row(Figure::LatencyP99, "p99 latency", "latency_p99_us", "p99 {}", Unit::Microseconds)
    },
    FigureRow {
        term: Some("lost"),
        extremes: Some(["Least lost, with", "Most, with"]),
        ..row(Figure::Lost, "lost", "lost_share", "{} lost", Unit::SmallShare)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Shortest event, with", "Longest, with"]),
        ..row(Figure::EventTime, "event took", "event_mean_s", "the event took {}", Unit::Seconds)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Shortest silence at the event, with", "Longest, with"]),
        ..row(
            Figure::EventSilence,
            "longest silence",
            "event_silence_mean_s",
            "{} without an answer",
            Unit::Seconds,
        )
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Fewest answers lost by the event, with", "Most, with"]),
        ..row(Figure::EventLost, "answers lost", "event_lost_mean", "{} answers lost", Unit::Answers)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Least CPU time during the event, with", "Most, with"]),
        ..row(Figure::EventCpu, "CPU time", "event_cpu_mean_s", "{} CPU s meanwhile", Unit::CpuSeconds)
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Least memory during the event, with", "Most, with"]),
        ..row(
            Figure::EventMemory,
            "most memory",
            "event_memory_mean_bytes",
            "up to {} meanwhile",
            Unit::Memory,
        )
    },
    FigureRow {
        stands_alone: true,
        ..row(
            Figure::UpdatesAccepted,
            "updates accepted",
            "updates_accepted_share",
            "{} of the updates accepted",
            Unit::Share,
        )
    },
    FigureRow {
        stands_alone: true,
        ..row(
            Figure::AnsweredRight,
            "answered rightly",
            "answered_right_share",
            "{} answered rightly",
            Unit::SmallShare,
        )
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Fewest upstream queries for a query, with", "Most, with"]),
        ..row(
            Figure::Upstream,
            "upstream queries",
            "upstream_per_query",
            "{} upstream queries each",
            Unit::PerQuery,
        )
    },
    FigureRow {
        stands_alone: true,
        extremes: Some(["Soonest warm, with", "Latest, with"]),
        ..row(Figure::WarmAfter, "warm after", "warm_after_s", "warm after {}", Unit::Seconds)
    },
    FigureRow { stands_alone: true, ..row(Figure::Hits, "hits", "hits_share", "{} hits", Unit::Share) },
    FigureRow {
        extremes: Some(["Lowest latency of hits, with", "Highest, with"]),
        ..row(Figure::HitLatency, "median of hits", "hit_latency_us", "hits {}", Unit::Microseconds)
    },
    FigureRow {
        extremes: Some(["Lowest latency of misses, with", "Highest, with"]),
        ..row(Figure::MissLatency, "median of misses", "miss_latency_us", "misses {}", Unit::Microseconds)
    },
];

impl Figure {
    /// Its row.
    pub fn row(self) -> &'static FigureRow {
        &ROWS[self as usize]
    }
}

impl FigureRow {
    /// Whether a greater value is a better one.
    pub fn has_greatest_first(&self) -> bool {
        self.extremes.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_row() {
        assert!(Figure::ALL.iter().all(|figure| figure.row().figure == *figure));
        assert_eq!(Figure::P99AtHalf.word(), "p99-at-half");
    }
}

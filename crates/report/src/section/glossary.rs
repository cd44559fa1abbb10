//! The glossary at the end of the page: METHOD's words. Each has an anchor, to which the page links where it
//! uses the word.

use kqps_verdict::warning::Code;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// The word; its anchor is `term-` followed by it.
    pub(crate) word: &'static str,
    pub(crate) meaning: &'static str,
}

/// METHOD's words, in alphabetical order.
pub(crate) const TERMS: &[Term] = &[
    Term {
        word: "CPU per million",
        meaning: "the server's CPU time for a million correct answers, at the rate of the figure.",
    },
    Term {
        word: "MDE",
        meaning: "minimum detectable effect: the least difference that 19 of 20 experiments or comparisons like this one would find.",
    },
    Term {
        word: "bad",
        meaning: "of a trial: the share of the intended queries that had no correct answer in time, whatever caused it.",
    },
    Term {
        word: "block",
        meaning: "one pass over everything that a run measures, in an order drawn from its seed. Each server is started once in it.",
    },
    Term {
        word: "bottleneck",
        meaning: "what was full when the rate could not be raised any further: the player, the path, the server's CPU, its socket \
                  buffer, or memory. If nothing was full, the figure is no capacity.",
    },
    Term {
        word: "bounds",
        meaning: "of one start: the greatest load that was played and held, and the least that did not (MLRsearch, RFC 9971). A load \
                  holds when its trials met the goal as often as the goal asks for. At the end it is tried again; one that fails \
                  then is no bound.",
    },
    Term {
        word: "ceiling",
        meaning: "what an echo server answers on the same machine: under the cheapest I/O model it bounds the player, and under the \
                  server's own I/O model it bounds the server. A server's rate as a share of the second can be compared with other machines.",
    },
    Term {
        word: "cell",
        meaning: "one configuration that is measured: which server, how many workers, which cores.",
    },
    Term {
        word: "coherency",
        meaning: "of the Universal Scalability Law: what a worker waits for each pair of workers, as a share of a query's work. \
                  Because of it, the rate has a peak, and more workers answer less.",
    },
    Term {
        word: "contention",
        meaning: "of the Universal Scalability Law: the share of a query's work that workers do one after the other.",
    },
    Term {
        word: "correct",
        meaning: "a reply in time, from the right address, to the right question, with the rcode and the answer that are expected.",
    },
    Term {
        word: "efficiency",
        meaning: "of several workers: their rate, divided by the number of workers times the rate of one. 100 % if each answers as \
                  much as one alone.",
    },
    Term {
        word: "extrapolated",
        meaning: "of a rate: by the Universal Scalability Law, at more workers than were measured. Its range is what is known of it.",
    },
    Term {
        word: "figure",
        meaning: "correct answers a second at the highest load that held, as the median over the starts. It is a statistic: of an even \
                  number of starts it lies between two of them, and no start need have been given that load. Its range reaches \
                  up to the loads that did not hold.",
    },
    Term {
        word: "finding",
        meaning: "of an experiment: the factor between whose values the rate differs most, with the interval of this difference, or that no \
                  factor matters beyond the MDE. All other factors are equal, but for those that change with it, which the finding \
                  names. If the tables show no rate but memory or latency, these are compared. It is computed from the starts of all cells; intervals of all differences hold together with 95 %.",
    },
    Term {
        word: "goal",
        meaning: "what a load must meet to hold: how long trials last, how many of them, and the share of queries that may go without an answer.",
    },
    Term {
        word: "grade",
        meaning: "how far a figure can be trusted. A: two hosts, no warning, known within 1 %. B: within 5 %, or something \
                  minor. C: for comparison within this run. D: a rough figure, \
                  beyond ± 10 %, or without a shown limit. F: refused; the page shows what the trials showed, without a claim.",
    },
    Term {
        word: "lag",
        meaning: "how late a query left, compared with the schedule. The player causes it, and the latency includes it.",
    },
    Term {
        word: "late",
        meaning: "the right reply came after the timeout, while the player still listened. It counts as no answer.",
    },
    Term { word: "lost", meaning: "a query that got no correct reply, neither in time nor late." },
    Term {
        word: "p99",
        meaning: "the latency that one query of a hundred exceeds; p50 is the median. If fewer than a hundred queries lie beyond it, \
                  the tables of latency by load and of trials have its upper bound (≤, with a confidence of 95 %), or of fewer than \
                  299 the greatest latency. Nothing else shows it then.",
    },
    Term {
        word: "part",
        meaning: "of a player, if several hosts took part: what it sent and got answered itself. The accounts and histograms of a \
                  trial are the sums of its players' parts.",
    },
    Term {
        word: "peak",
        meaning: "of the Universal Scalability Law: the number of workers with the highest rate. Beyond it, more workers answer less.",
    },
    Term {
        word: "player",
        meaning: "the part of kqps that sends the queries and accounts for every one of them.",
    },
    Term {
        word: "q/s",
        meaning: "queries a second; 1k q/s is a thousand, 1M q/s a million. A load is counted in queries sent, a figure in correct answers.",
    },
    Term {
        word: "skew",
        meaning: "how far apart the players on several hosts may have begun a trial, with the uncertainty of their clocks. More than \
                  1 % of the trial spoils it.",
    },
    Term {
        word: "start",
        meaning: "one process of a server, from its launch to its stop. Starts differ more than the trials of one start, so starts are \
                  repeated. Each has a line of its own in the answers and a dot in the charts.",
    },
    Term { word: "trial", meaning: "one load, for one duration, against one running server." },
    Term {
        word: "wrong",
        meaning: "a reply in time that fails a check: another question, another rcode, or another answer than expected.",
    },
];

/// Every warning with its meaning; its anchor is `term-` followed by its name.
pub(crate) fn warnings() -> Vec<(&'static str, &'static str)> {
    Code::ALL.iter().map(|code| (code.name(), code.meaning())).collect()
}

pub(crate) fn anchor(word: &str) -> String {
    format!("term-{}", word.replace(' ', "-"))
}

/// The warning that a sentence begins with, as in `noisy-host: Other programs …`, and the text after its name.
pub(crate) fn leading_warning(sentence: &str) -> Option<(&'static str, &str)> {
    let (code, _) = sentence.split_once(": ")?;
    let known = Code::ALL.iter().map(|code| code.name()).find(|name| *name == code)?;
    Some((known, &sentence[known.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_an_anchor_of_its_own() {
        let words = TERMS.iter().map(|term| term.word).chain(warnings().into_iter().map(|(name, _)| name));
        let mut anchors: Vec<String> = words.map(anchor).collect();
        let all = anchors.len();
        anchors.sort();
        anchors.dedup();
        assert_eq!(anchors.len(), all);
        assert!(
            TERMS.is_sorted_by_key(|term| term.word),
            "a reader looks for them in the order of the alphabet"
        );
    }

    #[test]
    fn a_sentence_about_a_warning_begins_with_its_name() {
        assert_eq!(leading_warning("drifted: At the end"), Some(("drifted", ": At the end")));
        assert_eq!(leading_warning("The figure: it rests on one start."), None);
        assert_eq!(leading_warning("drifted"), None);
    }
}

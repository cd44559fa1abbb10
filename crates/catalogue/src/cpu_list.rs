//! Lists of cores such as `0,2-5`, as the kernel, the records and people write them: one parser and one writer.
//! <https://docs.kernel.org/admin-guide/kernel-parameters.html>, "cpu lists".

/// No core of a machine has this number or a greater one: the most cores that Linux can be built for (`NR_CPUS`).
const CPUS_MOST: u32 = 8192;

/// Why a text is not a list of cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// The text is something else than whole numbers and rising ranges with commas between them.
    #[error("expected a list such as 0,2-5, found `{text}`")]
    Malformed {
        /// The whole text.
        text: String,
    },
    /// No machine has a core of this number.
    #[error("no machine has a core {cpu}, which `{text}` names; the last is {most}", most = CPUS_MOST - 1)]
    TooGreat {
        /// The core's number.
        cpu: u32,
        /// The whole text.
        text: String,
    },
    /// The list names a core twice.
    #[error("{cpu} stands twice in `{text}`")]
    Twice {
        /// The core's number.
        cpu: u32,
        /// The whole text.
        text: String,
    },
}

/// Parses a list into the numbers of cores, in the order of the text. An empty text is an empty list. White space
/// around the text and its numbers is ignored.
pub fn parse(text: &str) -> Result<Vec<u32>, CpuListError> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let mut cpus: Vec<u32> = Vec::new();
    for part in text.split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
        let (first, last) = range.ok_or_else(|| CpuListError::Malformed { text: text.to_owned() })?;
        if last >= CPUS_MOST {
            return Err(CpuListError::TooGreat { cpu: last, text: text.to_owned() });
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(CpuListError::Twice { cpu, text: text.to_owned() });
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Writes ascending numbers as a list like `0,2-5`. Two neighbours are no range: `9,10`.
pub fn write(cpus: &[u32]) -> String {
    let parts = runs(cpus).into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// The runs of consecutive numbers in a list of ascending ones: the first and the last number of each run.
pub fn runs(cpus: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order() {
        assert_eq!(parse("0,2-5\n"), Ok(vec![0, 2, 3, 4, 5]));
        assert_eq!(parse("5, 0 - 2"), Ok(vec![5, 0, 1, 2]));
        assert_eq!(parse("8191"), Ok(vec![8191]));
        for empty in ["", "\n"] {
            assert_eq!(parse(empty), Ok(vec![]), "{empty:?}");
        }
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        for text in [",", "0,,1", "0,", "a", "ff", "0-", "-1", "3-1", "1-2-3", "0-4294967296"] {
            let expected = format!("expected a list such as 0,2-5, found `{text}`");
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(error("1,1"), "1 stands twice in `1,1`");
        assert_eq!(error("0-4,2"), "2 stands twice in `0-4,2`");
        assert_eq!(error("0-8192"), "no machine has a core 8192, which `0-8192` names; the last is 8191");
        assert!(matches!(parse("0-4294967295"), Err(CpuListError::TooGreat { cpu: u32::MAX, .. })));
    }

    #[test]
    fn what_is_written_can_be_parsed() {
        assert_eq!(write(&[0, 2, 3, 4, 5, 9, 10]), "0,2-5,9,10");
        assert_eq!(parse("0,2-5,9,10"), Ok(vec![0, 2, 3, 4, 5, 9, 10]));
        assert_eq!(write(&[]), "");
        assert_eq!(runs(&[0, 2, 3, 4, u32::MAX]), [(0, 0), (2, 4), (u32::MAX, u32::MAX)]);
    }
}

//! The values of settings, as text in one form for each kind: cores as `0,2-3`, queues as `rx=4,tx=4,combined=0`.

use std::collections::{BTreeMap, BTreeSet};

use kqps_catalogue::value::parse_duration;
use kqps_observation::cpu_list;

use super::{Setting, sysctl};

/// The word for no core, no interrupt.
pub const NONE: &str = "none";

/// The word for every idle state.
pub const ALL: &str = "all";

/// The word before the number of queues over which a table is spread evenly.
const EQUAL: &str = "equal=";

/// The letters of hashed fields (`ethtool -N DEVICE rx-flow-hash`): VLAN, protocol, addresses, ports, and others. Fields
/// without a letter follow as a number: `sdfn+0x400`.
const FIELDS: &str = "mvtsdfnelr";

/// A value that its setting does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: expected {expected}, found `{found}`")]
pub struct ValueError {
    /// The setting.
    pub setting: Setting,
    /// The values that the setting takes.
    pub expected: &'static str,
    /// The value that was found.
    pub found: String,
}

/// The form of a value.
enum Kind {
    /// Any text that is not empty.
    Text,
    /// Cores, or none of them.
    Cores,
    /// At least one core.
    SomeCores,
    /// Numbers and switches with names, in this order.
    Pairs(&'static [&'static str]),
    /// Queues of a table.
    Table,
    /// Letters of hashed fields.
    Fields,
    /// `on` or `off`.
    Switch,
    /// A whole number.
    Number,
    /// A time, or all.
    Limit,
    /// Numbers, or none.
    Numbers,
}

const CHANNELS: &[&str] = &["rx", "tx", "combined"];
const RINGS: &[&str] = &["rx", "tx"];
const COALESCE: &[&str] = &["rx-usecs", "tx-usecs", "adaptive-rx", "adaptive-tx"];

impl Kind {
    fn from_setting(setting: &Setting) -> Self {
        match setting {
            Setting::Sysctl(_) | Setting::Governor { .. } => Self::Text,
            Setting::Rps { .. } | Setting::Xps { .. } => Self::Cores,
            Setting::Irq(_) | Setting::Irqs { .. } => Self::SomeCores,
            Setting::Channels { .. } => Self::Pairs(CHANNELS),
            Setting::Rings { .. } => Self::Pairs(RINGS),
            Setting::Coalesce { .. } => Self::Pairs(COALESCE),
            Setting::RssTable { .. } => Self::Table,
            Setting::RssFields { .. } => Self::Fields,
            Setting::Feature { .. } | Setting::IdleState { .. } => Self::Switch,
            Setting::Napi { .. } => Self::Number,
            Setting::IdleStates => Self::Limit,
            Setting::Irqbalance => Self::Numbers,
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Self::Text => "a value",
            Self::Cores => "cores such as 0,2-3, or none",
            Self::SomeCores => "cores such as 0,2-3",
            Self::Pairs(keys) if *keys == CHANNELS => {
                "a number of queues, or such as rx=4,tx=4 or combined=8"
            }
            Self::Pairs(keys) if *keys == RINGS => "a number of descriptors, or such as rx=4096,tx=1024",
            Self::Pairs(_) => "microseconds, or such as rx-usecs=75,adaptive-rx=off",
            Self::Table => "a number of queues to spread over, or the queue of each slot such as 0,0,1,1",
            Self::Fields => "letters of fields such as sdfn",
            Self::Switch => "on or off",
            Self::Number => "a whole number",
            Self::Limit => "a time such as 2us, or all",
            Self::Numbers => "numbers of interrupts such as 45,46, or none",
        }
    }

    /// The value in its one form; `None` if it has another.
    fn read(&self, text: &str) -> Option<String> {
        match self {
            Self::Text => Some(words(text)).filter(|text| !text.is_empty()),
            Self::Cores if text == NONE || text.is_empty() => Some(NONE.into()),
            Self::Cores | Self::SomeCores => {
                let mut cpus = cpu_list::parse(text).ok().filter(|cpus| !cpus.is_empty())?;
                cpus.sort_unstable();
                Some(cpu_list::write(&cpus))
            }
            Self::Pairs(keys) => read_pairs(keys, text),
            Self::Table => read_table(text),
            Self::Fields => read_fields(text),
            Self::Switch => ["on", "off"].contains(&text).then(|| text.to_owned()),
            Self::Number => text.parse::<u64>().ok().map(|number| number.to_string()),
            Self::Limit if text == ALL => Some(ALL.into()),
            Self::Limit => {
                // A bare 0 is a duration elsewhere.
                let has_unit = text.ends_with(|letter: char| letter.is_alphabetic());
                let limit = parse_duration(text).ok().filter(|_| has_unit)?;
                Some(format!("{}us", limit.as_micros()))
            }
            Self::Numbers if text == NONE => Some(NONE.into()),
            Self::Numbers => {
                let listed = text.split_whitespace().collect::<Vec<_>>().join(",");
                let numbers: BTreeSet<u32> = cpu_list::parse(&listed).ok()?.into_iter().collect();
                Some(numbers_word(&numbers)).filter(|_| !numbers.is_empty())
            }
        }
    }
}

/// A value in the one form of its setting, without the host's help: a number of queues may stay alone until
/// [`completed`].
pub fn checked(setting: &Setting, text: &str) -> Result<String, ValueError> {
    let kind = Kind::from_setting(setting);
    let wrong = || ValueError { setting: setting.clone(), expected: kind.expected(), found: text.to_owned() };
    kind.read(text.trim()).ok_or_else(wrong)
}

/// A checked value with what it leaves open, which stays as it is `now`.
pub fn completed(setting: &Setting, value: &str, now: &str) -> String {
    let Kind::Pairs(keys) = Kind::from_setting(setting) else { return value.to_owned() };
    let mut all = pairs(now);
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Queues that receive and send together, if the device has those.
        let is_combined = all.get("combined").is_some_and(|count| count != "0");
        let meant: &[&str] = if is_combined { &["combined"] } else { &["rx", "tx"] };
        all.extend(meant.iter().map(|key| ((*key).to_owned(), value.to_owned())));
    } else {
        all.extend(pairs(value));
    }
    pairs_word(keys, &all)
}

/// Whether two values of a setting mean the same.
pub fn same(setting: &Setting, one: &str, other: &str) -> bool {
    let kind = Kind::from_setting(setting);
    let of_kernel = |text: &str| match setting {
        Setting::Sysctl(name) => sysctl::canonical(name, text.trim()),
        _ => None,
    };
    let read = |text: &str| of_kernel(text).or_else(|| kind.read(text.trim())).unwrap_or_else(|| words(text));
    one == other || read(one) == read(other)
}

/// Whether two values that were read mean the same, apart from delays of interrupts that the driver chooses by itself.
pub fn alike(setting: &Setting, one: &str, other: &str) -> bool {
    let chosen = |value: &str| {
        let mut all = pairs(value);
        for way in ["rx", "tx"] {
            if all.get(&format!("adaptive-{way}")).is_some_and(|word| word == "on") {
                all.remove(&format!("{way}-usecs"));
            }
        }
        all
    };
    let are_delays = matches!(setting, Setting::Coalesce { .. });
    same(setting, one, other) || (are_delays && chosen(one) == chosen(other))
}

/// Whether the kernel may have another form for the value of a sysctl that was written: one of the two has words that
/// are no whole numbers. A number that is another one now was not taken.
pub fn may_be_rewritten(setting: &Setting, wanted: &str, found: &str) -> bool {
    let is_of_numbers = |text: &str| text.split_whitespace().all(|word| word.parse::<i64>().is_ok());
    matches!(setting, Setting::Sysctl(_)) && !(is_of_numbers(wanted) && is_of_numbers(found))
}

/// Whether a value may be what the kernel made of another one: it leaves out cores that are offline.
pub fn may_come_of(setting: &Setting, wanted: &str, found: &str) -> bool {
    let (wanted, found) = match Kind::from_setting(setting) {
        Kind::Cores | Kind::SomeCores => (cores(wanted), cores(found)),
        _ => return false,
    };
    !found.is_empty() && found.iter().all(|core| wanted.contains(core))
}

/// The table of a device as a value: `equal=8` if it is spread evenly, and the queue of each slot otherwise.
pub fn table_word(queues: &[u32]) -> String {
    let most = queues.iter().max().and_then(|most| most.checked_add(1));
    if let Some(most) = most
        && queues.iter().zip(0_u32..).all(|(queue, slot)| *queue == slot % most)
    {
        return format!("{EQUAL}{most}");
    }
    queues.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The queue of each of `slots` slots that a value of a table means; `None` if it has another number of them.
pub fn table(value: &str, slots: usize) -> Option<Vec<u32>> {
    if let Some(count) = value.strip_prefix(EQUAL) {
        let count: u32 = count.parse().ok().filter(|count| *count > 0)?;
        Some((0..count).cycle().take(slots).collect())
    } else {
        let queues: Option<Vec<u32>> = value.split(',').map(|queue| queue.trim().parse().ok()).collect();
        queues.filter(|queues| queues.len() == slots)
    }
}

/// The table that means a value, which is empty if it is the driver's own: spread over all queues. If such a table is
/// written slot by slot, the kernel takes it for one that somebody wants, and refuses fewer queues later.
pub(crate) fn table_to_write(value: &str, slots: usize, queues: Option<u32>) -> Option<Vec<u32>> {
    let table = table(value, slots)?;
    let is_own = |queues: u32| (0_u32..).zip(&table).all(|(slot, queue)| *queue == slot % queues);
    let is_own = queues.filter(|queues| *queues > 0).is_some_and(is_own);
    Some(if is_own { Vec::new() } else { table })
}

/// The cores of a value.
pub fn cores(value: &str) -> Vec<u32> {
    if value == NONE { Vec::new() } else { cpu_list::parse(value).unwrap_or_default() }
}

/// Cores as a value.
pub fn cores_word(cpus: &[u32]) -> String {
    if cpus.is_empty() { NONE.into() } else { cpu_list::write(cpus) }
}

/// The numbers of a value.
pub fn numbers(value: &str) -> BTreeSet<u32> {
    value.split([',', ' ']).filter_map(|word| word.parse().ok()).collect()
}

/// Numbers as a value.
pub fn numbers_word(numbers: &BTreeSet<u32>) -> String {
    if numbers.is_empty() {
        return NONE.into();
    }
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The parts of a value of several: `rx=4,tx=4`.
pub fn pairs(value: &str) -> BTreeMap<String, String> {
    let parts = value.split(',').filter_map(|part| part.split_once('='));
    parts.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Parts as a value, in the order of the keys; what is lacking is left out.
pub fn pairs_word(keys: &[&str], all: &BTreeMap<String, String>) -> String {
    let parts = keys.iter().filter_map(|key| Some(format!("{key}={}", all.get(*key)?)));
    parts.collect::<Vec<_>>().join(",")
}

fn read_pairs(keys: &'static [&'static str], text: &str) -> Option<String> {
    if let Ok(number) = text.parse::<u32>() {
        return Some(match keys {
            _ if keys == CHANNELS => number.to_string(),
            _ if keys == RINGS => format!("rx={number},tx={number}"),
            _ => format!("rx-usecs={number}"),
        });
    }
    let all = pairs(text);
    let is_switch = |key: &str| key.starts_with("adaptive");
    let is_right = |(key, value): (&String, &String)| {
        let is_value =
            if is_switch(key) { value == "on" || value == "off" } else { value.parse::<u32>().is_ok() };
        keys.contains(&key.as_str()) && is_value
    };
    let is_whole = all.len() == text.split(',').count() && all.iter().all(is_right);
    is_whole.then(|| pairs_word(keys, &all))
}

fn read_table(text: &str) -> Option<String> {
    let count = text.strip_prefix(EQUAL).unwrap_or(text);
    if let Ok(count) = count.parse::<u32>() {
        return (count > 0).then(|| format!("{EQUAL}{count}"));
    }
    let queues: Option<Vec<u32>> = text.split(',').map(|queue| queue.trim().parse().ok()).collect();
    queues.map(|queues| table_word(&queues))
}

fn read_fields(text: &str) -> Option<String> {
    let (letters, others) = match text.split_once('+') {
        Some((letters, others)) => (letters, u64::from_str_radix(others.strip_prefix("0x")?, 16).ok()?),
        None => (text, 0),
    };
    let letters: BTreeSet<char> = letters.chars().collect();
    let is_known = letters.iter().all(|letter| FIELDS.contains(*letter));
    if !is_known || (letters.is_empty() && others == 0) {
        return None;
    }
    let letters: String = FIELDS.chars().filter(|letter| letters.contains(letter)).collect();
    Some(if others == 0 { letters } else { format!("{letters}+{others:#x}") })
}

/// A text with one space between its words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str) -> Setting {
        name.parse().unwrap()
    }

    #[test]
    fn values_have_one_form() {
        for (name, typed, wanted) in [
            ("sysctl.net.ipv4.udp_mem", " 1\t2  3\n", "1 2 3"),
            ("rps.eth0", "3,0-1", "0,1,3"),
            ("rps.eth0", "none", "none"),
            ("irqs.eth0", "2", "2"),
            ("channels.eth0", "8", "8"),
            ("channels.eth0", "tx=2, rx=4", "rx=4,tx=2"),
            ("rings.eth0", "4096", "rx=4096,tx=4096"),
            ("coalesce.eth0", "75", "rx-usecs=75"),
            ("coalesce.eth0", "adaptive-rx=off,rx-usecs=20", "rx-usecs=20,adaptive-rx=off"),
            ("rss.eth0", "4", "equal=4"),
            ("rss.eth0", "0,1,0,1", "equal=2"),
            ("rss.eth0", "0,0,1,1", "0,0,1,1"),
            ("rss-fields.eth0.udp4", "fnsd", "sdfn"),
            ("rss-fields.eth0.udp4", "lsd+0x0400", "sdl+0x400"),
            ("rss.eth0", "4294967295,0", "4294967295,0"),
            ("feature.eth0.gro", "off", "off"),
            ("gro-flush.eth0", "020000", "20000"),
            ("idle-states", "2us", "2us"),
            ("idle-states", "all", "all"),
            ("irqbalance", "48 45-46", "45,46,48"),
        ] {
            assert_eq!(checked(&setting(name), typed).as_deref(), Ok(wanted), "{name}={typed}");
            assert!(same(&setting(name), typed, wanted), "{name}={typed}");
        }
        for (name, typed) in [
            ("irqs.eth0", "none"),
            ("rps.eth0", "3-1"),
            ("channels.eth0", "rx=four"),
            ("channels.eth0", "rx=4,rx=5"),
            ("rings.eth0", "combined=8"),
            ("coalesce.eth0", "adaptive-rx=1"),
            ("rss.eth0", "0"),
            ("rss-fields.eth0.udp4", "xyz"),
            ("rss-fields.eth0.udp4", "sd+400"),
            ("rss-fields.eth0.udp4", "+0x0"),
            ("feature.eth0.gro", "yes"),
            ("idle-states", "2"),
            ("irqbalance", "x"),
            ("sysctl.net.core.rmem_max", " "),
        ] {
            assert!(checked(&setting(name), typed).is_err(), "{name}={typed}");
        }
    }

    #[test]
    fn what_a_value_leaves_open_stays() {
        let channels = setting("channels.eth0");
        assert_eq!(completed(&channels, "8", "rx=0,tx=0,combined=4"), "rx=0,tx=0,combined=8");
        assert_eq!(completed(&channels, "8", "rx=4,tx=4,combined=0"), "rx=8,tx=8,combined=0");
        assert_eq!(completed(&channels, "rx=2", "rx=4,tx=4,combined=0"), "rx=2,tx=4,combined=0");
        let coalesce = setting("coalesce.eth0");
        assert_eq!(
            completed(&coalesce, "rx-usecs=75", "rx-usecs=3,adaptive-rx=on"),
            "rx-usecs=75,adaptive-rx=on"
        );
        assert_eq!(completed(&setting("rps.eth0"), "0", "none"), "0");
    }

    #[test]
    fn what_the_driver_or_the_kernel_chose_by_itself_is_ours_still() {
        let coalesce = setting("coalesce.eth0");
        let of = |usecs: u32, adapts: &str| {
            format!("rx-usecs={usecs},tx-usecs=8,adaptive-rx={adapts},adaptive-tx=off")
        };
        assert!(alike(&coalesce, &of(3, "on"), &of(98, "on")));
        assert!(
            !alike(&coalesce, &of(3, "off"), &of(98, "off"))
                && !alike(&coalesce, &of(3, "on"), &of(3, "off"))
        );
        let rps = setting("rps.eth0.0");
        assert!(may_come_of(&rps, "0,1,64", "0,1") && !may_come_of(&rps, "0,1", "0,2"));
        assert!(!may_come_of(&rps, "0", "none") && !may_come_of(&setting("sysctl.net.core.x"), "0", "0"));
    }

    #[test]
    fn a_sysctl_of_words_may_have_another_form_and_a_number_may_not() {
        let name = setting("sysctl.kernel.core_pattern");
        assert!(may_be_rewritten(&name, "|/bin/x  %p", "|/bin/x"));
        assert!(may_be_rewritten(&name, "0x10", "16"));
        assert!(!may_be_rewritten(&name, "9000000000", "2147483647"));
        assert!(
            !may_be_rewritten(&name, "1 2 3", "1 2 4") && !may_be_rewritten(&setting("rps.eth0"), "x", "y")
        );
        let ports = setting("sysctl.net.ipv4.ip_local_reserved_ports");
        assert!(same(&ports, "8053,8054", "8053-8054") && !same(&ports, "8053", "8054"));
        assert!(setting("sysctl.net.ipv4.neigh.eth0.base_reachable_time_ms").is_rounded());
    }

    #[test]
    fn a_table_is_as_long_as_the_device_has_it() {
        assert_eq!(table("equal=2", 5), Some(vec![0, 1, 0, 1, 0]));
        assert_eq!(table("0,0,1", 3), Some(vec![0, 0, 1]));
        assert_eq!(table("0,0,1", 4), None);
        for queues in [vec![0, 1, 0, 1], vec![0, 0, 1, 1], vec![0, 0, 0], vec![3, 3]] {
            assert_eq!(table(&table_word(&queues), queues.len()), Some(queues));
        }
    }
}

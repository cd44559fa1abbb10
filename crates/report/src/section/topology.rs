//! The layout of the cores: which share a memory node or a cache, who was pinned where, and where packets
//! arrive.

mod arrivals;

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::{Fingerprint, Run};

use super::host::of_subjects;
use crate::chart::{BoxPlace, Node, boxes};
use crate::format;
use arrivals::Arrivals;

#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) drawing: String,
    /// The greatest width, in pixels.
    pub(crate) widest: usize,
    /// Each letter, and the interrupts and queues that it stands for.
    pub(crate) letters: Vec<(String, String)>,
    /// If cells differ: the cores of the player and of the subject, and how many cells had them.
    pub(crate) placements: Vec<(String, String)>,
}

/// Draws the cores of the host of a run; `None` if they are not known.
pub(crate) fn of_run(run: &Run) -> Option<Topology> {
    let placements = placements(run);
    let host = of_subjects(run);
    let pinned = Pinned::new(&placements, Arrivals::from_host(host));
    let nodes = packages(host, &pinned);
    let varied = match pinned.varied.as_slice() {
        [] => String::new(),
        varied => format!(" The use of {} differs between cells.", format::cpus(varied)),
    };
    // Players on other hosts have no cores here.
    let is_one_host = run.hosts.is_empty();
    let who = if is_one_host {
        format!("Player on {}, subjects", format::cpus(&pinned.player))
    } else {
        "Subjects".to_owned()
    };
    let described =
        format!("{} logical CPUs. {who} on {}.{varied}", host.cores.len(), format::cpus(&pinned.subject));
    let (drawing, widest) = boxes("topology", "Cores of the host, and their use", &described, &nodes)?;
    let placements = listed(&placements, is_one_host);
    Some(Topology { drawing, widest, letters: pinned.arrivals.letters(), placements })
}

/// The cores of the player and of the subject → how many cells had them. The cores of players on other hosts are not
/// among those that are drawn, and are left out.
type Placements = BTreeMap<(Vec<u32>, Vec<u32>), usize>;

fn placements(run: &Run) -> Placements {
    let mut placements = Placements::new();
    for cell in &run.cells {
        let player = if run.hosts.is_empty() { sorted(&cell.player_cpus) } else { Vec::new() };
        *placements.entry((player, sorted(&cell.subject_cpus))).or_default() += 1;
    }
    placements
}

/// The most placements that are listed.
const LISTED: usize = 24;

/// The placements, the most frequent first; empty if all cells have the same one. The player's cores are named if it
/// ran on this host.
fn listed(placements: &Placements, has_player: bool) -> Vec<(String, String)> {
    if placements.len() < 2 {
        return Vec::new();
    }
    let mut all: Vec<_> = placements.iter().collect();
    all.sort_by_key(|(_, cells)| std::cmp::Reverse(**cells));
    let further: usize = all.iter().skip(LISTED).map(|(_, cells)| **cells).sum();
    let mut lines: Vec<(String, String)> = all
        .iter()
        .take(LISTED)
        .map(|((player, subject), cells)| {
            let subject = format!("subject on {}", format::cpus(subject));
            let cores =
                if has_player { format!("player on {}, {subject}", format::cpus(player)) } else { subject };
            (format::counted(**cells, "cell"), cores)
        })
        .collect();
    if further > 0 {
        lines.push((format::counted(further, "cell"), format!("{} further placements", all.len() - LISTED)));
    }
    lines
}

/// The cores that each side has in all cells.
#[derive(Default)]
struct Pinned {
    player: Vec<u32>,
    subject: Vec<u32>,
    /// Cores whose use differs between cells.
    varied: Vec<u32>,
    arrivals: Arrivals,
}

impl Pinned {
    fn new(placements: &Placements, arrivals: Arrivals) -> Self {
        let used: BTreeSet<u32> =
            placements.keys().flat_map(|(player, subject)| player.iter().chain(subject)).copied().collect();
        let mut pinned = Self { arrivals, ..Self::default() };
        for cpu in used {
            let who =
                |(player, subject): &(Vec<u32>, Vec<u32>)| (player.contains(&cpu), subject.contains(&cpu));
            let roles: BTreeSet<(bool, bool)> = placements.keys().map(who).collect();
            if roles.len() > 1 {
                pinned.varied.push(cpu);
            }
            pinned.player.extend(roles.iter().all(|role| role.0).then_some(cpu));
            pinned.subject.extend(roles.iter().all(|role| role.1).then_some(cpu));
        }
        pinned
    }

    fn place(&self, cpu: u32) -> BoxPlace {
        let (class, mark, who) = match (self.player.contains(&cpu), self.subject.contains(&cpu)) {
            _ if self.varied.contains(&cpu) => ("varied", "", "differs between cells"),
            (true, true) => ("both", "P+S", "player and subject"),
            (true, false) => ("player", "P", "player"),
            (false, true) => ("subject", "S", "subject"),
            (false, false) => ("idle", "", "not used"),
        };
        let arrives = self.arrivals.at(cpu);
        let description = if arrives.is_empty() {
            format!("{who}, CPU {cpu}")
        } else {
            format!("{who}, CPU {cpu}, packets by {}", arrives.join(", "))
        };
        BoxPlace { number: Some(cpu), class, mark, arrives, description }
    }
}

fn packages(host: &Fingerprint, pinned: &Pinned) -> Vec<Node> {
    let by_package = grouped(host.cores.iter().collect(), |core| core.package);
    let package = |(package, cpus): (u32, Vec<&CoreFacts>)| {
        let by_node = grouped(cpus.clone(), |core| core.numa_node);
        let label = format!("package {package}");
        let children = match by_node.as_slice() {
            [(node, _)] => {
                let label = if *node > 0 { format!("{label}, memory node {node}") } else { label };
                return group(label, &cpus, pinned);
            }
            several => several
                .iter()
                .map(|(node, cpus)| group(format!("memory node {node}"), cpus, pinned))
                .collect(),
        };
        Node::Group { label, children }
    };
    let packages: Vec<Node> = by_package.into_iter().map(package).collect();
    if host.cores.len() > FOLD_ABOVE { packages.iter().map(folded_within).collect() } else { packages }
}

fn grouped(cpus: Vec<&CoreFacts>, key: impl Fn(&CoreFacts) -> u32) -> Vec<(u32, Vec<&CoreFacts>)> {
    let mut groups: BTreeMap<u32, Vec<&CoreFacts>> = BTreeMap::new();
    for cpu in cpus {
        groups.entry(key(cpu)).or_default().push(cpu);
    }
    groups.into_iter().collect()
}

/// A box of these CPUs. The label names a cache that all of them share.
fn group(label: String, cpus: &[&CoreFacts], pinned: &Pinned) -> Node {
    let numbers = numbers(cpus);
    let several = cpus.iter().any(|cpu| cpu.core != cpus[0].core);
    let shared = cpus[0].caches.iter().filter(|(_, sharing)| several && sorted(sharing) == numbers);
    let shared: Vec<&str> = shared.map(|(name, _)| name.as_str()).collect();
    let names = [label, shared.join(", ")];
    let label = names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(", ");
    Node::Group { label, children: nested(cpus, pinned) }
}

/// The contents of a box: smaller boxes by the largest cache that not all of them share, and single cores.
fn nested(cpus: &[&CoreFacts], pinned: &Pinned) -> Vec<Node> {
    let numbers = numbers(cpus);
    let sharing = |cpu: &CoreFacts| {
        let within = |shared: &&Vec<u32>| {
            shared.len() < numbers.len()
                && shared.iter().all(|other| numbers.contains(other))
                && shared.iter().any(|other| !cpu.smt.contains(other))
        };
        cpu.caches.values().filter(within).max_by_key(|shared| shared.len()).map(|shared| sorted(shared))
    };
    let mut parts: Vec<(Vec<u32>, Vec<&CoreFacts>)> = Vec::new();
    for cpu in cpus {
        let key = sharing(cpu).unwrap_or_else(|| sorted(&cpu.smt));
        match parts.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(cpu),
            None => parts.push((key, vec![cpu])),
        }
    }
    let node = |(_, members): &(Vec<u32>, Vec<&CoreFacts>)| {
        if sharing(members[0]).is_some() {
            group(String::new(), members, pinned)
        } else {
            Node::Core(members.iter().map(|cpu| pinned.place(cpu.cpu)).collect())
        }
    };
    parts.iter().map(node).collect()
}

fn numbers(cpus: &[&CoreFacts]) -> Vec<u32> {
    sorted(&cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>())
}

fn sorted(cpus: &[u32]) -> Vec<u32> {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted
}

/// On a host with more logical CPUs, equal neighbours are drawn as one.
const FOLD_ABOVE: usize = 16;
/// Style classes with their words, the idle class last.
const WHO: [(&str, &str); 5] = [
    ("player", "player"),
    ("subject", "subject"),
    ("both", "player and subject"),
    ("varied", "differs between cells"),
    ("idle", "not used"),
];
/// The least number of equal neighbours that are drawn as one.
const FOLD_FROM: usize = 3;

/// Draws rows of equal neighbours as one box, the largest boxes first.
fn folded_within(node: &Node) -> Node {
    let Node::Group { label, children } = node else { return node.clone() };
    let mut kept = Vec::new();
    for run in children.chunk_by(|a, b| likeness(a) == likeness(b)) {
        if run.len() >= FOLD_FROM {
            kept.push(one_of(run));
        } else {
            kept.extend(run.iter().map(folded_within));
        }
    }
    Node::Group { label: label.clone(), children: kept }
}

/// The properties in which equal boxes agree: everything except the numbers.
fn likeness(node: &Node) -> String {
    match node {
        Node::Core(places) => {
            let places = places.iter().map(|place| format!("{} {}", place.class, place.arrives.join(" ")));
            format!("({})", places.collect::<Vec<_>>().join(","))
        }
        Node::Folded { label, .. } => label.clone(),
        Node::Group { label, children } => {
            let children: Vec<String> = children.iter().map(likeness).collect();
            format!("{label}[{}]", children.join(","))
        }
    }
}

fn one_of(run: &[Node]) -> Node {
    let places: Vec<&BoxPlace> = run.iter().flat_map(places).collect();
    let cpus: Vec<u32> = places.iter().filter_map(|place| place.number).collect();
    let what = match &run[0] {
        Node::Group { label, .. } => format!("{} × {label}", run.len()),
        _ => format!("{} cores", run.len()),
    };
    let has = |class: &str| places.iter().any(|place| place.class == class);
    let found: Vec<(&'static str, &'static str)> = WHO.into_iter().filter(|(class, _)| has(class)).collect();
    let mut description = found.iter().map(|(_, who)| *who).collect::<Vec<_>>().join(", ");
    let mut arrives: Vec<String> = places.iter().flat_map(|place| place.arrives.iter().cloned()).collect();
    arrives.sort();
    arrives.dedup();
    if !arrives.is_empty() {
        description = format!("{description}; packets by {}", arrives.join(", "));
    }
    // A core is not idle if only one of its two threads is, as often happens.
    let class = match found.as_slice() {
        [(class, _)] | [(class, _), ("idle", _)] => class,
        _ => "both",
    };
    let place = BoxPlace { number: None, class, mark: "", arrives, description };
    Node::Folded { label: format!("{what}: {}", format::cpus(&cpus)), place }
}

fn places(node: &Node) -> Vec<&BoxPlace> {
    match node {
        Node::Core(places) => places.iter().collect(),
        Node::Folded { place, .. } => vec![place],
        Node::Group { children, .. } => children.iter().flat_map(places).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(cpu: u32, package: u32, core: u32, smt: &[u32], caches: &[(&str, Vec<u32>)]) -> CoreFacts {
        let caches = caches.iter().map(|(name, cpus)| ((*name).to_owned(), cpus.clone())).collect();
        CoreFacts { cpu, package, core, numa_node: package, smt: smt.to_vec(), caches }
    }

    fn pinned(player: &[u32], subject: &[u32]) -> Pinned {
        Pinned { player: player.to_vec(), subject: subject.to_vec(), ..Pinned::default() }
    }

    /// Labels and CPU numbers, with brackets around the contents of a box.
    fn shape(nodes: &[Node]) -> String {
        let text = |node: &Node| match node {
            Node::Group { label, children } => format!("{label}[{}]", shape(children)),
            Node::Folded { label, place } => format!("<{label}; {}>", place.description),
            Node::Core(places) => {
                let of = |place: &BoxPlace| format!("{}{}", place.number.unwrap(), place.mark);
                places.iter().map(of).collect::<Vec<_>>().join("+")
            }
        };
        nodes.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cores_that_share_a_cache_lie_in_one_box() {
        let all = || vec![0, 1, 2, 3];
        let cores = [(0, vec![0, 1]), (1, vec![0, 1]), (2, vec![2, 3]), (3, vec![2, 3])]
            .map(|(cpu, pair)| core(cpu, 0, cpu, &[cpu], &[("L2", pair), ("L3", all())]));
        let host = Fingerprint { cores: cores.to_vec(), ..Fingerprint::default() };
        let drawn = shape(&packages(&host, &pinned(&[0, 1], &[1, 2])));
        assert_eq!(drawn, "package 0, L3[L2[0P 1P+S] L2[2S 3]]");
    }

    #[test]
    fn siblings_are_one_core() {
        let caches = || vec![("L1d", vec![0, 1]), ("L2", vec![0, 1])];
        let cores = vec![core(0, 0, 0, &[0, 1], &caches()), core(1, 0, 0, &[0, 1], &caches())];
        let host = Fingerprint { cores, ..Fingerprint::default() };
        assert_eq!(shape(&packages(&host, &pinned(&[], &[]))), "package 0[0+1]");
    }

    /// Two packages of 32 cores with two threads each; four cores share an L3.
    fn large() -> Fingerprint {
        let facts = |cpu: u32| {
            let core_number = cpu % 64;
            let first = core_number / 4 * 4;
            let shared: Vec<u32> = (first..first + 4).chain(first + 64..first + 68).collect();
            core(cpu, core_number / 32, core_number, &[core_number, core_number + 64], &[("L3", shared)])
        };
        Fingerprint { cores: (0..128).map(facts).collect(), ..Fingerprint::default() }
    }

    #[test]
    fn equal_caches_and_cores_of_a_large_host_are_folded() {
        let drawn = shape(&packages(&large(), &pinned(&[0, 64], &[4, 5, 6, 7])));
        assert_eq!(
            drawn,
            "package 0[L3[0P+64P <3 cores: 1-3, 65-67; not used>] L3[<4 cores: 4-7, 68-71; subject, not used>] \
             <6 × L3: 8-31, 72-95; not used>] \
             package 1, memory node 1[<8 × L3: 32-63, 96-127; not used>]"
        );
    }

    #[test]
    fn where_cells_differ_no_core_is_marked_and_the_placements_are_listed() {
        let cell = |subject: &[u32]| kqps_observation::Cell {
            player_cpus: vec![0],
            subject_cpus: subject.to_vec(),
            ..Default::default()
        };
        let mut run = Run { cells: vec![cell(&[1]), cell(&[2, 1]), cell(&[1, 2])], ..Run::default() };
        run.fingerprint.cores = (0..4).map(|cpu| core(cpu, 0, cpu, &[cpu], &[])).collect();
        let pinned = Pinned::new(&placements(&run), Arrivals::default());
        assert_eq!(shape(&packages(&run.fingerprint, &pinned)), "package 0[0P 1S 2 3]");
        let text = |index: usize| pinned.place(index as u32).description;
        assert_eq!((text(2).as_str(), text(3).as_str()), ("differs between cells, CPU 2", "not used, CPU 3"));
        let drawn = of_run(&run).unwrap();
        let line = |cells: &str, cores: &str| (cells.to_owned(), cores.to_owned());
        assert_eq!(
            drawn.placements,
            [line("2 cells", "player on 0, subject on 1-2"), line("1 cell", "player on 0, subject on 1"),]
        );
        run.cells.truncate(1);
        assert!(of_run(&run).unwrap().placements.is_empty(), "all cells have the same");
    }

    #[test]
    fn players_on_other_hosts_are_not_given_cores_of_this_one() {
        let cell = |subject: u32| kqps_observation::Cell {
            player_cpus: vec![0],
            subject_cpus: vec![subject],
            ..Default::default()
        };
        let server = kqps_observation::RunHost {
            name: "ns1".into(),
            role: kqps_observation::HostRole::Server,
            address: [192, 0, 2, 1].into(),
            fingerprint: Fingerprint {
                cores: (0..4).map(|cpu| core(cpu, 0, cpu, &[cpu], &[])).collect(),
                ..Fingerprint::default()
            },
            kqps: kqps_observation::fingerprint::BinaryFacts::default(),
        };
        let run = Run { cells: vec![cell(1), cell(2)], hosts: vec![server], ..Run::default() };
        let drawn = of_run(&run).unwrap();
        assert!(drawn.drawing.contains("Subjects on") && !drawn.drawing.contains("Player on"), "{drawn:?}");
        let cores: Vec<&str> = drawn.placements.iter().map(|(_, cores)| cores.as_str()).collect();
        assert_eq!(cores, ["subject on 1", "subject on 2"]);
    }

    #[test]
    fn a_host_that_reports_nothing_draws_nothing() {
        assert!(of_run(&Run::default()).is_none());
    }
}

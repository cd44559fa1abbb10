//! Decides which cells run side by side: subjects that are searched under the same conditions, with the echoes
//! that are their ceilings; and both sides of a comparison. Their trials take turns, so that a change of the
//! host affects all of them. Every other cell runs alone.

use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad, Run};
use kqps_verdict::disturbed::rounds_with;

use kqps_testbed::certificates::certificate_of;

/// The most servers that run at once.
const SERVERS_MOST: usize = 8;

/// The cells of a block in groups, in the order of each group's first cell.
pub(super) fn groups(run: &Run, order: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &cell in order {
        let joins = |group: &&mut Vec<usize>| {
            group.len() < SERVERS_MOST && group.iter().all(|&other| are_alike(run, cell, other))
        };
        match groups.iter_mut().find(joins) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

/// Whether two cells may be in one group.
fn are_alike(run: &Run, one: usize, other: usize) -> bool {
    let of = |cell: usize| &run.cells[cell];
    let is_alone = |cell: usize| run.skipped.contains_key(&rounds_with(&of(cell).name));
    if is_alone(one) || is_alone(other) {
        return false;
    }
    if is_compared(of(one)) || is_compared(of(other)) {
        return is_compared(of(one)) && is_compared(of(other));
    }
    if !are_on_same_cores(of(one), of(other)) || !have_same_host(of(one), of(other)) {
        return false;
    }
    match (is_searched(of(one)), is_searched(of(other))) {
        (true, true) => has_same_conditions(of(one), of(other)),
        (true, false) => is_ceiling_of_any(run, other),
        (false, true) => is_ceiling_of_any(run, one),
        (false, false) => is_ceiling_of_any(run, one) && is_ceiling_of_any(run, other),
    }
}

fn is_searched(cell: &Cell) -> bool {
    cell.role == Role::Subject && cell.load == CellLoad::Search
}

/// Whether a cell is part of a comparison.
fn is_compared(cell: &Cell) -> bool {
    cell.factors.compared_as().is_some()
}

fn are_on_same_cores(one: &Cell, other: &Cell) -> bool {
    one.player_cpus == other.player_cpus
        && (one.subject_cpus == other.subject_cpus || was_running(one) || was_running(other))
}

/// Whether its server already ran on this host, so that kqps gave it no cores.
fn was_running(cell: &Cell) -> bool {
    cell.target.is_some_and(|target| target.on_this_host)
}

/// Whether both want the same settings of their host, which has them for one of them at a time.
fn have_same_host(one: &Cell, other: &Cell) -> bool {
    let of = |cell: &Cell| (cell.factors.receive_core(), cell.factors.host_settings().clone());
    of(one) == of(other)
}

fn has_same_conditions(one: &Cell, other: &Cell) -> bool {
    one.experiment == other.experiment && one.workers == other.workers && one.factors == other.factors
}

/// Whether a cell is the echo of any searched subject, as [`ceiling_of`] finds it.
pub(super) fn is_ceiling_of_any(run: &Run, echo: usize) -> bool {
    (0..run.cells.len()).any(|subject| ceiling_of(run, subject) == Some(echo))
}

/// The echo that a searched subject is compared with: one with the same transport and I/O and, of those, the one with
/// the same hosts, the same type of certificate, the nearest number of workers, and, among equals, the same settings of
/// the host and the same player.
pub(super) fn ceiling_of(run: &Run, subject: usize) -> Option<usize> {
    let facts = &run.cells[subject];
    let echoes = run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::EchoCeiling);
    let has_same_wire =
        |echo: &Cell| echo.io == facts.io && echo.factors.transport() == facts.factors.transport();
    let is_comparable = is_searched(facts) && !facts.is_elsewhere();
    let alike = echoes.filter(|(_, echo)| is_comparable && has_same_wire(echo));
    let difference = |echo: &Cell| {
        let has_other_certificate = certificate_of(echo) != certificate_of(facts);
        let has_other_player = echo.factors.player() != facts.factors.player();
        let has_other_hosts = echo.factors.hosts() != facts.factors.hosts();
        let workers = echo.workers.abs_diff(facts.workers);
        (has_other_hosts, has_other_certificate, workers, !have_same_host(echo, facts), has_other_player)
    };
    alike.min_by_key(|(_, echo)| difference(echo)).map(|(echo, _)| echo)
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::ComparedAs;

    use super::*;

    fn cell(name: &str, role: Role, io: &str) -> Cell {
        Cell { name: name.into(), role, io: io.into(), workers: 1, ..Cell::default() }
    }

    fn run() -> Run {
        let cells = vec![
            cell("player ceiling", Role::PlayerCeiling, "segment"),
            cell("echo poll", Role::EchoCeiling, "poll"),
            cell("echo mmsg", Role::EchoCeiling, "mmsg"),
            cell("echo epoll", Role::EchoCeiling, "epoll"),
            cell("nsd", Role::Subject, "mmsg"),
            cell("bind", Role::Subject, "epoll"),
        ];
        Run { cells, ..Run::default() }
    }

    #[test]
    fn subjects_and_their_ceilings_run_side_by_side_and_all_others_by_themselves() {
        assert_eq!(groups(&run(), &[1, 5, 0, 2, 4, 3]), [vec![1], vec![5, 2, 4, 3], vec![0]]);
    }

    #[test]
    fn other_conditions_make_other_groups() {
        let mut run = run();
        run.cells[5].factors.set_records(10);
        assert_eq!(groups(&run, &[4, 5, 2]), [vec![4, 2], vec![5]]);
        run.cells[5] = Cell { load: CellLoad::Closed(1.0), ..cell("bind", Role::Subject, "epoll") };
        assert_eq!(groups(&run, &[4, 5, 2, 3]), [vec![4, 2], vec![5], vec![3]]);
        run.cells[4].factors.set("host.rps.eth0", "1").unwrap();
        assert_eq!(groups(&run, &[4, 2]), [[4], [2]]);
        run.cells[2].factors.set("host.rps.eth0", "1").unwrap();
        assert_eq!(groups(&run, &[4, 2]), [[4, 2]]);
        run.cells[4].subject_cpus = vec![3];
        assert_eq!(groups(&run, &[4, 2]), [[4], [2]]);
    }

    #[test]
    fn a_ceiling_has_the_transport_and_the_connections_of_its_subject() {
        let over_tcp = |name: &str, role, queries: &str| {
            let mut cell = cell(name, role, "epoll");
            cell.factors.set("player.transport", "tcp").unwrap();
            cell.factors.set("player.queries_per_connection", queries).unwrap();
            cell
        };
        let mut run = run();
        run.cells.push(over_tcp("echo over tcp, 9", Role::EchoCeiling, "9"));
        run.cells.push(over_tcp("echo over tcp, 1", Role::EchoCeiling, "1"));
        run.cells.push(over_tcp("nsd over tcp", Role::Subject, "1"));
        assert_eq!([5, 8].map(|subject| ceiling_of(&run, subject)), [Some(3), Some(7)]);
        run.cells[7].role = Role::Canary;
        assert_eq!(ceiling_of(&run, 8), Some(6), "the nearest, as over UDP");
    }

    #[test]
    fn both_sides_of_a_comparison_run_side_by_side_whatever_their_load_and_cores() {
        let side = |part| {
            let mut side = Cell { load: CellLoad::Closed(0.25), ..cell("nsd", Role::Subject, "mmsg") };
            side.factors.set_compared_as(part);
            side
        };
        let parts = [ComparedAs::A, ComparedAs::Again, ComparedAs::B];
        let mut run = Run { cells: parts.map(side).into(), ..Run::default() };
        run.cells[2].subject_cpus = vec![1, 2];
        assert_eq!(groups(&run, &[2, 0, 1]), [vec![2, 0, 1]]);
    }

    #[test]
    fn a_subject_that_is_not_quiet_is_by_itself_from_then_on() {
        let mut run = run();
        run.skipped.insert(rounds_with(&run.cells[4].name), "it is not quiet".into());
        assert_eq!(groups(&run, &[5, 4, 3]), [vec![5, 3], vec![4]]);
    }
}

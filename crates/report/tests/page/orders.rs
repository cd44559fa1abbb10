//! The orders of a table, which radio buttons choose: the rows are sorted by the figure that the order names.

use kqps_verdict::judge::judge;
use serde_json::Value;

use super::{PAPER, SCREENS, written};
use crate::support::browser::Browser;
use crate::support::study;

/// Chooses every order of every table, and returns for each: the name of the order, the numbers in its column from top
/// to bottom (`null` without one), and the heads of the rows. Numbers are in the base of their units.
const ORDERS: &str = r"(() => {
  const units = { 'q/s': 1, 'k q/s': 1e3, 'M q/s': 1e6, '%': 1, 'ns': 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1, B: 1, KiB: 1024, MiB: 1048576, GiB: 1073741824 };
  const number = (text) => {
    const [, size, unit] = text.replace(/\u00a0/g, ' ').match(/^([\d.]+) ?(.*)$/) ?? [];
    return size === undefined ? null : Number(size) * (units[unit] ?? (unit === '' ? 1 : NaN));
  };
  const found = [];
  for (const sorted of document.querySelectorAll('.sorted')) {
    const table = sorted.querySelector('table');
    const groups = [...table.querySelectorAll('th.group')].map((head) => head.textContent);
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells].map((head) => head.textContent);
    // Without groups, the first head is that of the rows.
    const names = groups.length ? heads.map((head, at) => `${head} at ${groups[Math.floor(at * groups.length / heads.length)]}`) : heads.slice(1);
    for (const input of sorted.querySelectorAll('input')) {
      input.click();
      const bodies = [...table.tBodies].filter((body) => body.checkVisibility());
      const name = input.parentElement.textContent;
      const column = names.indexOf(name.replace(/, (highest|lowest) first$/, ''));
      const rows = [...bodies[0].rows];
      found.push({ name, column, bodies: bodies.length, table: input.name,
        values: column < 0 ? [] : rows.map((row) => number(row.cells[column + 1].firstChild.textContent)),
        heads: rows.map((row) => row.cells[0].textContent) });
    }
    sorted.querySelector('input')?.click();
  }
  return found;
})()";

#[test]
fn every_order_sorts_the_rows_by_the_figure_that_it_names() {
    let file = written("orders", &study::run());
    let mut browser = Browser::start();
    for (name, screen) in [SCREENS[0], SCREENS[2]] {
        browser.open(&file, screen);
        let orders = browser.evaluate(ORDERS);
        let orders = orders.as_array().unwrap();
        let count = |table: &str| orders.iter().filter(|order| order["table"] == table).count();
        // Two experiments with two tables and one, and the servers side by side.
        // Orders that would change nothing are left out.
        for (table, least) in [("table-0-0", 2), ("table-0-1", 2), ("table-1-0", 3), ("summary", 3)] {
            assert!(count(table) >= least, "{name}: {table} has {} orders: {orders:?}", count(table));
        }
        for order in orders {
            expect_sorted(order, orders);
        }
    }
    browser.open(&file, PAPER);
    browser.evaluate("document.querySelectorAll('input.o1').forEach(one => one.click())");
    browser.on_paper();
    let printed = "[...document.querySelectorAll('.orders label')].filter(label => label.checkVisibility())
        .map(label => label.textContent)";
    let printed: Vec<String> = serde_json::from_value(browser.evaluate(printed)).unwrap();
    assert_eq!(printed.len(), 4, "paper names the order of each table: {printed:?}");
    assert!(printed.iter().all(|name| name.ends_with(" first")), "{printed:?}");
}

/// The values of the chosen column rise or fall, and those that are not known come last.
fn expect_sorted(order: &Value, all: &[Value]) {
    let name = order["name"].as_str().unwrap();
    assert_eq!(order["bodies"], 1, "one order is shown: {order}");
    let heads = |order: &Value| {
        let mut heads: Vec<String> = serde_json::from_value(order["heads"].clone()).unwrap();
        heads.sort();
        heads
    };
    let planned = all.iter().find(|one| one["table"] == order["table"]).unwrap();
    assert_eq!((planned["name"].as_str(), heads(order)), (Some("as planned"), heads(planned)));
    if name == "as planned" {
        return;
    }
    assert!(order["column"].as_i64() >= Some(0), "no column is called {name}: {order}");
    let values: Vec<Option<f64>> = serde_json::from_value(order["values"].clone()).unwrap();
    let known: Vec<f64> = values.iter().copied().flatten().collect();
    assert!(known.len() > 1 && known.iter().all(|value| value.is_finite()), "{order}");
    assert!(values[..known.len()].iter().all(Option::is_some), "rows without a figure come last: {order}");
    let is_sorted =
        if name.ends_with("highest first") { known.is_sorted_by(|a, b| a >= b) } else { known.is_sorted() };
    assert!(is_sorted && known.first() != known.last(), "{order}");
}

/// The further orders of the tables of a study with many cells have at most 1 MB, and every long table has some.
#[test]
fn orders_do_not_make_a_page_longer_than_allowed() {
    let mut run = study::run();
    // Every cell of the echo comes sixteen times, with another factor and its first start.
    let (cells, trials) = (run.cells.clone(), run.trials.clone());
    for copy in 1..16_u32 {
        for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.experiment == study::ECHO) {
            let mut words = cell.factors.words().clone();
            words.insert("player.sockets".into(), copy.to_string());
            let factors = kqps_observation::Factors::read(words).unwrap();
            let at = run.cells.len() as u32;
            run.cells.push(kqps_observation::Cell {
                name: format!("{} {copy}", cell.name),
                factors,
                ..cell.clone()
            });
            for trial in trials.iter().filter(|trial| trial.cell as usize == index && trial.block == 0) {
                let number = run.trials.len() as u64 + 1;
                let mut trial = kqps_observation::RunTrial { number, cell: at, ..trial.clone() };
                trial.start += u64::from(copy) * 10_000;
                run.trials.push(trial);
            }
        }
    }
    let page = kqps_report::page(&run, &judge(&run));
    let further: usize = page
        .split("<tbody class=\"o")
        .skip(1)
        .filter(|body| !body.starts_with("0\""))
        .map(|body| body.split("</tbody>").next().unwrap().len())
        .sum();
    assert!((200_000..=1_000_000).contains(&further), "{further} of {} bytes", page.len());
    for table in ["table-0-0", "table-0-1"] {
        assert!(page.contains(&format!("<input type=\"radio\" name=\"{table}\" class=\"o1\"")), "{table}");
    }
}

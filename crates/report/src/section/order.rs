//! The orders in which a table can be shown: as the study plans it, and by some of its columns. The page has no script,
//! so every order is rendered, and the reader chooses one.

use super::table::{Row, Table};

/// An order of rows.
#[derive(Debug)]
pub(crate) struct Order {
    /// `as planned`, or the column and which end comes first.
    pub(crate) name: String,
    /// Indices into the rows.
    pub(crate) rows: Vec<usize>,
}

/// The most orders beside the planned one.
const MOST: usize = 3;

/// A table with so many rows in all of its orders is long enough.
const ROWS_MOST: usize = 160;

/// Fewer rows need no order.
const ROWS_LEAST: usize = 3;

/// Orders the rows of a table by the columns that `keys` names: the index of a column, its name, and whether its greatest
/// value comes first. Columns with fewer than two values, and orders that would change nothing, are left out. Rows without a value
/// come last.
pub(crate) fn of_rows(rows: &[Row], keys: &[(usize, String, bool)]) -> Vec<Order> {
    let planned: Vec<usize> = (0..rows.len()).collect();
    let mut orders = vec![Order { name: "as planned".to_owned(), rows: planned }];
    if rows.len() < ROWS_LEAST {
        return orders;
    }
    for (column, name, greatest_first) in keys {
        let value = |row: &usize| rows[*row].cells[*column].value;
        let known = orders[0].rows.iter().filter_map(value);
        let is_even = known.clone().all(|one| known.clone().next().is_some_and(|first| first.total_cmp(&one).is_eq()));
        let mut sorted = orders[0].rows.clone();
        sorted.sort_by(|a, b| match (value(a), value(b)) {
            (Some(a), Some(b)) if *greatest_first => b.total_cmp(&a),
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        });
        let is_new = orders.iter().all(|order| order.rows != sorted);
        if !is_even && is_new && orders.len() <= MOST && (orders.len() + 1) * rows.len() <= ROWS_MOST {
            let first = if *greatest_first { "highest" } else { "lowest" };
            orders.push(Order { name: format!("{name}, {first} first"), rows: sorted });
        }
    }
    orders
}

/// The rows of a table in an order.
pub(crate) fn rows_in<'a>(table: &'a Table, order: &'a Order) -> impl Iterator<Item = &'a Row> {
    order.rows.iter().map(|index| &table.rows[*index])
}

#[cfg(test)]
mod tests {
    use super::super::table::TableCell;
    use super::*;

    fn rows(values: &[Option<f64>]) -> Vec<Row> {
        let cell = |value: &Option<f64>| TableCell { value: *value, ..TableCell::default() };
        values.iter().map(|value| Row { head: String::new(), cells: vec![cell(value)] }).collect()
    }

    fn of(values: &[Option<f64>], greatest_first: bool) -> Vec<Vec<usize>> {
        let keys = [(0, "rate".to_owned(), greatest_first)];
        of_rows(&rows(values), &keys).into_iter().map(|order| order.rows).collect()
    }

    #[test]
    fn rows_are_ordered_by_value_and_those_without_one_come_last() {
        let values = [Some(2.0), None, Some(3.0), Some(1.0)];
        assert_eq!(of(&values, true), [[0, 1, 2, 3], [2, 0, 3, 1]]);
        assert_eq!(of(&values, false), [[0, 1, 2, 3], [3, 0, 2, 1]]);
    }

    #[test]
    fn an_order_that_changes_nothing_is_none() {
        assert_eq!(of(&[Some(3.0), Some(2.0), Some(1.0)], true).len(), 1);
        assert_eq!(of(&[Some(1.0), None, Some(1.0)], true).len(), 1, "all are equal");
        assert_eq!(of(&[Some(1.0), Some(2.0)], true).len(), 1, "two rows");
        let many: Vec<Option<f64>> = (0..100).map(|value| Some(f64::from(value))).collect();
        assert_eq!(of(&many, true).len(), 1, "too long to be rendered twice");
    }
}

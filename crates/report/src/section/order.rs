//! The orders in which a table can be shown: as the study plans it, and by some of its columns. The page has no script,
//! so every order is rendered, and the reader chooses one.

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

/// A column by which rows may be ordered.
#[derive(Debug)]
pub(crate) struct Key {
    /// The index of the column.
    pub(crate) column: usize,
    pub(crate) name: String,
    /// Whether the greatest value comes first.
    pub(crate) greatest_first: bool,
}

/// Orders so many rows by some columns. `value` gives the value of a row in a column. Columns whose values are all
/// equal, and orders that would change nothing, are left out. Rows without a value come last.
pub(crate) fn of_rows(count: usize, keys: &[Key], value: impl Fn(usize, usize) -> Option<f64>) -> Vec<Order> {
    let planned: Vec<usize> = (0..count).collect();
    let mut orders = vec![Order { name: "as planned".to_owned(), rows: planned }];
    if count < ROWS_LEAST {
        return orders;
    }
    for Key { column, name, greatest_first } in keys {
        let value = |row: &usize| value(*row, *column);
        let known: Vec<f64> = orders[0].rows.iter().filter_map(value).collect();
        let is_even = known.iter().all(|one| one.total_cmp(&known[0]).is_eq());
        let mut sorted = orders[0].rows.clone();
        sorted.sort_by(|a, b| match (value(a), value(b)) {
            (Some(a), Some(b)) if *greatest_first => b.total_cmp(&a),
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        });
        let is_new = orders.iter().all(|order| order.rows != sorted);
        if !is_even && is_new && orders.len() <= MOST && (orders.len() + 1) * count <= ROWS_MOST {
            let first = if *greatest_first { "highest" } else { "lowest" };
            orders.push(Order { name: format!("{name}, {first} first"), rows: sorted });
        }
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[Option<f64>], greatest_first: bool) -> Vec<Vec<usize>> {
        let keys = [Key { column: 0, name: "rate".to_owned(), greatest_first }];
        let orders = of_rows(values.len(), &keys, |row, _| values[row]);
        orders.into_iter().map(|order| order.rows).collect()
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

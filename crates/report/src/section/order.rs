//! The orders in which a table can be shown: as the study plans it, and by its figures. The page has no script, so
//! every order is rendered, and the reader chooses one. The further orders of all tables of experiments have at most
//! [`PAGE_BYTES`] together, and those of each other table at most [`TABLE_BYTES`].

/// An order of rows.
#[derive(Debug)]
pub(crate) struct Order {
    /// `as planned`, or the figure and which end comes first.
    pub(crate) name: String,
    /// Indices into the rows.
    pub(crate) rows: Vec<usize>,
}

/// The most orders beside the planned one: a reader still finds the wanted one among so many, and the style sheet has a
/// rule for each.
const MOST: usize = 11;

/// The most bytes of HTML that further orders of all tables of experiments add to a page.
pub(crate) const PAGE_BYTES: usize = 1_000_000;

/// The most bytes that further orders of another table add.
pub(crate) const TABLE_BYTES: usize = 40_000;

/// Fewer rows need no order.
const ROWS_LEAST: usize = 3;

/// A column by which rows may be ordered.
#[derive(Debug)]
pub(crate) struct Key {
    /// The index of the column.
    pub(crate) column: usize,
    /// The whole name of the order.
    pub(crate) name: String,
    /// Whether the greatest value comes first.
    pub(crate) greatest_first: bool,
}

/// Orders so many rows by some columns, the most important first. `value` gives the value of a row in a column. All
/// rows together have about `bytes` of HTML, and further orders have at most `bytes_most`. Columns whose values are all
/// equal, and orders that would change nothing, are left out. Rows without a value come last.
pub(crate) fn of_rows(
    count: usize,
    keys: &[Key],
    value: impl Fn(usize, usize) -> Option<f64>,
    bytes: usize,
    bytes_most: usize,
) -> Vec<Order> {
    let mut orders = vec![as_planned(count)];
    if count < ROWS_LEAST {
        return orders;
    }
    let most = MOST.min(bytes_most / bytes.max(1));
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
        if !is_even && is_new && orders.len() <= most {
            orders.push(Order { name: name.clone(), rows: sorted });
        }
    }
    orders
}

/// About how many bytes the further ones of these orders add, if all rows together have `bytes`.
pub(crate) fn added(orders: &[Order], bytes: usize) -> usize {
    (orders.len() - 1) * bytes
}

/// The order in which the rows are.
pub(crate) fn as_planned(count: usize) -> Order {
    Order { name: "as planned".to_owned(), rows: (0..count).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(values: &[Option<f64>], greatest_first: bool) -> Vec<Vec<usize>> {
        of_many(values, 1, greatest_first)
    }

    /// The orders by so many equal columns, in a table of 1 kB for each row.
    fn of_many(values: &[Option<f64>], columns: usize, greatest_first: bool) -> Vec<Vec<usize>> {
        let key = |column| Key { column, name: "rate".to_owned(), greatest_first };
        let keys: Vec<Key> = (0..columns).map(key).collect();
        // Each column but the first turns the values by some places.
        let value = |row: usize, column: usize| values[(row + column * 7) % values.len()];
        let orders = of_rows(values.len(), &keys, value, 1_000 * values.len(), PAGE_BYTES);
        orders.into_iter().map(|order| order.rows).collect()
    }

    #[test]
    fn rows_are_ordered_by_value_and_those_without_one_come_last() {
        let values = [Some(2.0), None, Some(3.0), Some(1.0)];
        assert_eq!(orders(&values, true), [[0, 1, 2, 3], [2, 0, 3, 1]]);
        assert_eq!(orders(&values, false), [[0, 1, 2, 3], [3, 0, 2, 1]]);
    }

    #[test]
    fn an_order_that_changes_nothing_is_none() {
        assert_eq!(orders(&[Some(3.0), Some(2.0), Some(1.0)], true).len(), 1);
        assert_eq!(orders(&[Some(1.0), None, Some(1.0)], true).len(), 1, "all are equal");
        assert_eq!(orders(&[Some(1.0), Some(2.0)], true).len(), 1, "two rows");
    }

    #[test]
    fn further_orders_have_no_more_bytes_than_a_page_may() {
        for (rows, expected) in [(20, 11), (200, 5), (500, 2), (1_000, 1), (1_001, 0)] {
            let many: Vec<Option<f64>> = (0..rows).map(|value| Some(f64::from(value))).collect();
            assert_eq!(of_many(&many, 15, true).len() - 1, expected, "{rows} rows of 1 kB");
        }
    }
}

//! Files of queries and captures as users have them, opened and read back. The tests that measure the memory of their
//! process are programs of their own.

mod captures;
mod foreign;
mod forms;
mod open;
mod other_forms;

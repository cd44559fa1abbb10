//! The answers of small zones at the boundary of bytes: zone text and a query in, a reply out.

mod faults;
mod messages;
mod plain;
mod proof;
mod reference;
mod signed;
mod support;

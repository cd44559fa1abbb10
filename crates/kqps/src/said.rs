//! What is printed when nobody may be listening any more: the standard macros panic when the reader of a pipe has
//! gone, as in `kqps run 2>&1 | head`. These shadow them in the whole program.

use std::fmt::Arguments;
use std::io::{self, Write as _};

macro_rules! eprintln {
    ($($said:tt)*) => { $crate::said::to_stderr(format_args!($($said)*)) };
}

macro_rules! println {
    ($($said:tt)*) => { $crate::said::to_stdout(format_args!($($said)*)) };
}

/// Prints a line; where nobody reads it there is nobody to tell.
pub(crate) fn to_stderr(said: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{said}");
}

/// The same.
pub(crate) fn to_stdout(said: Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{said}");
}

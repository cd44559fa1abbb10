//! What is printed when nobody may be listening any more: the standard macros panic when the reader of a pipe has
//! gone, as in `kqps run 2>&1 | head`. These shadow them in the whole program; there is nobody to tell the error.

macro_rules! eprintln {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($said)*);
    }};
}

macro_rules! println {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($said)*);
    }};
}

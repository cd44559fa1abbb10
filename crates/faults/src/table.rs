//! Enumerations whose values are the rows of a table.

/// Defines an enumeration with the facts of each value beside it, a list of all values, and a function for the facts of one.
#[macro_export]
macro_rules! enumeration {
    (
        $(#[$about:meta])*
        $visible:vis enum $Name:ident: $Facts:ty {
            $($(#[$doc:meta])* $value:ident => $facts:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $visible enum $Name {
            $($(#[$doc])* $value,)*
        }

        impl $Name {
            /// All of them, in the order of the table.
            $visible const ALL: [Self; [$(stringify!($value)),*].len()] = [$(Self::$value),*];

            const fn facts(self) -> &'static $Facts {
                const FACTS: &[$Facts] = &[$($facts),*];
                &FACTS[self as usize]
            }
        }
    };
}

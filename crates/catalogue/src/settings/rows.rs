//! The macro that makes a struct of values from rows of settings.

/// Defines a struct with a field for each row, and the rows. A row is `field: Type = "name", kind, over, given by,
/// "meaning"`, and at last its flag, if it has one.
macro_rules! settings {
    (
        $(#[$about:meta])* $group:ident, $rows:ident;
        $($(#[$doc:meta])* $field:ident: $value:ty = $name:expr, $kind:expr, $over:ident, $given_by:ident, $meaning:literal
            $(, $flag:expr)?;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $group {
            $($(#[$doc])* pub $field: Option<$value>,)*
        }

        /// The rows of this group.
        pub(crate) const $rows: &[$crate::setting::Setting] = &[$($crate::setting::Setting {
            name: $name,
            meaning: $meaning,
            kind: $kind,
            over: $crate::setting::Over::$over,
            given_by: $crate::setting::GivenBy::$given_by,
            flag: settings!(@flag $($flag)?),
            read: $crate::setting::read_again::<$value>,
        }),*];

        impl $crate::setting::Group for $group {
            fn set(&mut self, name: &str, word: &str) -> Result<bool, String> {
                $(if name == $name {
                    self.$field = Some($crate::setting::value_of(word, &$kind)?);
                    return Ok(true);
                })*
                Ok(false)
            }

            fn words(&self) -> Vec<(&'static str, String)> {
                let words = [$(
                    self.$field.as_ref().map(|value| ($name, $crate::setting::Value::word(value, &$kind)))
                ),*];
                words.into_iter().flatten().collect()
            }
        }
    };
    (@flag) => { None };
    (@flag $flag:expr) => { Some($flag) };
}

pub(crate) use settings;

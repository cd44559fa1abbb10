//! A list with at least one item.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A list with at least one item, serialised as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NonEmpty<T> {
    /// The first item.
    pub first: T,
    /// All further items.
    pub others: Vec<T>,
}

impl<T> NonEmpty<T> {
    /// A list of one item.
    pub fn one(first: T) -> Self {
        Self { first, others: Vec::new() }
    }

    /// All items in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl<T: Serialize> Serialize for NonEmpty<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NonEmpty<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut items = Vec::<T>::deserialize(deserializer)?.into_iter();
        let first =
            items.next().ok_or_else(|| de::Error::custom("expected at least one item, found none"))?;
        Ok(Self { first, others: items.collect() })
    }
}

impl<T: JsonSchema> JsonSchema for NonEmpty<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NonEmptyOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<T>(), "minItems": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stored_as_a_list_and_an_empty_list_is_an_error() {
        let two = NonEmpty { first: 1, others: vec![2] };
        assert_eq!(serde_json::to_string(&two).unwrap(), "[1,2]");
        assert_eq!(serde_json::from_str::<NonEmpty<u8>>("[1,2]").unwrap(), two);
        assert_eq!(serde_json::from_str::<NonEmpty<u8>>("[1]").unwrap(), NonEmpty::one(1));
        let error = serde_json::from_str::<NonEmpty<u8>>("[]").unwrap_err().to_string();
        assert!(error.contains("at least one item"), "{error}");
    }
}

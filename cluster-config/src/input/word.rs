//! Reads words in quotes through readers that say what is allowed.

use std::fmt;

use serde::Deserializer;
use serde::de::Visitor;

/// Reads a string in quotes through `read`; `form` is what is allowed in place of any other value.
pub fn word<'de, D: Deserializer<'de>, T, E: AsRef<str>>(
    deserializer: D,
    form: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    // Through a visitor, whose errors get the place of the value, also in a list.
    struct Word<'f, F>(&'f str, F);
    impl<T, E: AsRef<str>, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for Word<'_, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}, in quotes", self.0)
        }

        fn visit_str<R: serde::de::Error>(self, word: &str) -> Result<T, R> {
            (self.1)(word).map_err(|allowed| R::custom(allowed.as_ref()))
        }
    }
    deserializer.deserialize_str(Word(form, read))
}

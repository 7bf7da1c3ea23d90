//! Choices that files and commands name by a word: each word stands once.

use crate::input::{nearest, one_of};

/// A choice among words.
pub(crate) trait Word: Copy + 'static {
    /// Every one, in the order in which they are listed to people.
    const LIST: &'static [Self];

    /// The word used in files and commands.
    fn word(self) -> &'static str;

    /// The choice of that name.
    ///
    /// # Errors
    /// What is allowed.
    fn of_word(word: &str) -> Result<Self, String> {
        let mut known = Self::LIST.iter().copied();
        let words = || Self::LIST.iter().map(|known| known.word());
        known
            .find(|known| known.word() == word)
            .ok_or_else(|| format!("{}{}", one_of(words()), nearest(word, words())))
    }
}

/// An enum whose variants have a word each, for files, plans, schemas and people alike.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
        )]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every one, in the order in which they are listed to people.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The word used in files and commands.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl crate::words::Word for $name {
            const LIST: &'static [$name] = &$name::ALL;

            fn word(self) -> &'static str {
                self.name()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let form = crate::input::one_of($name::ALL.map($name::name));
                crate::input::word(deserializer, &form, crate::words::Word::of_word)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                let known = crate::words::Word::of_word(word);
                known.map_err(|allowed| format!("allowed is {allowed}"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use words;

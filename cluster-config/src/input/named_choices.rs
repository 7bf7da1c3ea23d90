//! Choices that files and commands name by a word: each word stands once.

use super::{nearest, one_of};

/// The choice of that name, else what is allowed.
pub(crate) fn choice<T: Copy>(all: &[T], name: fn(T) -> &'static str, word: &str) -> Result<T, String> {
    let words = || all.iter().map(|known| name(*known));
    let found = all.iter().find(|known| name(**known) == word);
    found.copied().ok_or_else(|| format!("{}{}", one_of(words()), nearest(word, words())))
}

/// An enum whose variants have a word each, for files, plans, schemas and people alike.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
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

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::input::word(deserializer, &crate::input::one_of($name::ALL.map($name::name)), |word| {
                    crate::input::named_choices::choice(&$name::ALL, $name::name, word)
                })
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                let known = crate::input::named_choices::choice(&$name::ALL, $name::name, word);
                known.map_err(|allowed| format!("allowed is {allowed}"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use words;

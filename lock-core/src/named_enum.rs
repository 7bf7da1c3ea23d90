//! Enums whose variants have a name each, for logs, JSON and URLs.

macro_rules! named {
    ($(#[$about:meta])* pub enum $of:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        pub enum $of {
            $($(#[$doc])* $variant,)+
        }

        impl $of {
            /// Its name, the same over all versions.
            pub fn name(self) -> &'static str {
                match self {
                    $($of::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;

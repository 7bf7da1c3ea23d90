//! What each cycle of a workload asks for: one lock, a side of it, several at once, or a permit.

/// What each cycle asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum CycleShape {
    /// One lock, of the kind that the plan names, else of the subject's first.
    One,
    /// One lock to read, or, in this share of cycles (0 to 1), to write.
    Sides {
        /// The share that writes.
        writes: f64,
    },
    /// So many locks at once: all of them or none.
    Together(u32),
    /// One of so many permits.
    Permit {
        /// How many there are.
        of: u32,
    },
}

impl CycleShape {
    /// The locks that show it, where nobody names any; empty: those that everything is measured with.
    pub fn subjects(self) -> &'static [&'static str] {
        match self {
            CycleShape::One => &[],
            CycleShape::Sides { .. } => &["lock-core:read"],
            CycleShape::Together(_) => &["lock-core:multi"],
            CycleShape::Permit { .. } => &["lock-core:semaphore", "lock-core:permits"],
        }
    }

    /// Kinds of lock that can be asked so; empty: any.
    fn kinds(self) -> &'static [&'static str] {
        match self {
            CycleShape::One => &[],
            CycleShape::Sides { .. } => &["read", "write"],
            CycleShape::Together(_) => &["multi"],
            CycleShape::Permit { .. } => &["semaphore", "permits"],
        }
    }

    /// The kind to ask for, where somebody wishes for `wished` (empty: nobody) of a lock that offers
    /// `offered`, its own kind first (empty: it will say so only when it is connected).
    pub fn kind(self, wished: &str, offered: &[String]) -> Result<String, String> {
        let fit = self.kinds();
        let foreign = |kind: &str| !offered.is_empty() && !offered.iter().any(|own| own == kind);
        if !wished.is_empty() && foreign(wished) {
            crate::subjects::check_kind(wished)?;
            return Err(format!("it has no kind `{wished}`; it has {}", offered.join(", ")));
        }
        let (Some(usual), false) = (fit.first(), self == CycleShape::One) else {
            return Ok(wished.to_owned());
        };
        let own = offered.first().map_or(*usual, String::as_str);
        let kind = if wished.is_empty() { own } else { wished };
        if fit.contains(&kind) {
            return Ok(kind.to_owned());
        }
        Err(format!(
            "it is of the kind `{kind}`, and a lock of the kind {} is needed: {}",
            fit.join(" or "),
            self.subjects().join(", ")
        ))
    }

    /// How many holds of one lock may last at once; `None`: it depends on who holds.
    pub(crate) fn permits(self) -> Option<u32> {
        match self {
            CycleShape::Permit { of } => Some(of),
            _ => None,
        }
    }

    /// How many lock names are needed at least.
    pub fn fewest_locks(self) -> u32 {
        match self {
            CycleShape::Together(locks) => locks,
            _ => 1,
        }
    }

    pub(crate) fn words(self) -> Option<String> {
        match self {
            CycleShape::One => None,
            CycleShape::Sides { writes } => Some(format!("{:.0} % of the cycles write", 100.0 * writes)),
            CycleShape::Together(locks) => Some(format!("{locks} locks at once")),
            CycleShape::Permit { of } => Some(format!("{of} permits")),
        }
    }

    /// The kinds that cycles draw, by weight, where `kind` is the one to ask for.
    pub fn mix(self, kind: &str) -> Vec<(String, u32)> {
        const WHOLE: u32 = 1_000_000;
        match self {
            CycleShape::Sides { writes } => {
                let writes = (writes.clamp(0.0, 1.0) * f64::from(WHOLE)).round() as u32;
                let sides = [("read", WHOLE - writes), ("write", writes)];
                sides.map(|(side, weight)| (side.to_owned(), weight)).into()
            }
            _ => vec![(kind.to_owned(), 1)],
        }
    }
}

//! One load from many generators: which tasks run here, where generators meet, how far clocks are apart.

pub mod barrier;
pub mod clock;

use serde::{Deserialize, Serialize};

pub use barrier::{Barrier, BarrierError};

/// Which clients and tasks run here: those whose number, from 0, is `index` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorShare {
    /// The number of this generator, 0 to `of` − 1.
    pub index: u32,
    /// How many generators there are, 1 or more.
    pub of: u32,
}

impl GeneratorShare {
    /// Everything runs here.
    pub const WHOLE: GeneratorShare = GeneratorShare { index: 0, of: 1 };

    /// How many of `all` run here.
    pub fn count(self, all: u32) -> u32 {
        all.saturating_sub(self.index).div_ceil(self.of)
    }

    /// Whether what has this number, from 0, runs here.
    pub fn has(self, number: u32) -> bool {
        number % self.of == self.index
    }

    /// The number among all of what is the `own`-th here.
    pub fn number(self, own: u32) -> u32 {
        own * self.of + self.index
    }

    /// The names of the clients of `all` that run here, the first few.
    pub fn client_names(self, all: u32) -> String {
        const SHOWN: u32 = 4;
        let count = self.count(all);
        let name = |own: u32| format!("c{}", self.number(own) + 1);
        let mut names: Vec<String> = (0..count.min(SHOWN)).map(name).collect();
        if count > SHOWN {
            names.push(format!("… {} ({count} in all)", name(count - 1)));
        }
        format!("clients {}", names.join(", "))
    }
}

impl Default for GeneratorShare {
    fn default() -> Self {
        GeneratorShare::WHOLE
    }
}

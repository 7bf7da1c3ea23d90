//! A sweep over rising levels of load: where the curve bends. Measures by a function that it is given.
//!
//! | file | what it is for |
//! |---|---|
//! | [`curve`] | the rows of each subject, level by level |
//! | [`client_cost`] | what a client costs: time, connections, memory |
//! | `knee` | which rate to offer next, and where the curve bends |

pub mod client_cost;
pub mod curve;
mod knee;

/// Levels of a sweep: 1, 2, 5, 10, … up to and including `most`.
fn levels(most: u32) -> Vec<u32> {
    let mut levels: Vec<u32> = (0..)
        .map(|n| [1, 2, 5][n % 3] * 10_u32.saturating_pow(u32::try_from(n / 3).unwrap_or(9)))
        .take_while(|level| *level < most)
        .collect();
    levels.push(most.max(1));
    levels
}

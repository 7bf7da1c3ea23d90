//! A sweep over rising levels of load: where the curve bends. Decides what to measure; measures nothing.

pub mod knee;

/// Levels of a sweep: 1, 2, 5, 10, … up to and including `most`.
pub fn levels(most: u32) -> Vec<u32> {
    let mut levels: Vec<u32> = (0..)
        .map(|n| [1, 2, 5][n % 3] * 10_u32.saturating_pow(u32::try_from(n / 3).unwrap_or(9)))
        .take_while(|level| *level < most)
        .collect();
    levels.push(most.max(1));
    levels
}

#[cfg(test)]
mod tests {
    use super::levels;

    #[test]
    fn levels_rise_to_the_most() {
        assert_eq!(levels(1), [1]);
        assert_eq!(levels(100), [1, 2, 5, 10, 20, 50, 100]);
        assert_eq!(levels(64), [1, 2, 5, 10, 20, 50, 64]);
    }
}

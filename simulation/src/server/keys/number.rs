//! Numbers as a server reads and writes them.

/// What is written for a number in Lua or a score: 17 digits up to Redis 7.0, since then few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Digits {
    /// `%.17g`.
    All,
    /// The fewest that are read back as the same number.
    #[default]
    Fewest,
}

/// Beyond this a whole number is written as one that need not be whole.
const WHOLE: f64 = 4_503_599_627_370_496.0;

impl Digits {
    pub(crate) fn of(self, number: f64) -> String {
        if number.is_nan() {
            return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
        }
        if number.is_infinite() {
            return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
        }
        if number.fract() == 0.0 && number.abs() <= WHOLE {
            return (number as i64).to_string();
        }
        match self {
            Digits::All => all(number),
            Digits::Fewest => fewest(number),
        }
    }
}

fn all(number: f64) -> String {
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let short = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..17).contains(&exponent) {
        let places = usize::try_from(16 - exponent).unwrap_or(0);
        let plain = format!("{number:.places$}");
        return if places == 0 { plain } else { short(&plain) };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.abs())
}

fn fewest(number: f64) -> String {
    let scientific = format!("{:e}", number.abs());
    let (digits, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let count = i32::try_from(digits.replace('.', "").len()).expect("17 at most");
    // How many zeros follow the last digit, or stand before it below zero.
    let shift = exponent + 1 - count;
    let plain = shift >= 0 && exponent < count + 7;
    if plain || shift < 0 && (shift > -7 || exponent.abs() < 4) {
        return number.to_string();
    }
    let minus = if number < 0.0 { "-" } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{minus}{digits}e{sign}{}", exponent.abs())
}

/// A whole number, written in the one way that a server takes.
pub(crate) fn whole(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = matches!(digits, [b'0'] if text.len() == 1)
        || matches!(digits, [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit));
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A number that need not be whole.
pub(crate) fn real(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

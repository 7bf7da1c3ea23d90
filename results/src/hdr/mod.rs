//! Turns counted values into an HdrHistogram in its V2 form as base64, and back: a tenth of the size of the same counts as JSON, and
//! readable by HdrHistogram's libraries in every language. Of three significant digits for a whole run, of one for an interval of it.
//!
//! The form is that of HdrHistogram's own encoders, not compressed: a head of 40 bytes in big-endian order, then the counts from the
//! lowest bucket up, each as ZigZag LEB128, a run of empty buckets as its negative length.

pub mod compressed;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize as _, Deserializer, Serializer};

/// V2, with varints, not compressed.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const HEAD_BYTES: usize = 40;

/// How fine a histogram is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fineness {
    digits: u32,
    /// Half of the buckets that values of one magnitude share, as a power of two: 2,048 buckets keep three digits apart, 32 one.
    half_magnitude: u32,
}

const THREE_DIGITS: Fineness = Fineness {
    digits: 3,
    half_magnitude: 10,
};
const ONE_DIGIT: Fineness = Fineness {
    digits: 1,
    half_magnitude: 4,
};

fn encode(pairs: &[(u64, u64)], fineness: Fineness) -> String {
    STANDARD.encode(bytes(pairs, fineness))
}

/// Writes `(value, count)` pairs. Values are rounded up to the last of their bucket, as HdrHistogram states them.
fn bytes(pairs: &[(u64, u64)], fineness: Fineness) -> Vec<u8> {
    let mut counts: Vec<(u64, u64)> = pairs
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(value, count)| (fineness.index_of(*value), *count))
        .collect();
    counts.sort_unstable();
    let mut payload = Vec::new();
    let mut next = 0;
    let mut open: Option<(u64, u64)> = None;
    let mut put = |index: u64, count: u64| {
        if index > next {
            zigzag(
                &mut payload,
                -i64::try_from(index - next).unwrap_or(i64::MAX),
            );
        }
        zigzag(&mut payload, i64::try_from(count).unwrap_or(i64::MAX));
        next = index + 1;
    };
    for (index, count) in counts {
        open = match open {
            Some((last, sum)) if last == index => Some((last, sum.saturating_add(count))),
            Some((last, sum)) => {
                put(last, sum);
                Some((index, count))
            }
            None => Some((index, count)),
        };
    }
    if let Some((last, sum)) = open {
        put(last, sum);
    }
    let highest = pairs
        .iter()
        .map(|(value, _)| *value)
        .max()
        .unwrap_or(0)
        .max(2);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.extend(COOKIE.to_be_bytes());
    bytes.extend(
        u32::try_from(payload.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(fineness.digits.to_be_bytes());
    bytes.extend(1_u64.to_be_bytes());
    bytes.extend(fineness.last_of(fineness.index_of(highest)).to_be_bytes());
    bytes.extend(1.0_f64.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads what [`encode`] wrote. Histograms of other digits or units are refused, not guessed at.
fn decode(text: &str, fineness: Fineness) -> Result<Vec<(u64, u64)>, String> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| format!("not base64: {error}"))?;
    pairs(&bytes, fineness)
}

/// The same, without its base64.
fn pairs(bytes: &[u8], fineness: Fineness) -> Result<Vec<(u64, u64)>, String> {
    let word = |at: usize| -> Option<u32> {
        let four = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(four.try_into().ok()?))
    };
    let head = (word(0), word(4), word(8), word(12), word(16), word(20));
    let (Some(cookie), Some(length), Some(offset), Some(digits), Some(0), Some(1)) = head else {
        return Err("not an HdrHistogram with a unit of 1".to_owned());
    };
    if cookie | 0xf0 != COOKIE | 0xf0 || offset != 0 || digits != fineness.digits {
        return Err(format!(
            "not an HdrHistogram V2 with {} for its digits, uncompressed",
            fineness.digits
        ));
    }
    let payload = bytes.get(HEAD_BYTES..).unwrap_or_default();
    if payload.len() != length as usize {
        return Err(format!(
            "an HdrHistogram of {length} bytes, of which {} are here",
            payload.len()
        ));
    }
    let mut pairs = Vec::new();
    let mut at = 0;
    let mut index = 0_u64;
    while at < payload.len() {
        let value = unzigzag(payload, &mut at).ok_or("an HdrHistogram with a torn count")?;
        if value < 0 {
            index = index.saturating_add(value.unsigned_abs());
        } else {
            if value > 0 {
                pairs.push((fineness.last_of(index), value.unsigned_abs()));
            }
            index += 1;
        }
        if index > fineness.index_max() {
            return Err("an HdrHistogram with more buckets than there are values".to_owned());
        }
    }
    Ok(pairs)
}

impl Fineness {
    /// So many significant digits.
    fn of(digits: u32) -> Result<Self, String> {
        let half_magnitude = match digits {
            1 => 4,
            2 => 7,
            3 => 10,
            4 => 14,
            5 => 17,
            _ => {
                return Err(format!(
                    "an HdrHistogram of {digits} digits; they have 1 to 5"
                ));
            }
        };
        Ok(Fineness {
            digits,
            half_magnitude,
        })
    }

    /// No index is larger, with 64 bits of value.
    fn index_max(self) -> u64 {
        u64::from(64 - self.half_magnitude + 1) << self.half_magnitude
    }

    fn half(self) -> u64 {
        1 << self.half_magnitude
    }

    fn index_of(self, value: u64) -> u64 {
        let magnitude = 64 - (value | (2 * self.half() - 1)).leading_zeros();
        let bucket = u64::from(magnitude - self.half_magnitude - 1);
        ((bucket + 1) << self.half_magnitude) + (value >> bucket) - self.half()
    }

    /// The largest value of a bucket.
    fn last_of(self, index: u64) -> u64 {
        let (bucket, within) = match (index >> self.half_magnitude, index & (self.half() - 1)) {
            (0, within) => (0, within),
            (bucket, within) => (bucket - 1, within + self.half()),
        };
        let bucket = bucket.min(63);
        let first = u128::from(within) << bucket;
        u64::try_from(first + (1_u128 << bucket) - 1).unwrap_or(u64::MAX)
    }
}

/// Seven bits at a time, the lowest first; the ninth byte holds eight.
fn zigzag(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            out.push(rest as u8);
            return;
        }
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn unzigzag(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value = 0_u64;
    for part in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if part == 8 {
            value |= u64::from(byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * part);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// For serde: nothing as an empty text.
pub(crate) fn serialize<S: Serializer>(
    pairs: &[(u64, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if pairs.is_empty() {
        return serializer.serialize_str("");
    }
    serializer.serialize_str(&encode(pairs, THREE_DIGITS))
}

/// For serde: runs that were kept before hold the pairs themselves.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(u64, u64)>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(
        untagged,
        expecting = "neither an HdrHistogram in base64 nor pairs of value and count"
    )]
    enum Kept {
        Text(String),
        Pairs(Vec<(u64, u64)>),
    }
    match Kept::deserialize(deserializer)? {
        Kept::Pairs(pairs) => Ok(pairs),
        Kept::Text(text) if text.is_empty() => Ok(Vec::new()),
        Kept::Text(text) => decode(&text, THREE_DIGITS).map_err(serde::de::Error::custom),
    }
}

/// The same for lists of small histograms, of one digit.
pub(crate) mod coarse {
    use std::collections::BTreeMap;

    use serde::ser::SerializeSeq as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::{ONE_DIGIT, decode, encode};

    /// Makes of pairs what they are when they come back from a file: one per bucket, in order.
    pub(crate) fn round(pairs: &mut Vec<(u64, u64)>) {
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        for (value, count) in pairs.drain(..) {
            let bucket = buckets.entry(ONE_DIGIT.last_of(ONE_DIGIT.index_of(value)));
            let sum = bucket.or_default();
            *sum = sum.saturating_add(count);
        }
        pairs.extend(buckets);
    }

    pub(crate) fn serialize<S: Serializer>(
        all: &[Vec<(u64, u64)>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(all.len()))?;
        for pairs in all {
            if pairs.is_empty() {
                list.serialize_element("")?;
            } else {
                list.serialize_element(&encode(pairs, ONE_DIGIT))?;
            }
        }
        list.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<(u64, u64)>>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let read = |text: String| {
            if text.is_empty() {
                return Ok(Vec::new());
            }
            decode(&text, ONE_DIGIT).map_err(serde::de::Error::custom)
        };
        texts.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_hdr_histogram() {
        for (value, last) in [
            (0, 0),
            (1, 1),
            (2_047, 2_047),
            (2_048, 2_049),
            (10_000, 10_007),
            (170_800, 170_879),
            (u64::MAX, u64::MAX),
        ] {
            let of = THREE_DIGITS;
            assert_eq!(of.last_of(of.index_of(value)), last, "{value}");
        }
        for (value, last) in [(31, 31), (32, 33), (1_000, 1_023), (u64::MAX, u64::MAX)] {
            assert_eq!(
                ONE_DIGIT.last_of(ONE_DIGIT.index_of(value)),
                last,
                "{value}"
            );
        }
    }

    #[test]
    fn the_head_is_what_other_readers_look_for() {
        let bytes = STANDARD
            .decode(encode(&[(5, 2)], THREE_DIGITS))
            .expect("base64");
        assert_eq!(bytes[..4], [0x1c, 0x84, 0x93, 0x13]);
        assert_eq!(
            bytes[HEAD_BYTES..],
            [9, 4],
            "five empty buckets, then two counts"
        );
    }

    #[test]
    fn damaged_text_is_an_error() {
        let good = encode(&[(5, 2), (900, 1)], THREE_DIGITS);
        for bad in ["!", "AAAA", &good[..good.len() - 4]] {
            assert!(decode(bad, THREE_DIGITS).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn counts_come_back_and_values_within_a_thousandth(
            pairs in proptest::collection::btree_map(0..1_u64 << 50, 1..1_u64 << 40, 0..50)
        ) {
            let pairs: Vec<(u64, u64)> = pairs.into_iter().collect();
            let back = decode(&encode(&pairs, THREE_DIGITS), THREE_DIGITS).expect("good");
            let sum = |pairs: &[(u64, u64)]| pairs.iter().map(|(_, count)| *count).sum::<u64>();
            proptest::prop_assert_eq!(sum(&pairs), sum(&back));
            for (value, _) in &pairs {
                let near = back.iter().any(|(other, _)| other >= value && other - value <= value / 1_000);
                proptest::prop_assert!(near, "{}", value);
            }
            proptest::prop_assert_eq!(decode(&encode(&back, THREE_DIGITS), THREE_DIGITS).expect("good"), back);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9+/=]{0,120}") {
            let _ = decode(&text, THREE_DIGITS);
            let _ = decode(&text, ONE_DIGIT);
        }
    }
}

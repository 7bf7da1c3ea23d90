//! The same histograms as other programs hand them over: V2, compressed by zlib, as base64; of any number of digits when read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{COOKIE, Fineness, THREE_DIGITS};

/// V2, compressed.
const COMPRESSED: u32 = 0x1c84_9304 | 0x10;
/// No histogram of nanoseconds needs more, and no foreign program may make us use more.
const MOST_BYTES: usize = 8 << 20;

/// Writes `(value, count)` pairs with three digits; no pairs are an empty histogram.
#[must_use]
pub fn encode(pairs: &[(u64, u64)]) -> String {
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&super::bytes(pairs, THREE_DIGITS), 6);
    let mut bytes = COMPRESSED.to_be_bytes().to_vec();
    bytes.extend(
        u32::try_from(packed.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    bytes.extend(packed);
    STANDARD.encode(bytes)
}

/// Reads `(value, count)` pairs, the lowest value first; also of a histogram that is not compressed.
///
/// # Errors
/// What is wrong with it: not base64, not V2, torn, or of values with another unit or an offset.
pub fn decode(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| format!("not base64: {error}"))?;
    let cookie = bytes
        .get(..4)
        .map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
    let plain = match cookie {
        // The digit that says how large counts are is no business of a form where they have no fixed size.
        Some(cookie) if cookie | 0xf0 == COMPRESSED | 0xf0 => {
            let packed = bytes.get(8..).unwrap_or_default();
            miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, MOST_BYTES)
                .map_err(|error| format!("an HdrHistogram that zlib cannot read: {error}"))?
        }
        Some(cookie) if cookie | 0xf0 == COOKIE | 0xf0 => bytes,
        _ => return Err("not an HdrHistogram V2".to_owned()),
    };
    let digits = plain.get(12..16).map_or(0, |four| four[3]);
    let fineness = Fineness::of(u32::from(digits))?;
    super::pairs(&plain, fineness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        for pairs in [vec![], vec![(5, 2), (1_000, 1), (1_999, 9)]] {
            assert_eq!(decode(&encode(&pairs)), Ok(pairs));
        }
    }

    // Each holds 1, 1000, and 1000000 twice, with three digits, as the library that is named writes it.
    #[test]
    fn what_other_programs_write_is_read() {
        let text = include_str!("../../tests/hdr/foreign.txt");
        for line in text.lines() {
            let (name, text) = line.split_once(' ').expect("a name and a histogram");
            let pairs = decode(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let counts: Vec<u64> = pairs.iter().map(|(_, count)| *count).collect();
            assert_eq!(counts, [1, 1, 2], "{name}: {pairs:?}");
            assert!(pairs[2].0.abs_diff(1_000_000) <= 1_000, "{name}: {pairs:?}");
        }
    }

    #[test]
    fn damage_is_an_error() {
        let good = encode(&[(5, 2), (900, 1)]);
        for bad in ["!", "AAAA", "", &good[..good.len() - 8]] {
            decode(bad).unwrap_err();
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let mut all = COOKIE.to_be_bytes().to_vec();
            all.extend(bytes);
            let _ = decode(&STANDARD.encode(all));
        }
    }
}

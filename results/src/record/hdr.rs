//! Counted values as an HdrHistogram in its V2 form, in base64: a tenth of the size of the same counts as
//! JSON, and readable by HdrHistogram's libraries in every language. Drivers hand it over compressed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use serde::Deserialize as _;

/// Of a whole run.
const DIGITS: u8 = 3;
/// Of an interval of a run.
const COARSE_DIGITS: u8 = 1;
/// A driver's histogram is of nanoseconds: none needs more, and none may make us use more.
const MOST_BYTES: usize = 1 << 20;
/// No histogram holds a larger value.
const MOST: u64 = i64::MAX as u64;

fn histogram(pairs: &[(u64, u64)], digits: u8) -> Result<Histogram<u64>, String> {
    let highest = pairs.iter().map(|(value, _)| *value).max().unwrap_or(0).clamp(2, MOST);
    let mut histogram = Histogram::new_with_bounds(1, highest, digits).map_err(|error| error.to_string())?;
    for (value, count) in pairs {
        histogram.saturating_record_n((*value).min(MOST), *count);
    }
    Ok(histogram)
}

/// The pairs of a histogram, the lowest value first; each value is the last of its bucket.
fn pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
}

fn encode(pairs: &[(u64, u64)], digits: u8, mut form: impl Serializer) -> Result<String, String> {
    let mut bytes = Vec::new();
    form.serialize(&histogram(pairs, digits)?, &mut bytes).map_err(|error| format!("{error:?}"))?;
    Ok(STANDARD.encode(bytes))
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))?;
    if bytes.len() > MOST_BYTES {
        return Err(format!("an HdrHistogram of more than {MOST_BYTES} bytes"));
    }
    let read = Deserializer::new().deserialize(&mut bytes.as_slice());
    read.map_err(|error| format!("not an HdrHistogram V2: {error}"))
}

/// Writes `(value, count)` pairs as a driver hands them over, with three digits; of none an empty histogram.
#[must_use]
pub fn encode_compressed(pairs: &[(u64, u64)]) -> String {
    // Writing to memory cannot fail, and the bounds are made to fit.
    encode(pairs, DIGITS, V2DeflateSerializer::new()).unwrap_or_default()
}

/// Reads what a driver handed over, compressed or not, of any number of digits.
pub fn decode_any(text: &str) -> Result<Vec<(u64, u64)>, String> {
    decode(text).map(|histogram| pairs(&histogram))
}

/// For serde: nothing as an empty text.
fn text<S: serde::Serializer>(of: &[(u64, u64)], digits: u8) -> Result<String, S::Error> {
    if of.is_empty() {
        return Ok(String::new());
    }
    encode(of, digits, V2Serializer::new()).map_err(serde::ser::Error::custom)
}

fn of_text<'de, D: serde::Deserializer<'de>>(text: &str) -> Result<Vec<(u64, u64)>, D::Error> {
    if text.is_empty() { Ok(Vec::new()) } else { decode_any(text).map_err(serde::de::Error::custom) }
}

pub(crate) fn serialize<S: serde::Serializer>(
    pairs: &[(u64, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text::<S>(pairs, DIGITS)?)
}

/// For serde: runs that were kept before hold the pairs themselves.
pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(u64, u64)>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "neither an HdrHistogram in base64 nor pairs of value and count")]
    enum StoredHistogram {
        Text(String),
        Pairs(Vec<(u64, u64)>),
    }
    match StoredHistogram::deserialize(deserializer)? {
        StoredHistogram::Pairs(pairs) => Ok(pairs),
        StoredHistogram::Text(text) => of_text::<D>(&text),
    }
}

/// The same for lists of small histograms, of one digit.
pub(crate) mod coarse {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::COARSE_DIGITS;

    /// Makes of pairs what they are when they come back from a file: one per bucket, in order.
    pub(crate) fn round(pairs: &mut Vec<(u64, u64)>) {
        if let Ok(histogram) = super::histogram(pairs, COARSE_DIGITS) {
            *pairs = super::pairs(&histogram);
        }
    }

    pub(crate) fn serialize<S: Serializer>(
        all: &[Vec<(u64, u64)>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let texts = all.iter().map(|pairs| super::text::<S>(pairs, COARSE_DIGITS));
        serializer.collect_seq(texts.collect::<Result<Vec<_>, _>>()?)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<(u64, u64)>>, D::Error> {
        Vec::<String>::deserialize(deserializer)?.iter().map(|text| super::of_text::<D>(text)).collect()
    }
}

//! Histograms as text, as drivers hand them over and as `run.json` keeps them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use results::hdr::{decode_any, encode_compressed};

/// What another program writes without compression.
fn plain(pairs: &[(u64, u64)]) -> String {
    let highest = pairs.iter().map(|(value, _)| *value).max().unwrap_or(0).max(2);
    let mut histogram = Histogram::<u64>::new_with_bounds(1, highest, 3).expect("good bounds");
    for (value, count) in pairs {
        histogram.record_n(*value, *count).expect("a value within the bounds");
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).expect("good pairs");
    STANDARD.encode(bytes)
}

#[test]
fn damage_is_an_error() {
    let good = plain(&[(5, 2), (900, 1)]);
    let packed = encode_compressed(&[(5, 2), (900, 1)]);
    for bad in ["!", "AAAA", &good[..good.len() - 8], &packed[..packed.len() - 8]] {
        assert!(decode_any(bad).is_err(), "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn counts_come_back_and_values_within_a_thousandth(
        pairs in proptest::collection::btree_map(0..1_u64 << 50, 1..1_u64 << 40, 0..50)
    ) {
        let pairs: Vec<(u64, u64)> = pairs.into_iter().collect();
        let back = decode_any(&plain(&pairs)).expect("good");
        let sum = |pairs: &[(u64, u64)]| pairs.iter().map(|(_, count)| *count).sum::<u64>();
        proptest::prop_assert_eq!(sum(&pairs), sum(&back));
        for (value, _) in &pairs {
            let near = back.iter().any(|(other, _)| other >= value && other - value <= value / 1_000);
            proptest::prop_assert!(near, "{}", value);
        }
        proptest::prop_assert_eq!(&decode_any(&plain(&back)).expect("good"), &back);
        proptest::prop_assert_eq!(decode_any(&encode_compressed(&pairs)).expect("good"), back);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut all = STANDARD.decode(plain(&[(5, 2)])).expect("base64")[..4].to_vec();
        all.extend(bytes);
        let _ = decode_any(&STANDARD.encode(all));
    }
}

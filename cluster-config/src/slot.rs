//! The cluster slot of a key, and a probe key in the slot of a lock's name.

use std::ops::Range;

/// Slot of a key, 0 to 16,383: CRC16 (XMODEM) of its hash tag, as the Redis Cluster specification has it.
pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
    let key = key.as_ref();
    crc16(&key[tag(key)]) % 16384
}

/// The part of a key that is hashed: what stands between the first `{` and the next `}`, unless that is
/// empty.
fn tag(key: &[u8]) -> Range<usize> {
    let from = key.iter().position(|byte| *byte == b'{').map_or(0, |open| open + 1);
    match key[from..].iter().position(|byte| *byte == b'}') {
        Some(length) if from > 0 && length > 0 => from..from + length,
        _ => 0..key.len(),
    }
}

/// A key of the harness's own in the slot of `lock`; it begins with `prefix`, in which there is no brace.
pub(crate) fn probe_key(prefix: &str, lock: &str) -> String {
    let key = format!("{prefix}probe:{{{}}}", &lock[tag(lock.as_bytes())]);
    if slot_of(&key) == slot_of(lock) {
        return key;
    }
    // A name with a brace of its own cannot serve as a tag; about one number in 16,384 hits its slot as well.
    let wanted = slot_of(lock);
    (0_u32..)
        .map(|number| format!("{prefix}probe:{number}"))
        .find(|key| slot_of(key) == wanted)
        .unwrap_or(key)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc, byte| {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_agree_with_the_cluster_specification() {
        // The specification's own check value, and the slot that redis-cli prints for "foo".
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{foo}bar"), 12182);
        assert_eq!(slot_of("{}foo"), crc16(b"{}foo") % 16384);
    }

    #[test]
    fn a_probe_key_lies_in_the_slot_of_its_lock_whatever_braces_that_has() {
        for lock in ["orders", "a{b}c", "{}x", "a}b", "a{b", "", "}{", "{{x}}"] {
            assert_eq!(slot_of(probe_key("locklab:", lock)), slot_of(lock), "{lock:?}");
        }
    }
}

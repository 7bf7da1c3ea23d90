//! The cluster slot of a key.

pub(crate) const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM, one entry per byte: polynomial 0x1021, start 0, nothing reflected.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The cluster slot of a key, 0 to 16,383, hash tags respected.
///
/// If the key has a `{` and a `}` after it with something between, only what lies between the first `{` and
/// the first `}` after it counts (Redis cluster specification).
pub fn slot(key: &[u8]) -> u16 {
    let hashed = hash_tag(key).unwrap_or(key);
    let crc =
        hashed.iter().fold(0_u16, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inside = &key[open + 1..];
    let length = inside.iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &inside[..length])
}

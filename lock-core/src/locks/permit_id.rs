//! What names a permit.

use std::{fmt, str::FromStr};

/// What names one permit: 16 bytes at the server, 32 hex digits anywhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(pub(crate) [u8; 16]);

impl PermitId {
    pub(crate) fn read_all(ids: &str) -> Vec<Self> {
        let digits = ids.as_bytes().chunks_exact(32);
        let texts = digits.filter_map(|digits| std::str::from_utf8(digits).ok());
        texts.filter_map(|text| text.parse().ok()).collect()
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl FromStr for PermitId {
    type Err = UnknownPermitId;

    fn from_str(text: &str) -> Result<Self, UnknownPermitId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        let number = number.ok_or_else(|| UnknownPermitId { text: text.to_owned() })?;
        Ok(PermitId(number.to_be_bytes()))
    }
}

/// Words that are no [`PermitId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no id of a permit; one has 32 hex digits")]
pub struct UnknownPermitId {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_shown() {
        let id = PermitId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        let shown = "000102030405060708090a0b0c0d0eff";
        assert_eq!(id.to_string(), shown);
        assert_eq!(shown.parse(), Ok(id));
        assert_eq!(PermitId::read_all(&shown.repeat(3)), [id; 3]);
        for wrong in ["", "0", "+00102030405060708090a0b0c0d0eff", "g0"] {
            assert!(wrong.parse::<PermitId>().is_err(), "{wrong}");
        }
    }
}

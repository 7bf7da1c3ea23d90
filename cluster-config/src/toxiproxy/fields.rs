//! Turns a JSON tree into the fields of a Go struct, as Go's decoder does, with its words for what does not fit.
//!
//! Names are the same in upper and lower case, `null` leaves a field as it is, unknown members are passed over, of several
//! the last counts, and the first mismatch is told after everything else has been read.

use super::syntax::Json;

/// A struct being filled. `name` is what Go calls it in messages about its fields.
pub(super) struct Fields<'j> {
    name: &'static str,
    prefix: &'static str,
    members: &'j [(String, Json)],
    /// The first mismatch, and where it stands among the members.
    problem: Option<(usize, String)>,
}

impl<'j> Fields<'j> {
    /// # Errors
    /// The value is no object; `whole` is what Go calls the type of the whole.
    pub(super) fn of(value: &'j Json, name: &'static str, whole: &str) -> Result<Self, String> {
        let members = match value {
            Json::Object(members) => members.as_slice(),
            Json::Null => &[],
            other => {
                let kind = other.kind();
                return Err(format!(
                    "json: cannot unmarshal {kind} into Go value of type {whole}"
                ));
            }
        };
        Ok(Fields::at(members, name, ""))
    }

    /// A struct inside another, whose path is `prefix`.
    pub(super) fn at(
        members: &'j [(String, Json)],
        name: &'static str,
        prefix: &'static str,
    ) -> Self {
        Fields {
            name,
            prefix,
            members,
            problem: None,
        }
    }

    fn all(&self, field: &str) -> Vec<(usize, &'j Json)> {
        let named = |(_, (key, _)): &(usize, &(String, Json))| key.eq_ignore_ascii_case(field);
        self.members
            .iter()
            .enumerate()
            .filter(named)
            .map(|(place, (_, value))| (place, value))
            .filter(|(_, value)| **value != Json::Null)
            .collect()
    }

    fn mismatch(&mut self, place: usize, found: &str, field: &str, wanted: &str) {
        if self
            .problem
            .as_ref()
            .is_none_or(|(first, _)| place < *first)
        {
            let (name, prefix) = (self.name, self.prefix);
            let message = format!(
                "json: cannot unmarshal {found} into Go struct field {name}.{prefix}{field} of type {wanted}"
            );
            self.problem = Some((place, message));
        }
    }

    pub(super) fn text(&mut self, field: &'static str, path: &str, into: &mut String) {
        for (place, value) in self.all(field) {
            match value {
                Json::Text(text) => *into = text.clone(),
                other => self.mismatch(place, other.kind(), path, "string"),
            }
        }
    }

    pub(super) fn truth(&mut self, field: &'static str, into: &mut bool) {
        for (place, value) in self.all(field) {
            match value {
                Json::Bool(truth) => *into = *truth,
                other => self.mismatch(place, other.kind(), field, "bool"),
            }
        }
    }

    pub(super) fn whole(&mut self, field: &'static str, wanted: &'static str, into: &mut i64) {
        for (place, value) in self.all(field) {
            match value {
                Json::Number(number) => match number.parse() {
                    Ok(number) => *into = number,
                    Err(_) => self.mismatch(place, &format!("number {number}"), field, wanted),
                },
                other => self.mismatch(place, other.kind(), field, wanted),
            }
        }
    }

    pub(super) fn fraction(&mut self, field: &'static str, into: &mut f32) {
        for (place, value) in self.all(field) {
            match value {
                Json::Number(number) => match number.parse::<f32>() {
                    Ok(number) if number.is_finite() => *into = number,
                    _ => self.mismatch(place, &format!("number {number}"), field, "float32"),
                },
                other => self.mismatch(place, other.kind(), field, "float32"),
            }
        }
    }

    /// The last object under this name; `wanted` is what Go calls the type that it goes into.
    pub(super) fn inner(&mut self, field: &'static str, wanted: &str) -> &'j [(String, Json)] {
        let mut found: &[(String, Json)] = &[];
        for (place, value) in self.all(field) {
            match value {
                Json::Object(members) => found = members,
                other => self.mismatch(place, other.kind(), field, wanted),
            }
        }
        found
    }

    /// # Errors
    /// The first mismatch.
    pub(super) fn done(self) -> Result<(), String> {
        self.problem.map_or(Ok(()), |(_, message)| Err(message))
    }
}

/// A `float32` as Go's encoder writes it: the shortest digits, with an exponent where it is tiny or huge.
pub(super) fn float(value: f32) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-6..1e21).contains(&size) {
        let written = format!("{value:e}");
        return match written.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                format!("{digits}e+{exponent}")
            }
            _ => written,
        };
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toxiproxy::syntax::first_value;

    #[test]
    fn the_first_mismatch_is_told_and_the_rest_is_taken() {
        let value =
            first_value(br#"{"NAME":"a","enabled":5,"listen":7,"name":"b","upstream":null}"#)
                .unwrap();
        let mut fields = Fields::of(&value, "Proxy", "toxiproxy.Proxy").unwrap();
        let (mut name, mut listen, mut upstream, mut enabled) =
            (String::new(), String::new(), "kept".to_owned(), true);
        fields.text("name", "name", &mut name);
        fields.text("listen", "listen", &mut listen);
        fields.text("upstream", "upstream", &mut upstream);
        fields.truth("enabled", &mut enabled);
        assert_eq!(
            fields.done(),
            Err(
                "json: cannot unmarshal number into Go struct field Proxy.enabled of type bool"
                    .into()
            )
        );
        assert_eq!(
            (name.as_str(), upstream.as_str(), enabled),
            ("b", "kept", true)
        );
    }

    #[test]
    fn fractions_are_written_as_the_original_does() {
        for (value, written) in [
            (1.0, "1"),
            (0.25, "0.25"),
            (0.1, "0.1"),
            (7.0, "7"),
            (1e-9, "1e-9"),
            (1e21, "1e+21"),
            (0.0, "0"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(float(value), written);
        }
    }
}

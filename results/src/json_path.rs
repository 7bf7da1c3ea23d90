//! Turns a place in a JSON text (line and column) into the name of the field there, such as `scenarios[0].seed`.

/// The path of the value that begins at, or holds, the place just before `line` and `column` (both from 1, as `serde_json`
/// counts them: columns in bytes). Works on broken text as far as it goes; empty at the top level.
///
/// With `whole`, the object that ends at the place is meant and not its last field: a missing field is noticed there.
pub(crate) fn field_at(text: &str, line: usize, column: usize, whole: bool) -> String {
    let end = offset(text, line, column);
    let mut stack: Vec<Step> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < end {
        match bytes[at] {
            b'{' => stack.push(Step::Key(String::new())),
            b'[' => stack.push(Step::Index(0)),
            // The closing of the value that is complained about still belongs to it.
            b'}' | b']' if at + 1 < end => {
                stack.pop();
            }
            b',' if at + 1 < end => {
                if let Some(Step::Index(index)) = stack.last_mut() {
                    *index += 1;
                }
            }
            b'"' => {
                let close = string_end(bytes, at);
                let colon = bytes[close.min(bytes.len())..]
                    .iter()
                    .find(|byte| !byte.is_ascii_whitespace());
                if colon == Some(&b':')
                    && let Some(Step::Key(key)) = stack.last_mut()
                {
                    *key = text.get(at + 1..close - 1).unwrap_or_default().to_owned();
                }
                at = close;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    if whole && let Some(Step::Key(key)) = stack.last_mut() {
        key.clear();
    }
    let mut path = String::new();
    for step in stack {
        match step {
            Step::Key(key) if key.is_empty() => {}
            Step::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&key);
            }
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

enum Step {
    Key(String),
    Index(usize),
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    (before + column).min(text.len())
}

/// The place after the closing quote of the string that opens at `open`.
fn string_end(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    fn field_of_error(text: &str) -> String {
        let error = serde_json::from_str::<Run>(text).expect_err("the text is wrong");
        field_at(
            text,
            error.line(),
            error.column(),
            error.to_string().starts_with("missing"),
        )
    }

    #[test]
    fn names_the_field_with_a_wrong_value() {
        assert_eq!(field_of_error("{\"schema\":\"one\"}"), "schema");
        assert_eq!(
            field_of_error(
                "{\"schema\":1,\n \"run\":\"r\",\"command\":\"x\",\n \"meta\":{\"seed\": true}}"
            ),
            "meta.seed"
        );
        assert_eq!(
            field_of_error("{\"warnings\":[\"a\",\"b\",3]}"),
            "warnings[2]",
            "entries of lists count from 0"
        );
    }

    #[test]
    fn a_missing_field_is_named_by_its_parent() {
        assert_eq!(
            field_of_error("{\"schema\":1,\"meta\":{\"seed\":1}}"),
            "meta"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_place_in_any_text_has_an_answer(text in "[{}\\[\\]:,\"\\\\a\n é]{0,60}", line in 0_usize..9, column in 0_usize..90) {
            let _ = field_at(&text, line, column, text.len() % 2 == 0);
        }
    }
}

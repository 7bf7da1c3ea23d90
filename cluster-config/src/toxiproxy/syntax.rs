//! Turns the first JSON value of a body into a tree, and what is wrong with it into the words of Go's decoder.
//!
//! Clients of Toxiproxy show these texts to people and compare them in tests, so they are the original's. Source:
//! the scanner of Go's package encoding/json. What follows the first value is not looked at, as there.

/// A JSON value. Objects keep their order and their repetitions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// What Go calls this kind of value.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "bool",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::List(_) => "array",
            Json::Object(_) => "object",
        }
    }
}

/// Nothing that this API understands is deeper than five. The original's own bound is 10,000.
const DEEPEST: usize = 128;

/// Reads the first value of `body`.
///
/// # Errors
/// What Go's decoder says.
pub(super) fn first_value(body: &[u8]) -> Result<Json, String> {
    let mut reader = Reader { rest: body };
    reader.blanks();
    if reader.rest.is_empty() {
        return Err("EOF".to_owned());
    }
    check(body)?;
    reader.value()
}

/// Checks the whole value's form first, without recursion: how deep a stranger nests must not decide over our stack.
fn check(body: &[u8]) -> Result<(), String> {
    let mut deep = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                deep += 1;
                if deep > DEEPEST {
                    return Err("exceeded max depth".to_owned());
                }
            }
            b']' | b'}' if !quoted => {
                deep = deep.saturating_sub(1);
                if deep == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn peek(&self) -> Result<u8, String> {
        self.rest
            .first()
            .copied()
            .ok_or_else(|| "unexpected EOF".to_owned())
    }

    fn take(&mut self) -> Result<u8, String> {
        let byte = self.peek()?;
        self.rest = &self.rest[1..];
        Ok(byte)
    }

    fn wrong<T>(byte: u8, context: &str) -> Result<T, String> {
        Err(format!("invalid character {} {context}", quoted(byte)))
    }

    fn value(&mut self) -> Result<Json, String> {
        self.blanks();
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.list(),
            b'"' => self.text().map(Json::Text),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true", Json::Bool(true)),
            b'f' => self.literal("false", Json::Bool(false)),
            b'n' => self.literal("null", Json::Null),
            other => Self::wrong(other, "looking for beginning of value"),
        }
    }

    fn literal(&mut self, word: &str, value: Json) -> Result<Json, String> {
        for expected in word.bytes() {
            let byte = self.take()?;
            if byte != expected {
                let context = format!("in literal {word} (expecting {})", quoted(expected));
                return Self::wrong(byte, &context);
            }
        }
        Ok(value)
    }

    fn object(&mut self) -> Result<Json, String> {
        self.take()?;
        let mut members = Vec::new();
        loop {
            self.blanks();
            match self.peek()? {
                b'}' if members.is_empty() => break,
                b'"' => {}
                other => return Self::wrong(other, "looking for beginning of object key string"),
            }
            let key = self.text()?;
            self.blanks();
            match self.take()? {
                b':' => {}
                other => return Self::wrong(other, "after object key"),
            }
            members.push((key, self.value()?));
            self.blanks();
            match self.peek()? {
                b',' => self.rest = &self.rest[1..],
                b'}' => break,
                other => return Self::wrong(other, "after object key:value pair"),
            }
        }
        self.take()?;
        Ok(Json::Object(members))
    }

    fn list(&mut self) -> Result<Json, String> {
        self.take()?;
        let mut elements = Vec::new();
        self.blanks();
        if self.peek()? != b']' {
            loop {
                elements.push(self.value()?);
                self.blanks();
                match self.peek()? {
                    b',' => self.rest = &self.rest[1..],
                    b']' => break,
                    other => return Self::wrong(other, "after array element"),
                }
            }
        }
        self.take()?;
        Ok(Json::List(elements))
    }

    fn text(&mut self) -> Result<String, String> {
        self.take()?;
        let mut text = Vec::new();
        loop {
            match self.take()? {
                b'"' => break,
                b'\\' => self.escape(&mut text)?,
                control @ 0..0x20 => return Self::wrong(control, "in string literal"),
                byte => text.push(byte),
            }
        }
        // Go replaces what is no UTF-8 as well.
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let byte = match self.take()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut unit = u32::from(self.hex()?);
                if (0xD800..0xDC00).contains(&unit) && self.rest.starts_with(b"\\u") {
                    let before = self.rest;
                    self.rest = &self.rest[2..];
                    let low = u32::from(self.hex()?);
                    if (0xDC00..0xE000).contains(&low) {
                        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    } else {
                        self.rest = before;
                    }
                }
                let letter = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            other => return Self::wrong(other, "in string escape code"),
        };
        text.push(byte);
        Ok(())
    }

    fn hex(&mut self) -> Result<u16, String> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.take()?;
            match char::from(byte).to_digit(16) {
                Some(digit) => unit = unit << 4 | digit as u16,
                None => return Self::wrong(byte, "in \\u hexadecimal character escape"),
            }
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.rest;
        if self.peek()? == b'-' {
            self.take()?;
            let digit = self.peek()?;
            if !digit.is_ascii_digit() {
                return Self::wrong(digit, "in numeric literal");
            }
        }
        if self.take()? != b'0' {
            self.digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.take()?;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.rest.first() {
            self.take()?;
            if let Some(b'+' | b'-') = self.rest.first() {
                self.take()?;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let written = &start[..start.len() - self.rest.len()];
        // Inside something, what follows is the business of that; at the end of all, of nobody.
        Ok(Json::Number(String::from_utf8_lossy(written).into_owned()))
    }

    fn some_digits(&mut self, context: &str) -> Result<(), String> {
        let digit = self.peek()?;
        if !digit.is_ascii_digit() {
            return Self::wrong(digit, context);
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.rest = &self.rest[1..];
        }
    }
}

/// A byte as Go quotes it in messages.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        12 => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        11 => r"'\v'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..0xa0 => format!("'\\u{:04x}'", byte),
        0xad => r"'\u00ad'".to_owned(),
        _ => format!("'{}'", char::from(byte)),
    }
}

/// A string as Go's encoder writes it: safe inside HTML.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..' ' => {
                out.push_str(&format!("\\u{:04x}", letter as u32));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_is_read_and_the_rest_is_not() {
        let value =
            first_value(b" {\"a\":[1,-2.5e3,\"x\\u00e9\\ud83d\\ude00\\n\"],\"b\":null} garbage")
                .unwrap();
        let list = vec![
            Json::Number("1".into()),
            Json::Number("-2.5e3".into()),
            Json::Text("xé😀\n".into()),
        ];
        let members = vec![
            ("a".to_owned(), Json::List(list)),
            ("b".to_owned(), Json::Null),
        ];
        assert_eq!(value, Json::Object(members));
        assert_eq!(first_value(b"{}").unwrap(), Json::Object(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_original() {
        for (body, message) in [
            ("", "EOF"),
            ("  ", "EOF"),
            ("{", "unexpected EOF"),
            ("{\"a\"", "unexpected EOF"),
            (
                "{bad",
                "invalid character 'b' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "nul!",
                "invalid character '!' in literal null (expecting 'l')",
            ),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "[1.x]",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\q\"", "invalid character 'q' in string escape code"),
        ] {
            assert_eq!(
                first_value(body.as_bytes()),
                Err(message.to_owned()),
                "{body}"
            );
        }
        assert!(first_value("[".repeat(20_000).as_bytes()).is_err());
    }

    #[test]
    fn text_is_encoded_as_the_original_does() {
        assert_eq!(
            encode("a\"<b>&\u{1}é"),
            r#""a\"\u003cb\u003e\u0026\u0001é""#
        );
    }
}

//! Reads replies from the bytes of a connection: RESP2, as the Redis documentation describes it, and what
//! RESP3 adds to it where keys are tracked (pushes, maps, null).
use redis::Value;

/// Arrays in arrays, at most: no command that is sent here is answered with more.
const DEPTH: usize = 16;

/// The longest reply that is read, in bytes; neither may its elements take more memory than this.
pub(super) const REPLY_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// Why the bytes of a connection are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::topology) enum BadReply {
    #[error("the server sent what is no reply")]
    Malformed,
    #[error("the server sent a reply beyond the limit of {} MiB for one reply", REPLY_LIMIT_BYTES >> 20)]
    TooLong,
    #[error("the server sent a reply to which there is no request")]
    Unasked,
}

/// Reads one reply after the other. Elements of an array are taken as they come: no byte is read twice.
#[derive(Debug, Default)]
pub(in crate::topology) struct ReplyDecoder {
    arrays: Vec<PartialArray>,
    /// Bytes and elements of the reply so far.
    bytes: usize,
    elements: usize,
    /// Bytes at the beginning of the input in which no line ends.
    searched: usize,
    /// Pushes come, of which none answers a request.
    takes_pushes: bool,
}

#[derive(Debug)]
struct PartialArray {
    missing: usize,
    parts: Vec<Value>,
}

/// What a line of the protocol begins.
enum Element {
    Scalar(Value),
    Array(usize),
}

impl ReplyDecoder {
    pub(in crate::topology) fn with_pushes() -> Self {
        ReplyDecoder { takes_pushes: true, ..ReplyDecoder::default() }
    }

    /// The next reply, and how many bytes were used, also where none is complete. `input` begins behind.
    pub(in crate::topology) fn next(&mut self, input: &[u8]) -> Result<(Option<Value>, usize), BadReply> {
        let mut used = 0;
        while let Some((element, length)) = self.element(&input[used..])? {
            used += length;
            self.searched = 0;
            self.bytes += length;
            self.elements += 1;
            self.check(0)?;
            let mut value = match element {
                Element::Scalar(value) => value,
                Element::Array(0) => Value::Array(Vec::new()),
                Element::Array(missing) => {
                    // An element has three bytes at least. What is announced may be more than ever comes.
                    self.check(missing.saturating_mul(3))?;
                    if self.arrays.len() == DEPTH {
                        return Err(BadReply::Malformed);
                    }
                    let parts = Vec::with_capacity(missing.min(input.len()));
                    self.arrays.push(PartialArray { missing, parts });
                    continue;
                }
            };
            while let Some(array) = self.arrays.last_mut() {
                array.parts.push(std::mem::take(&mut value));
                array.missing -= 1;
                if array.missing > 0 {
                    break;
                }
                value = Value::Array(std::mem::take(&mut array.parts));
                self.arrays.pop();
            }
            if self.arrays.is_empty() {
                (self.bytes, self.elements) = (0, 0);
                return Ok((Some(value), used));
            }
        }
        self.check(input.len() - used)?;
        Ok((None, used))
    }

    fn check(&self, more: usize) -> Result<(), BadReply> {
        let memory = self.elements * size_of::<Value>();
        if memory.max(self.bytes.saturating_add(more)) > REPLY_LIMIT_BYTES {
            return Err(BadReply::TooLong);
        }
        Ok(())
    }

    /// The element at the beginning of `input` and its length, once all of it is there.
    ///
    /// Not by `redis::parse_redis_value`, which clears a buffer of its own for each reply and takes ten times
    /// as long; the text of an error is left to it.
    fn element(&mut self, input: &[u8]) -> Result<Option<(Element, usize)>, BadReply> {
        let from = self.searched.min(input.len());
        let Some(end) = input[from..].windows(2).position(|pair| pair == b"\r\n") else {
            self.searched = input.len().saturating_sub(1);
            return match input.first() {
                Some(b'+' | b'-' | b':' | b'$' | b'*' | b'>' | b'%' | b'_') | None => Ok(None),
                Some(_) => Err(BadReply::Malformed),
            };
        };
        let end = from + end;
        // The line is found at once if its bulk string has to be waited for.
        self.searched = end;
        let (line, rest) = input.split_at(end + 2);
        let (kind, text) = line[..end].split_first().ok_or(BadReply::Malformed)?;
        let value = match kind {
            b'+' if text == b"OK" => Value::Okay,
            b'+' => Value::SimpleString(String::from_utf8_lossy(text).into_owned()),
            // An error may quote arguments, which need not be UTF-8.
            b'-' => redis::parse_redis_value(String::from_utf8_lossy(line).as_bytes())
                .map_err(|_| BadReply::Malformed)?,
            b':' => Value::Int(number(text)?),
            b'$' => {
                let Ok(size) = usize::try_from(number(text)?) else {
                    return Ok(Some((Element::Scalar(Value::Nil), line.len())));
                };
                self.check(size)?;
                let Some(bulk) = rest.get(..size + 2) else {
                    return Ok(None);
                };
                let bulk = bulk.strip_suffix(b"\r\n").ok_or(BadReply::Malformed)?;
                return Ok(Some((Element::Scalar(Value::BulkString(bulk.into())), line.len() + size + 2)));
            }
            b'>' if !self.takes_pushes => return Err(BadReply::Malformed),
            b'*' | b'>' | b'%' => match usize::try_from(number(text)?) {
                Ok(count) => {
                    let parts = if *kind == b'%' { 2 } else { 1 };
                    return Ok(Some((Element::Array(count.saturating_mul(parts)), line.len())));
                }
                Err(_) => Value::Nil,
            },
            b'_' => Value::Nil,
            _ => return Err(BadReply::Malformed),
        };
        Ok(Some((Element::Scalar(value), line.len())))
    }
}

fn number(digits: &[u8]) -> Result<i64, BadReply> {
    std::str::from_utf8(digits).map_err(|_| BadReply::Malformed)?.parse().map_err(|_| BadReply::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All replies in `bytes`, which come in pieces of `piece` bytes, as a connection hands them on.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Value>, BadReply> {
        let mut decoder = ReplyDecoder::default();
        let (mut input, mut values) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            loop {
                let (value, used) = decoder.next(&input)?;
                input.drain(..used);
                match value {
                    Some(value) => values.push(value),
                    None => break,
                }
            }
        }
        assert!(input.is_empty(), "{input:?} is left over");
        Ok(values)
    }

    fn whole(bytes: &[u8]) -> Value {
        let values = read(bytes, bytes.len()).expect("good bytes");
        let [value] = &values[..] else {
            panic!("{values:?}");
        };
        // Wherever the bytes are cut, the reply is the same.
        for piece in 1..bytes.len() {
            assert_eq!(read(bytes, piece).as_ref(), Ok(&values), "in pieces of {piece}");
        }
        value.clone()
    }

    #[test]
    fn replies_are_read() {
        assert_eq!(whole(b":-3\r\n"), Value::Int(-3));
        assert_eq!(whole(b"$-1\r\n"), Value::Nil);
        assert_eq!(whole(b"+OK\r\n"), Value::Okay);
        assert_eq!(whole(b"+QUEUED\r\n"), Value::SimpleString("QUEUED".into()));
        assert_eq!(whole(b"*-1\r\n"), Value::Nil);
        assert_eq!(whole(b"*0\r\n"), Value::Array(vec![]));
        assert_eq!(whole(b"$4\r\na\r\nb\r\n"), Value::BulkString(b"a\r\nb".into()));
        let nested = Value::Array(vec![Value::Array(vec![Value::Int(1), Value::Array(vec![])]), Value::Nil]);
        assert_eq!(whole(b"*2\r\n*2\r\n:1\r\n*0\r\n$-1\r\n"), nested);
        assert!(
            matches!(whole(b"-NOSCRIPT no\r\n"), Value::ServerError(error) if error.code() == "NOSCRIPT")
        );
    }

    #[test]
    fn a_long_array_is_read_on_from_where_it_stopped() {
        let element = b"$32\r\n0123456789abcdef0123456789abcdef\r\n";
        let many = [b"*10000\r\n".to_vec(), element.repeat(10_000)].concat();
        let (mut decoder, mut input) = (ReplyDecoder::default(), Vec::new());
        let mut seen = 0;
        for piece in many.chunks(1000) {
            input.extend_from_slice(piece);
            seen += input.len();
            let (_, used) = decoder.next(&input).expect("good bytes");
            input.drain(..used);
        }
        // What is looked at twice is the element that was not whole.
        let most = many.len() + many.len() / 1000 * element.len();
        assert!(seen <= most, "{seen} bytes for {}", many.len());
    }

    #[test]
    fn an_error_that_is_not_utf8_is_an_error_of_the_server() {
        let error = whole(b"-ERR unknown command '\xff\xfe'\r\n");
        assert!(
            matches!(&error, Value::ServerError(error) if error.details().is_some_and(|text| text.contains("unknown command"))),
            "{error:?}"
        );
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\n"[..],
            b"HTTP/1.1",
            b">1\r\n:1\r\n",
            b":x\r\n",
            b"$1\r\nabc",
            &b"*1\r\n".repeat(100),
        ] {
            assert_eq!(read(bytes, bytes.len()), Err(BadReply::Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn a_reply_beyond_the_limit_is_refused_before_its_bytes_come() {
        let one_more = REPLY_LIMIT_BYTES + 1;
        for bytes in [
            format!("${one_more}\r\n"),
            format!("${}\r\n", i64::MAX),
            format!("*{}\r\n", i64::MAX),
            format!("*{one_more}\r\n:1\r\n"),
        ] {
            assert_eq!(read(bytes.as_bytes(), 7), Err(BadReply::TooLong), "{bytes:?}");
        }
        // Each element is small on the wire and large in memory.
        let elements = REPLY_LIMIT_BYTES / size_of::<Value>() + 1;
        let flood = [format!("*{elements}\r\n").into_bytes(), b":1\r\n".repeat(elements)].concat();
        assert_eq!(read(&flood, 16 * 1024), Err(BadReply::TooLong));
        // A line that does not end.
        assert_eq!(read(&vec![b'+'; one_more], 1 << 20), Err(BadReply::TooLong));
    }
}

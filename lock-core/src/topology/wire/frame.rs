//! Reads replies from the bytes of a connection (RESP2, as the Redis documentation describes it).
use redis::Value;

/// Arrays in arrays, at most: no command that is sent here is answered with more.
const DEPTH: u32 = 16;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The first reply and its length in bytes; nothing if it is not complete yet.
pub(super) fn first_reply(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut rest = bytes;
    let value = reply(&mut rest, DEPTH)?;
    Ok(value.map(|value| (value, bytes.len() - rest.len())))
}

/// Takes a reply from the beginning of `rest`.
///
/// Not by `redis::parse_redis_value`, which clears a buffer of its own for each reply and takes ten times as long; the text of an error is left to it.
fn reply(rest: &mut &[u8], depth: u32) -> Result<Option<Value>, Malformed> {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        return match rest.first() {
            Some(b'+' | b'-' | b':' | b'$' | b'*') | None => Ok(None),
            Some(_) => Err(Malformed),
        };
    };
    let (line, after) = rest.split_at(end + 2);
    *rest = after;
    let (kind, text) = line[..end].split_first().ok_or(Malformed)?;
    Ok(Some(match kind {
        b'+' if text == b"OK" => Value::Okay,
        b'+' => Value::SimpleString(String::from_utf8(text.into()).map_err(|_| Malformed)?),
        b'-' => redis::parse_redis_value(line).map_err(|_| Malformed)?,
        b':' => Value::Int(number(text)?),
        b'$' => {
            let Ok(size) = usize::try_from(number(text)?) else {
                return Ok(Some(Value::Nil));
            };
            let whole = size.checked_add(2).ok_or(Malformed)?;
            let Some((bulk, after)) = rest.split_at_checked(whole) else {
                return Ok(None);
            };
            *rest = after;
            let bulk = bulk.strip_suffix(b"\r\n").ok_or(Malformed)?;
            Value::BulkString(bulk.into())
        }
        b'*' => {
            let depth = depth.checked_sub(1).ok_or(Malformed)?;
            let Ok(count) = usize::try_from(number(text)?) else {
                return Ok(Some(Value::Nil));
            };
            // What is announced may be more than ever comes.
            let mut parts = Vec::with_capacity(count.min(rest.len()));
            for _ in 0..count {
                match reply(rest, depth)? {
                    Some(part) => parts.push(part),
                    None => return Ok(None),
                }
            }
            Value::Array(parts)
        }
        _ => return Err(Malformed),
    }))
}

fn number(digits: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    text.parse().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Value {
        let (value, length) = first_reply(bytes).expect("good bytes").expect("complete");
        assert_eq!(length, bytes.len());
        value
    }

    #[test]
    fn replies_are_read() {
        assert_eq!(whole(b":-3\r\n"), Value::Int(-3));
        assert_eq!(whole(b"$-1\r\n"), Value::Nil);
        assert_eq!(whole(b"+OK\r\n"), Value::Okay);
        assert_eq!(whole(b"+QUEUED\r\n"), Value::SimpleString("QUEUED".into()));
        assert_eq!(whole(b"*-1\r\n"), Value::Nil);
        assert_eq!(whole(b"*0\r\n"), Value::Array(vec![]));
        assert_eq!(
            whole(b"$4\r\na\r\nb\r\n"),
            Value::BulkString(b"a\r\nb".into())
        );
        let nested = Value::Array(vec![Value::Array(vec![Value::Int(1)]), Value::Nil]);
        assert_eq!(whole(b"*2\r\n*1\r\n:1\r\n$-1\r\n"), nested);
        assert!(
            matches!(whole(b"-NOSCRIPT no\r\n"), Value::ServerError(error) if error.code() == "NOSCRIPT")
        );
    }

    #[test]
    fn a_reply_that_is_cut_anywhere_is_not_complete() {
        for reply in [
            &b"*2\r\n$2\r\nab\r\n:17\r\n"[..],
            b"$3\r\nabc\r\n",
            b"-ERR no\r\n",
            b":5\r\n",
        ] {
            for cut in 0..reply.len() {
                assert_eq!(
                    first_reply(&reply[..cut]),
                    Ok(None),
                    "{cut} bytes of {reply:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let deep = b"*1\r\n".repeat(100);
        for bytes in [
            &b"HTTP/1.1 200 OK\r\n"[..],
            b":x\r\n",
            b"$1\r\nabc",
            b"$9223372036854775807\r\n",
            b"*9223372036854775807\r\n",
            &deep,
        ] {
            assert!(
                first_reply(bytes).is_err() || first_reply(bytes) == Ok(None),
                "{bytes:?}"
            );
        }
        assert_eq!(first_reply(b"HTTP/1.1"), Err(Malformed));
        assert_eq!(first_reply(&deep), Err(Malformed));
    }
}

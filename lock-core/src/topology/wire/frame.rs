//! Reads replies from the bytes of a connection (RESP2, as the Redis documentation describes it).
use redis::Value;

/// Arrays in arrays, at most: no command that is sent here is answered with more.
const DEPTH: u32 = 16;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The first reply and its length in bytes; nothing if it is not complete yet.
pub(super) fn first_reply(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let Some(length) = length(bytes, DEPTH)? else {
        return Ok(None);
    };
    let reply = &bytes[..length];
    // What scripts of locks answer, without the detour through a general parser.
    let value = match reply {
        b"$-1\r\n" => Value::Nil,
        b"+OK\r\n" => Value::Okay,
        [b':', digits @ .., b'\r', b'\n'] => Value::Int(number(digits)?),
        _ => redis::parse_redis_value(reply).map_err(|_| Malformed)?,
    };
    Ok(Some((value, length)))
}

/// How long the first reply is, if it is complete.
fn length(bytes: &[u8], depth: u32) -> Result<Option<usize>, Malformed> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return match bytes.first() {
            Some(b'+' | b'-' | b':' | b'$' | b'*') | None => Ok(None),
            Some(_) => Err(Malformed),
        };
    };
    let (kind, rest) = bytes.split_first().ok_or(Malformed)?;
    let head = end + 2;
    let count = || number(&rest[..end - 1]);
    match kind {
        b'+' | b'-' | b':' => Ok(Some(head)),
        b'$' => {
            let Ok(size) = usize::try_from(count()?) else {
                return Ok(Some(head));
            };
            let whole = head
                .checked_add(size)
                .and_then(|whole| whole.checked_add(2));
            let whole = whole.ok_or(Malformed)?;
            Ok((bytes.len() >= whole).then_some(whole))
        }
        b'*' => {
            let depth = depth.checked_sub(1).ok_or(Malformed)?;
            let mut whole = head;
            for _ in 0..count()?.max(0) {
                match length(&bytes[whole..], depth)? {
                    Some(part) => whole += part,
                    None => return Ok(None),
                }
            }
            Ok(Some(whole))
        }
        _ => Err(Malformed),
    }
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
            b"$9223372036854775807\r\n",
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

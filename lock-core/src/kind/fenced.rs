//! The RFencedLock format: RLock's, and a counter beside it that gives each hold a rising token.

use redis::Value;

use super::format::{Counting, LockFormat, LockRequest, Reply, acquired, counting, script, with_holds};
use super::hash::{self, REENTRANT};
use crate::{names::companion, topology::Request};

static ACQUIRE: Counting = counting!("acquire_fenced").given_back_by(&hash::RELEASE, &hash::RELEASE_COUNTED);

/// RFencedLock's format. The counter has no end, as Redisson's, unless the caller gives it one.
#[derive(Debug)]
pub(crate) struct Fenced;

impl LockFormat for Fenced {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        let counter = companion("redisson_lock_token", &ask.names.key);
        let request = Request::new(ACQUIRE.of(ask)).key(&ask.names.key).key(&counter);
        let request = with_holds(request, ask, ask.owner).arg_ms(ask.lease).arg(ask.owner);
        // A counter that ends before the lease would start over under its holder.
        match ask.token_life {
            Some(life) => request.arg_ms(life.max(ask.lease)),
            None => request.arg(b"0"),
        }
    }

    fn read_acquire(&self, value: &Value) -> Option<Reply> {
        match value.as_sequence() {
            Some([Value::Int(token)]) => Some(Reply::Granted { token: Some(u64::try_from(*token).ok()?) }),
            Some(_) => None,
            None => acquired(value),
        }
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        REENTRANT.release(ask)
    }
}

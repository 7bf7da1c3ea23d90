//! Several RLocks of one slot in one call: requests for all of them at once, each in RLock's format.

use redis::Value;

use super::format::{LOOK, LockFormat, LockRequest, script, yes};
use super::hash::{acquire_all, extend_counted, release_all, with_channels, with_keys};
use crate::names::Names;
use crate::topology::{Request, Script};

static FORCE_RELEASE: Script = script!("force_release_all", "speak");

/// All locks of the names, as one hold.
#[derive(Debug)]
pub(crate) struct AllOf;

fn call(script: &'static Script, names: &Names) -> Request {
    with_keys(Request::new(script), names)
}

impl LockFormat for AllOf {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        acquire_all(ask)
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        release_all(ask)
    }

    fn extend_keys(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        with_keys(request, ask.names)
    }

    fn extend_arg(&self, ask: &LockRequest<'_>, request: Request) -> Request {
        ask.names.all().fold(request, |request, _| request.arg(ask.owner))
    }

    fn read_extend(&self, value: &Value) -> Option<bool> {
        let Value::Array(answers) = value else {
            return yes(value);
        };
        // All are held, or the whole is lost.
        answers.iter().try_fold(true, |all, answer| Some(yes(answer)? && all))
    }

    fn extend_counted(&self, ask: &LockRequest<'_>) -> Option<Request> {
        extend_counted(ask)
    }

    fn renews_alone(&self, _ask: &LockRequest<'_>) -> bool {
        true
    }

    fn look(&self, names: &Names) -> Request {
        call(&LOOK, names)
    }

    fn force_release(&self, names: &Names, publish: &'static str) -> Request {
        with_channels(call(&FORCE_RELEASE, names).arg(publish), names)
    }

    fn channels<'a>(&self, names: &'a Names) -> Vec<&'a str> {
        names.all().map(|each| each.channel.as_str()).collect()
    }
}

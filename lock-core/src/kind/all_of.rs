//! Several RLocks of one slot in one call: requests for all of them at once, each in RLock's format.

use redis::Value;

use super::format::{Counting, LOOK, LockFormat, LockRequest, counting, script, with_keys, yes};
use super::hash::{acquire_by, release_by, with_channels};
use crate::names::Names;
use crate::topology::{Request, Script};

static ACQUIRE: Counting = counting!("acquire_all").given_back_by(&RELEASE.once, &RELEASE.several);
static RELEASE: Counting = counting!("release_all", "speak");
static FORCE_RELEASE: Script = script!("force_release_all", "speak");

/// All locks of the names, as one hold.
#[derive(Debug)]
pub(crate) struct AllOf;

impl LockFormat for AllOf {
    fn acquire(&self, ask: &LockRequest<'_>) -> Request {
        acquire_by(ACQUIRE.of(ask), ask)
    }

    fn release(&self, ask: &LockRequest<'_>) -> Request {
        release_by(RELEASE.of(ask), ask)
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

    fn renews_alone(&self, _ask: &LockRequest<'_>) -> bool {
        true
    }

    fn look(&self, names: &Names) -> Request {
        with_keys(Request::new(&LOOK), names)
    }

    fn force_release(&self, names: &Names) -> Request {
        with_channels(with_keys(Request::new(&FORCE_RELEASE), names).arg(names.publish), names)
    }

    fn channels<'a>(&self, names: &'a Names) -> Vec<&'a str> {
        names.all().map(|each| each.channel.as_str()).collect()
    }
}

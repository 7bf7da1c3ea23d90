//! What holders and waiters do after a suspension, which a process sees as a jump of CLOCK_BOOTTIME alone.

mod support;

use std::{
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use chaos::shim::Shims;
use futures_util::{future::join, poll};
use lock_core::{Acquire, Client, ClientOptions, ErrorKind, Kind, Lease};
use support::Server;
use tokio::io::AsyncBufReadExt as _;

const HELPER: &str = "holds_and_waits_and_says_how_it_ends";
/// Longer than any test waits: only the clock that jumps can end it.
const LEASE: Duration = Duration::from_secs(120);
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn say(words: &str) {
    // A line of its own, whatever the harness prints before.
    writeln!(std::io::stdout(), "\n> {words}").expect("somebody reads");
}

/// What the test below runs as a process of its own, with the shim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that is suspended"]
async fn holds_and_waits_and_says_how_it_ends() {
    let url = std::env::var("HOLD_AT").expect("the server's URL");
    let target = url.parse().expect("a good URL");
    let options = ClientOptions::default().watchdog_lease(LEASE);
    let client = Client::connect(&target, options).await.expect("it answers");
    let lock = |name| client.lock(Kind::Reentrant, name).expect("a good name");
    let renewed = lock("renewed").acquire().await.expect("free");
    let how = Acquire::default().lease(Lease::Fixed(LEASE));
    let fixed = lock("fixed").acquire_with(how).await.expect("free");
    let how = Acquire::default().lease(Lease::Fixed(LEASE));
    let unseen = lock("unseen").acquire_with(how).await.expect("free");
    let waited_for = lock("fixed");
    let mut waiter = Box::pin(waited_for.acquire_timeout(LEASE));
    // Its time counts from its first step on.
    assert!(poll!(&mut waiter).is_pending());
    // Nobody looks at the last one: its signal comes by itself.
    let told = join(renewed.lost(), unseen.lost());
    let looks = async {
        say("held");
        let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(_)) = lines.next_line().await {
            say(&format!("lost {} {}", renewed.is_lost(), fixed.is_lost()));
        }
    };
    let ends = async {
        let (renewed, unseen) = told.await;
        say(&format!("told {renewed}, {unseen}"));
    };
    let waits = async {
        let ended = waiter.await.expect_err("nobody gave it back");
        assert_eq!(ended.kind(), ErrorKind::Busy, "{ended}");
        say("waited");
    };
    let extends = async {
        let error = renewed.extend(LEASE).await.expect_err("it is over");
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    };
    let ((), (), ()) = tokio::join!(looks, ends, waits);
    extends.await;
    say("over");
}

/// A process that was suspended for longer than its lease believes in no guard from its first look on;
/// without a suspension it does.
#[test]
fn a_hold_is_lost_by_the_time_that_the_machine_was_suspended() {
    let server = Server::start();
    let shims = Shims::new(["c1".to_owned()]).expect("files in memory");
    let page = shims.page("c1").expect("a page");
    let mut holder = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "--nocapture", HELPER])
        .envs(shims.env("c1"))
        .env("HOLD_AT", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    let (tell, said) = mpsc::channel();
    let output = BufReader::new(holder.stdout.take().expect("a pipe"));
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(words) = line.strip_prefix("> ") {
                let _ = tell.send(words.to_owned());
            }
        }
    });
    let input = holder.stdin.take().expect("a pipe");
    let next = || said.recv_timeout(PATIENCE);
    let look = |mut input: &ChildStdin| input.write_all(b"look\n").expect("it reads");
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        assert_eq!(next().as_deref(), Ok("held"));
        look(&input);
        assert_eq!(next().as_deref(), Ok("lost false false"));
        page.suspend(LEASE).expect("writable");
        look(&input);
        let words = [next(), next(), next()].map(Result::unwrap_or_default);
        let has = |wanted: &str| words.iter().any(|words| words == wanted);
        let told = "told it could not be renewed before its end, its lease ran out";
        assert!(has("lost true true") && has(told) && has("waited"), "{words:?}");
        drop(input);
        assert_eq!(next().as_deref(), Ok("over"));
    }));
    // Whatever it has said, nothing is left.
    let _ = holder.kill();
    holder.wait().expect("it is dead");
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

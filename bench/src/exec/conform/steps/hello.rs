//! The first word and the last: hello, versions, lines that are no requests, bye.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::NotTried;
use super::super::scripted_driver::ScriptedDriver;
use super::{A, SHORT_MS, SkippableResult, StepResult, Trial, expect, shown, skip};
use crate::protocol::{self, HelloReply, error_text};
use crate::subjects;

const PRINTED: &str = "write nothing but the protocol to standard output: banners, logs and what a library prints belong on standard error";
const ENDED: &str =
    "start the program by hand and fix what it says; it has to go on reading standard input until `bye`";
const SILENT: &str =
    "read standard input line by line, answer each line at once, and flush standard output after each answer";
const REFUSED: &str = "answer `failed` to hello only where the servers of its `target` cannot be used; connect to those, and to no others";

impl Trial<'_> {
    pub(super) async fn hello(&mut self) -> SkippableResult {
        let (mut driver, reply) = self.start_and_greet("c1", protocol::VERSION).await?;
        if let Ok(reply) = &reply
            && reply.ending == "failed"
            && reply.body.get("not_applicable") == Some(&Value::Bool(true))
        {
            driver.kill().await;
            return self.not_applicable(error_text(&reply.body), Vec::new());
        }
        self.result.is_refused = matches!(&reply, Ok(reply) if reply.ending == "failed");
        self.remedy = match &reply {
            _ if !driver.violations.is_empty() => Some(PRINTED),
            Ok(reply) if reply.ending == "ok" => None,
            Ok(_) => Some(REFUSED),
            Err(_) if driver.has_ended => Some(ENDED),
            Err(_) => Some(SILENT),
        };
        let (mut driver, body) = self.ok_of_hello(driver, reply).await?;
        let has_violated = |driver: &ScriptedDriver| !driver.violations.is_empty();
        driver.listen(Duration::from_millis(200), has_violated).await;
        let wrong = driver.violations.first().cloned();
        // Kept, so that the trial ends it, also if its hello is wrong.
        self.drivers[A] = Some(driver);
        match wrong {
            Some(wrong) => Err(wrong.into()),
            None => self.check_hello(body),
        }
    }

    fn check_hello(&mut self, body: Value) -> SkippableResult {
        let hello: HelloReply = serde_path_to_error::deserialize(&body)
            .map_err(|wrong| format!("`{}` is wrong, {}: {body}", wrong.path(), wrong.inner()))?;
        let HelloReply { name, version, language, .. } = &hello;
        for (field, text) in [("name", name), ("version", version), ("language", language)] {
            if text.is_empty() {
                return Err(format!("`{field}` is missing, or empty: {body}").into());
            }
        }
        if hello.protocol != Some(protocol::VERSION) {
            return Err(format!("`protocol` is not {}: {body}", protocol::VERSION).into());
        }
        for (field, list) in [("kinds", Some(&hello.kinds)), ("topologies", hello.topologies.as_ref())] {
            if list.is_some_and(Vec::is_empty) {
                return Err(format!("`{field}` is no list of names, with at least one: {body}").into());
            }
        }
        let known: Vec<&str> = protocol::SHAPES.iter().copied().chain(subjects::topologies()).collect();
        let mut listed = hello.topologies.iter().flatten();
        if let Some(unknown) = listed.find(|name| !known.contains(&name.as_str())) {
            let there_are = known.join(", ");
            return Err(format!("`topologies` lists `{unknown}`; there are {there_are}").into());
        }
        self.result.library = format!("{name} {version} ({language})");
        if let Some(why) = hello.lacks_topology(&self.options.target) {
            return self.not_applicable(why, hello.topologies.unwrap_or_default());
        }
        let kinds = hello.kinds.join(", ");
        if self.kind.is_empty() {
            self.kind = hello.kinds[0].clone();
        } else if !hello.kinds.contains(&self.kind) {
            let why = format!("its hello lists no kind `{}`, but {kinds}", self.kind);
            self.result.not_tried = Some(NotTried::Kind(why.clone()));
            return skip(&why);
        }
        let on = protocol::shape(&self.options.target).map_or(String::new(), |shape| format!(" on {shape}"));
        let mut found = format!("{}; kinds {kinds}; tried with {}{on}", self.result.library, self.kind);
        // A later version may have kinds that this one does not know: that is no fault.
        let ours: Vec<String> = subjects::all().iter().flat_map(|one| one.kinds()).collect();
        if let Some(other) = hello.kinds.iter().find(|kind| !ours.contains(kind)) {
            found.push_str(&format!("; no kind that is known here: {other}"));
        }
        self.hello = hello;
        Ok(found)
    }

    fn not_applicable(&mut self, why: String, listed: Vec<String>) -> SkippableResult {
        let asked = skip(&why);
        self.result.not_tried = Some(NotTried::Topology { why, listed });
        asked
    }

    pub(super) async fn version(&mut self) -> StepResult {
        const FUTURE: u64 = 999;
        let (mut driver, reply) = self.start_and_greet("c1", FUTURE).await?;
        driver.kill().await;
        self.violations.append(&mut driver.violations);
        let reply = reply?;
        match (reply.ending.as_str(), reply.body.get("protocol").and_then(Value::as_u64)) {
            ("failed", _) => Ok("refused".to_owned()),
            ("ok", Some(protocol::VERSION)) => Ok("answered with its own".to_owned()),
            _ => Err(format!("version {FUTURE} was answered {}", shown(&reply))),
        }
    }

    pub(super) async fn malformed(&mut self) -> StepResult {
        let mut driver = self.start_driver("c3").await?;
        driver.line("{\"id\": 17, \"op\": ").await;
        // It may take a moment to end.
        driver.listen(Duration::from_millis(500), |_| false).await;
        let lock = self.lock();
        let request = self.acquire_request(&lock, "t0", 0, Some(SHORT_MS));
        let reply = driver.ask(request, self.patience()).await;
        let wrong = std::mem::take(&mut driver.violations);
        let ended = driver.wait(Duration::from_millis(10)).await;
        driver.kill().await;
        match (wrong.first(), reply, ended) {
            (Some(wrong), _, _) => Err(wrong.clone()),
            (None, Ok(_), _) => Ok("went on".to_owned()),
            (None, Err(_), Ok(Some(0))) => Err("it ended as if all were well, with code 0".into()),
            (None, Err(_), Ok(_)) => Ok("ended".to_owned()),
            (None, Err(why), Err(_)) => {
                Err(format!("after a line that is no request it neither ended nor answered: {why}"))
            }
        }
    }

    pub(super) async fn bye(&mut self) -> StepResult {
        let mut driver = self.start_driver("c3").await?;
        let reply = driver.ask(json!({"op": "bye"}), self.patience()).await?;
        expect(&reply, &["ok"], "it was")?;
        self.expect_exit(driver).await
    }

    pub(super) async fn end_of_input(&mut self) -> StepResult {
        let mut driver = self.start_driver("c3").await?;
        driver.end_input();
        self.expect_exit(driver).await
    }

    /// Expects that the driver ends by itself with code 0.
    async fn expect_exit(&mut self, mut driver: ScriptedDriver) -> StepResult {
        let within = self.patience();
        driver.listen(within, |_| false).await;
        let code = driver.wait(within).await;
        driver.kill().await;
        self.violations.append(&mut driver.violations);
        match code? {
            Some(0) => Ok(String::new()),
            Some(code) => Err(format!("it exited with code {code}")),
            None => Err("it was ended by a signal".to_owned()),
        }
    }
}

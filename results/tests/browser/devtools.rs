//! A Chromium of the test's own, driven by the DevTools protocol over a pipe: no port, no driver, no network.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// So long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page; it ends with the value.
pub(crate) struct Browser {
    child: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last_id: u64,
    /// What the page threw, logged or asked for.
    pub(crate) noise: Vec<String>,
    dir: tempfile::TempDir,
}

/// The program, or `None` after saying aloud that the test is skipped.
pub(crate) fn program_or_skip(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&paths).flat_map(|dir| usual.map(|name| dir.join(name)));
    let found = named.or_else(|| all.find(|path| path.is_file()));
    if found.is_none() {
        // Past the capture of the test harness, which shows only what failing tests say.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: there is no Chromium; `apt-get install chromium` provides it"
        );
    }
    found
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // The protocol is spoken on the descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"])
            .arg(program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                // Inside of a container there is no other sandbox to be had; the page is our own.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--proxy-server=127.0.0.1:1",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            // It leaves the folder of its socket behind.
            .env("TMPDIR", dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let requests = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("a message");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { child, requests, messages, session: None, last_id: 0, noise: Vec::new(), dir };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut request = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut line = request.to_string().into_bytes();
        line.push(0);
        self.requests.write_all(&line).expect("the browser listens");
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let mut message = message.unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == json!(self.last_id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let said = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => params["exceptionDetails"]["exception"]["description"].to_string(),
            "Runtime.consoleAPICalled" => params["args"][0]["value"].to_string(),
            "Log.entryAdded" => params["entry"]["text"].to_string(),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                if url.starts_with("file://") {
                    return;
                }
                format!("request: {url}")
            }
            _ => return,
        };
        self.noise.push(said);
    }

    /// The value of an expression in the page, once it is neither null nor undefined.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let began = Instant::now();
        loop {
            let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
            let mut answer = self.call("Runtime.evaluate", asked);
            let thrown = &answer["exceptionDetails"];
            assert!(thrown.is_null(), "{expression}: {thrown}");
            if !answer["result"]["value"].is_null() {
                return answer["result"]["value"].take();
            }
            assert!(began.elapsed() < PATIENCE, "nothing became of {expression}");
            std::thread::yield_now();
        }
    }

    /// Shows a page of this machine's disk in a window of that width, and waits until it is there.
    pub(crate) fn open(&mut self, page: &str, width: u32) {
        let file = self.dir.path().join("page.html");
        std::fs::write(&file, page).expect("the page is written");
        let window = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", window);
        self.noise.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        self.value("document.readyState == 'complete' && location.protocol == 'file:' || null");
    }

    pub(crate) fn media(&mut self, media: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for (kind, text) in [("keyDown", if key == "Enter" { "\r" } else { "" }), ("keyUp", "")] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Headless Chromium, driven over a pair of pipes: it opens no port and leaves nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest wait for a reply of the browser. It is far above the need, so that only a hang ends a test.
const PATIENCE: Duration = Duration::from_mins(1);

/// The screen that shows the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub width: u32,
    pub height: u32,
    pub phone: bool,
    pub dark: bool,
}

pub(crate) struct Browser {
    child: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Addresses that the page requested since the browser began.
    pub requested: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium. Panics with advice if it is not installed.
    pub(crate) fn start() -> Self {
        let profile = TempDir::new().expect("a directory for the browser's profile");
        let mut child = spawn(profile.path());
        let commands = child.stdin.take();
        let replies = child.stdout.take().expect("the browser's replies are piped");
        let (sender, messages) = channel();
        // The thread ends with the browser, whose end closes the pipe.
        thread::spawn(move || {
            for message in BufReader::new(replies).split(0).map_while(Result::ok) {
                let parsed = serde_json::from_slice(&message);
                if parsed.is_ok_and(|value: Value| sender.send(value).is_err()) {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            session: String::new(),
            last_id: 0,
            requested: Vec::new(),
            _profile: profile,
        };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            self.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut self.session);
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            self.call(domain, &json!({}));
        }
    }

    /// Opens a file on a screen, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, screen: Screen) {
        self.go(&format!("file://{}", file.display()), screen);
    }

    /// Opens an address on a screen, and waits until it is loaded.
    pub(crate) fn go(&mut self, url: &str, screen: Screen) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": screen.width, "height": screen.height, "deviceScaleFactor": 1, "mobile": screen.phone}),
        );
        let scheme = if screen.dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        self.call("Page.navigate", &json!({"url": url}));
        self.wait_for(|message| message["method"] == "Page.loadEventFired");
    }

    /// Switches to the print layout.
    pub(crate) fn on_paper(&mut self) {
        self.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    }

    /// The value of a script's last expression.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let result = self.call("Runtime.evaluate", &json!({"expression": script, "returnByValue": true}));
        assert!(result["exceptionDetails"].is_null(), "the script failed: {result}");
        result["result"]["value"].clone()
    }

    /// A screenshot of the whole page, in PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let metrics = self.call("Page.getLayoutMetrics", &json!({}));
        let size = &metrics["cssContentSize"];
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let shot = self.call(
            "Page.captureScreenshot",
            &json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        decoded(&shot)
    }

    /// The page in print layout, in PDF.
    pub(crate) fn print(&mut self) -> Vec<u8> {
        let printed =
            self.call("Page.printToPDF", &json!({"printBackground": false, "preferCSSPageSize": true}));
        decoded(&printed)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.as_mut().expect("still open").write_all(&bytes).expect("the browser listens");
        let reply = self.wait_for(|message| message["id"] == id);
        assert!(reply["error"].is_null(), "{method}: {}", reply["error"]);
        reply["result"].clone()
    }

    fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("the browser answers");
            if message["method"] == "Network.requestWillBeSent" {
                let address = message["params"]["request"]["url"].as_str().unwrap_or_default();
                self.requested.push(address.to_owned());
            }
            if wanted(&message) {
                return message;
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when its command pipe closes; it is killed only if it does not.
        drop(self.commands.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        let ended = loop {
            match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Chromium reads commands from descriptor 3 and writes replies to 4. The shell redirects them to our pipes.
fn spawn(profile: &Path) -> Child {
    let script = r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
    let found = Command::new("sh").args(["-c", "command -v chromium"]).stdout(Stdio::null()).status();
    assert!(
        found.is_ok_and(|status| status.success()),
        "chromium is not installed; `cargo xtask test` installs what the tests need"
    );
    Command::new("sh")
        .args(["-c", script, "chromium", "--remote-debugging-pipe", "--headless", "--no-sandbox"])
        .args(["--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-extensions", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell")
}

fn decoded(reply: &Value) -> Vec<u8> {
    BASE64.decode(reply["data"].as_str().expect("data")).expect("base64")
}

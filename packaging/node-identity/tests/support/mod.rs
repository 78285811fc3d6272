// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network namespaces with metadata services in them, and `node-identity` run inside. Needs root and iproute2.
#![allow(dead_code)] // each test binary uses its own part
#![allow(clippy::unwrap_used)] // clippy.toml's exception covers functions marked as tests only
#![allow(missing_docs)]

pub mod services;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// One request as it came in.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What a service does with a request.
#[derive(Debug, Clone)]
pub enum Act {
    /// A proper reply: status, extra headers, body.
    Reply(u16, Vec<(&'static str, String)>, String),
    /// These bytes, then the connection ends.
    Raw(Vec<u8>),
    /// TCP reset.
    Reset,
    /// Not a byte until the other side hangs up.
    Silence,
}

pub fn ok(body: &str) -> Act {
    Act::Reply(200, vec![("Content-Type", "text/plain".to_owned())], body.to_owned())
}

pub fn json(body: &serde_json::Value) -> Act {
    Act::Reply(200, vec![("Content-Type", "application/json".to_owned())], body.to_string())
}

pub fn status(code: u16) -> Act {
    Act::Reply(code, Vec::new(), format!("status {code}"))
}

type Service = Arc<Mutex<dyn FnMut(&Request) -> Act + Send>>;

/// A network namespace with loopback and an Ethernet pair, all up.
pub struct Net {
    name: String,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error} (these tests need root and iproute2)"));
    assert!(
        output.status.success(),
        "{program} {arguments:?} (these tests need root): {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Net {
    pub fn new() -> Self {
        let name = format!("nbid-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run("ip", &["netns", "add", &name]);
        let net = Self { name };
        net.ip(&["link", "set", "lo", "up"]);
        net.ip(&["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"]);
        for link in ["peer0", "eth0"] {
            net.ip(&["link", "set", link, "up"]);
        }
        net
    }

    /// A namespace where these addresses exist; IPv6 ones without duplicate detection.
    pub fn with(addresses: &[&str]) -> Self {
        let net = Self::new();
        for address in addresses {
            net.address(address);
        }
        net
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn address(&self, address: &str) {
        if address.contains(':') {
            self.ip(&["address", "add", &format!("{address}/64"), "dev", "eth0", "nodad"]);
        } else {
            self.ip(&["address", "add", &format!("{address}/32"), "dev", "eth0"]);
        }
    }

    pub fn ip(&self, arguments: &[&str]) {
        run("ip", &[&["-n", &self.name], arguments].concat());
    }

    /// Runs `job` in a thread inside the namespace.
    fn inside<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        let path = format!("/run/netns/{}", self.name);
        thread::spawn(move || {
            let file = File::open(&path).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            job()
        })
    }

    /// Serves at `address`, port 80; the log has all requests.
    pub fn serve(&self, address: &str, service: impl FnMut(&Request) -> Act + Send + 'static) -> Log {
        let service: Service = Arc::new(Mutex::new(service));
        let log = Log::default();
        let (ready, is_ready) = mpsc::channel();
        let here: SocketAddr = if address == "fe80::a9fe:a9fe" {
            // Bound to any address: a listener on a link-local one would need the interface's number.
            "[::]:80".parse().unwrap()
        } else {
            SocketAddr::new(address.parse().unwrap(), 80)
        };
        let requests = log.clone();
        self.inside(move || {
            let listener = TcpListener::bind(here).unwrap();
            ready.send(()).unwrap();
            for stream in listener.incoming().flatten() {
                let (service, requests) = (service.clone(), requests.clone());
                thread::spawn(move || answer(stream, &service, &requests));
            }
        });
        is_ready.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("cannot listen on {here}"));
        log
    }

    /// A command that runs `node-identity` inside, impatient.
    pub fn command(&self, root: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_node-identity"), "--root"]).arg(root);
        impatient(&mut command);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Its listeners keep the namespace alive until the test binary ends; only the name goes.
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

/// Environment of a test run: many attempts in little time.
pub fn impatient(command: &mut Command) {
    command
        .env_remove("NOTIFY_SOCKET")
        .env_remove("JOURNAL_STREAM")
        .env("NODEBASE_DEADLINE_MS", "30000")
        .env("NODEBASE_PAUSE_MS", "1")
        .env("NODEBASE_LONGEST_PAUSE_MS", "20")
        .env("NODEBASE_REQUEST_MS", "5000")
        // A proxy must never be used; with this one every request would fail.
        .env("http_proxy", "http://127.0.0.1:9")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("ALL_PROXY", "http://127.0.0.1:9");
}

/// All requests so far.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Request>>>);

impl Log {
    pub fn all(&self) -> Vec<Request> {
        self.0.lock().unwrap().clone()
    }
    pub fn lines(&self) -> Vec<String> {
        self.all().iter().map(|request| format!("{} {}", request.method, request.target)).collect()
    }
}

fn answer(stream: TcpStream, service: &Service, log: &Log) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    let request = Request { method, target, headers };
    log.0.lock().unwrap().push(request.clone());
    let act = (service.lock().unwrap())(&request);
    let mut stream = stream;
    match act {
        Act::Reply(code, headers, body) => {
            let mut head = format!("HTTP/1.1 {code} Status\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
            for (name, value) in headers {
                head.extend([name, ": ", &value, "\r\n"]);
            }
            let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
        }
        Act::Raw(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Act::Reset => {
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
        Act::Silence => {
            let _ = stream.read(&mut [0; 16]);
        }
    }
}

/// A root directory with what a machine has: /sys of the namespace the command runs in.
pub struct Root(pub tempfile::TempDir);

impl Root {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/sys", directory.path().join("sys")).unwrap();
        Self(directory)
    }
    /// Without a link to the real /sys, for tests that make their own.
    pub fn bare() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn join(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
    pub fn write(&self, path: &str, text: &str) {
        let path = self.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    pub fn script(&self, path: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(path, text);
        fs::set_permissions(self.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
    /// A key of /run/nodebase/node.env.
    pub fn env(&self, key: &str) -> Option<String> {
        let text = fs::read_to_string(self.join("run/nodebase/node.env")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(&format!("{key}=")).map(str::to_owned))
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts success and shows what was said otherwise.
#[track_caller]
pub fn well(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, stderr(output));
}

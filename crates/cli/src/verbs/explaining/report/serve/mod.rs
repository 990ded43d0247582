//! `thalweg report --serve DIR`: lists a directory's recordings, opens each, compares two, and follows those in progress, for a browser on
//! this machine.
//!
//! The server listens on the loopback interface alone and only reads. Its address has a random key ([`request`]), names are those of
//! entries of the directory ([`directory`]), and every page has a content security policy, which a header repeats and which forbids frames.

mod directory;
mod known;
mod request;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::recordings::explained::explained;
use directory::{Directory, Entry, MAX_LISTED};
use known::Register;
use parking_lot::Mutex;
use request::{Address, Refused, Wanted, encoded};
use std::ffi::OsString;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use thalweg_explain::diff::{DiffOptions, diff};
use thalweg_report::{KnownRecording, ListedRecording, RecordingProgress, list_page, message_page, policy};
use tiny_http::{Header, Request, Response, Server};

/// Threads that answer: a list is shown while another thread makes a page.
const ANSWERING: usize = 4;
/// Seconds after which a browser asks for a list again while something on it is not final.
const REFRESH_S: u64 = 2;
/// How many times as long as making it took the page of a recording in progress is shown.
const SHOWN: u32 = 10;
/// The least such time.
const SHOWN_LEAST: Duration = Duration::from_secs(5);

/// A page, and its status.
struct Reply {
    status: u16,
    html: String,
    /// After how many seconds a browser asks again.
    refresh_s: Option<u64>,
}

impl Reply {
    fn of(html: String) -> Reply {
        Reply { status: 200, html, refresh_s: None }
    }

    fn message(status: u16, title: &str, text: &str) -> Reply {
        Reply { status, html: message_page(title, text), refresh_s: None }
    }
}

/// What all threads share.
struct Served {
    directory: Directory,
    register: Register,
    address: Address,
    /// Held while a page is made. Bound: memory and processor time are those of one `thalweg report`.
    making: Mutex<()>,
}

/// Serves until Ctrl-C; a free port is chosen if none is given.
pub(super) fn run(path: &Path, port: u16) -> Result<(), Failure> {
    let directory = Directory::open(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    let interrupt = Interrupt::listen()?;
    let server = Server::http((Ipv4Addr::LOCALHOST, port)).map_err(|e| Failure::failed(format!("127.0.0.1:{port}: {e}")))?;
    let port = server.server_addr().to_ip().map_or(port, |address| address.port());
    let key = thalweg_base::random::bytes::<16>().iter().fold(String::new(), |mut key, byte| {
        let _ = write!(key, "{byte:02x}");
        key
    });
    output::line(&format!("http://127.0.0.1:{port}/{key}/"))?;
    output::note(&format!("thalweg report: recordings in {}; only this address shows them. Ctrl-C ends it", directory.path().display()));
    let served = Served { directory, register: Register::default(), address: Address { port, key }, making: Mutex::new(()) };
    std::thread::scope(|threads| {
        threads.spawn(|| served.register.explain(&served.directory));
        for _ in 0..ANSWERING {
            threads.spawn(|| {
                // An error is the end: the accepting thread failed, or Ctrl-C was pressed.
                while let Ok(request) = server.recv() {
                    served.answer(request);
                }
                interrupt.wake();
            });
        }
        interrupt.wait();
        served.register.end();
        (0..ANSWERING).for_each(|_| server.unblock());
    });
    match interrupt.is_raised() {
        true => Ok(()),
        false => Err(Failure::failed("the server ended: it cannot accept connections any more")),
    }
}

impl Served {
    fn answer(&self, request: Request) {
        let hosts = request.headers().iter().filter(|header| header.field.equiv("Host")).map(|header| header.value.as_str());
        let reply = match self.address.wanted(request.method().as_str(), hosts, request.url()) {
            Err(Refused::Method) => Reply::message(405, "Not served", "Only GET and HEAD are."),
            Err(Refused::Host) => Reply::message(403, "Not served", "The Host header is not that of the printed address."),
            Err(Refused::Address) => Reply::message(404, "Not found", "Begin with the printed address."),
            Ok(Wanted::List) => self.list(),
            Ok(Wanted::Recording(name)) => self.recording(&name),
            Ok(Wanted::Comparison(before, after)) => self.comparison([before, after]),
        };
        // The reader may have gone.
        let _ = request.respond(response(reply));
    }

    fn list(&self) -> Reply {
        let shown = self.directory.path().display().to_string();
        let (entries, has_more) = match self.directory.entries() {
            Ok(entries) => entries,
            Err(e) => return Reply::message(500, "Not readable", &format!("{shown}: {e}")),
        };
        let listed = entries.iter().zip(self.register.of(&entries)).map(|(entry, known)| listed(entry, known)).collect::<Vec<_>>();
        let is_final =
            |one: &ListedRecording| one.known != KnownRecording::Waiting && !matches!(one.progress, RecordingProgress::BeingRecorded(_));
        let note = has_more.then(|| format!("There are more: the {MAX_LISTED} written last are listed."));
        let refresh_s = (!listed.iter().all(is_final)).then_some(REFRESH_S);
        Reply { refresh_s, ..Reply::of(list_page(&shown, &listed, note.as_deref())) }
    }

    fn recording(&self, name: &OsString) -> Reply {
        let (path, entry) = match self.directory.recording(name) {
            Ok(found) => found,
            Err(problem) => return Reply::message(404, "Not found", &problem),
        };
        let _making = self.making.lock();
        let begun = Instant::now();
        let made = explained(&path).and_then(|(recording, explanation)| super::drawn::page(&recording, &explanation, &Default::default()));
        let mut reply = match made {
            Ok(page) => Reply::of(page),
            Err(failure) => Reply::message(500, &name.to_string_lossy(), failure.message()),
        };
        if matches!(entry.progress, RecordingProgress::BeingRecorded(_)) {
            reply.refresh_s = Some((begun.elapsed() * SHOWN).max(SHOWN_LEAST).as_secs());
        }
        reply
    }

    fn comparison(&self, names: [OsString; 2]) -> Reply {
        let mut paths = Vec::new();
        for name in &names {
            match self.directory.recording(name) {
                Ok((path, _)) => paths.push(path),
                Err(problem) => return Reply::message(404, "Not found", &problem),
            }
        }
        let _making = self.making.lock();
        compared([&paths[0], &paths[1]]).unwrap_or_else(|failure| Reply::message(500, "Not comparable", failure.message()))
    }
}

/// Makes the page of two recordings. The reader chose them, so the page says where their work differs, and nothing is refused.
fn compared(paths: [&Path; 2]) -> Result<Reply, Failure> {
    let [before, after] = paths;
    let ((before_recording, before_explanation), (after_recording, after_explanation)) = (explained(before)?, explained(after)?);
    let options = DiffOptions { made: None, anyway: true };
    let found = diff(&before_explanation, &after_explanation, &options).map_err(|refused| Failure::failed(format!("{refused:?}")))?;
    let names = paths.map(|path| path.file_stem().unwrap_or_default().to_string_lossy());
    let recordings = [Some((&*before_recording as _, &before_explanation)), Some((&*after_recording as _, &after_explanation))];
    thalweg_report::diff_page(&found, [&*names[0], &*names[1]], recordings).map(Reply::of).map_err(Failure::failed)
}

fn listed(entry: &Entry, known: KnownRecording) -> ListedRecording {
    let written = entry.stamp.written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let written = jiff::Timestamp::from_second(i64::try_from(written.as_secs()).unwrap_or(0)).unwrap_or_default();
    ListedRecording {
        name: entry.name.to_string_lossy().into_owned(),
        encoded: encoded(&entry.name),
        written: written.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        size_bytes: entry.stamp.bytes,
        progress: entry.progress,
        known,
    }
}

/// Adds the headers.
fn response(reply: Reply) -> Response<std::io::Cursor<Vec<u8>>> {
    let policy = format!("{}; frame-ancestors 'none'", policy(&reply.html).unwrap_or("default-src 'none'"));
    let mut response = Response::from_data(reply.html.into_bytes()).with_status_code(reply.status);
    let mut add = |name: &str, value: &str| {
        if let Ok(header) = Header::from_bytes(name, value) {
            response.add_header(header);
        }
    };
    add("Content-Type", "text/html; charset=utf-8");
    add("Content-Security-Policy", &policy);
    add("X-Content-Type-Options", "nosniff");
    add("X-Frame-Options", "DENY");
    add("Referrer-Policy", "no-referrer");
    add("Cross-Origin-Opener-Policy", "same-origin");
    add("Cross-Origin-Resource-Policy", "same-origin");
    add("Cache-Control", "no-store");
    if reply.status == 405 {
        add("Allow", "GET, HEAD");
    }
    if let Some(refresh_s) = reply.refresh_s {
        add("Refresh", &refresh_s.to_string());
    }
    response
}

//! Pages of `thalweg report --serve` beside those of recordings: the list of a directory's recordings, and messages. They need no script.

use crate::picture::canvas::escape;
use crate::style::{STATIC_STYLE, STATIC_STYLE_HASH};
use std::fmt::Write;
use std::time::Duration;
use thalweg_base::numbers;

/// A recording of a list.
#[derive(Clone, Debug)]
pub struct ListedRecording {
    /// Its name.
    pub name: String,
    /// Its name in an address: percent-encoded.
    pub encoded: String,
    /// When it was last written: `2026-11-30 12:00:00 UTC`.
    pub written: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it is whole.
    pub progress: RecordingProgress,
    /// What is known of it.
    pub known: KnownRecording,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingProgress {
    /// It is finished.
    Whole,
    /// It has been recorded for this long.
    BeingRecorded(Duration),
    /// Its recorder ended without finishing it.
    Abandoned,
}

/// What is known of a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum KnownRecording {
    /// It is explained.
    Explained {
        /// Wall time in seconds.
        wall_s: f64,
        /// The sentence.
        sentence: String,
    },
    /// It is not explained yet.
    Waiting,
    /// It cannot be read or explained.
    Failed(String),
}

/// Makes the page that lists recordings. Two can be chosen to be compared.
pub fn list_page(directory: &str, recordings: &[ListedRecording], note: Option<&str>) -> String {
    let mut body = format!("<h1>Recordings in {}</h1>\n", escape(directory));
    if let Some(note) = note {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
    if recordings.is_empty() {
        body.push_str("<p>There are none yet. <code>thalweg record -o NAME.thw -- COMMAND</code> makes one.</p>\n");
        return page(directory, &body);
    }
    body.push_str(
        "<form action=\"diff\" method=\"get\">\n<div class=\"tables\"><table>\n<tr><th>before</th><th>after</th><th>recording, and what limited it</th>",
    );
    body.push_str("<th class=\"n wide\">lasted</th><th class=\"n wide\">size</th><th class=\"n wide\">written</th></tr>\n");
    recordings.iter().for_each(|recording| row(&mut body, recording));
    body.push_str("</table></div>\n<p><button>Compare the two chosen recordings</button></p>\n</form>\n");
    page(directory, &body)
}

fn row(body: &mut String, recording: &ListedRecording) {
    let (name, encoded) = (escape(&recording.name), escape(&recording.encoded));
    let choose = |which: &str| {
        let label = format!("{which}: {}", recording.name);
        format!("<td><input type=\"radio\" name=\"{which}\" value=\"{encoded}\" required aria-label=\"{}\"></td>", escape(&label))
    };
    let (wall_s, said) = match &recording.known {
        KnownRecording::Explained { wall_s, sentence } => (Some(*wall_s), escape(sentence)),
        KnownRecording::Waiting => (None, "<span class=\"faint\">not explained yet</span>".to_owned()),
        KnownRecording::Failed(error) => (None, format!("<span class=\"faint\">error:</span> {}", escape(error))),
    };
    let (lasted, state) = match recording.progress {
        RecordingProgress::Whole => (wall_s, ""),
        RecordingProgress::BeingRecorded(since) => (Some(since.as_secs_f64()), "<strong>being recorded</strong>. So far: "),
        RecordingProgress::Abandoned => (wall_s, "<strong>not finished</strong>: "),
    };
    let _ = writeln!(
        body,
        "<tr>{}{}<td><a href=\"recordings/{encoded}\"><bdi>{name}</bdi></a><br>{state}<bdi>{said}</bdi></td><td class=\"n wide\">{}</td>\
         <td class=\"n wide\">{}</td><td class=\"n wide\">{}</td></tr>",
        choose("before"),
        choose("after"),
        lasted.map(numbers::duration).unwrap_or_default(),
        numbers::size(recording.size_bytes),
        escape(&recording.written),
    );
}

/// Makes a page of a message: that something is not there or cannot be read.
pub fn message_page(title: &str, text: &str) -> String {
    page(title, &format!("<h1>{}</h1>\n<p>{}</p>\n", escape(title), escape(text)))
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{STATIC_STYLE_HASH}'; base-uri 'none'; \
         form-action 'self'\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>{STATIC_STYLE}</style>\n</head>\n<body class=\"served\">\n<main id=\"static\">\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Returns the content security policy of a page of this crate, for a server to send as a header too. In a header it can also forbid
/// frames.
pub fn policy(page: &str) -> Option<&str> {
    let tag = page.split_once("http-equiv=\"Content-Security-Policy\" content=\"")?.1;
    tag.split_once('"').map(|(policy, _)| policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, known: KnownRecording, progress: RecordingProgress) -> ListedRecording {
        ListedRecording { name: name.into(), encoded: "x.thw".into(), written: "now".into(), size_bytes: 4096, progress, known }
    }

    #[test]
    fn names_and_sentences_are_text() {
        let hostile = "\"><script>alert(1)</script>&\u{202e}\n";
        let known = KnownRecording::Explained { wall_s: 1.5, sentence: hostile.into() };
        let failed = listed(hostile, KnownRecording::Failed(hostile.into()), RecordingProgress::Abandoned);
        let page = list_page(hostile, &[listed(hostile, known, RecordingProgress::Whole), failed], Some(hostile));
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;") && page.contains("1.50 s"));
        assert!(!message_page(hostile, hostile).contains("<script"));
    }

    #[test]
    fn a_recording_in_progress_says_so() {
        let progress = RecordingProgress::BeingRecorded(Duration::from_secs(12));
        let page = list_page("/runs", &[listed("a.thw", KnownRecording::Waiting, progress)], None);
        assert!(page.contains("being recorded") && page.contains("12.0 s") && page.contains("not explained yet"), "{page}");
    }

    #[test]
    fn the_policy_is_that_of_the_page() {
        let found = policy(&message_page("t", "x")).unwrap().to_owned();
        assert!(found.starts_with("default-src 'none'; style-src 'sha256-") && found.ends_with("form-action 'self'"), "{found}");
    }
}

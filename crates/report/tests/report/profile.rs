//! A profile for people: a table that fits and adds up, and a page with pictures of it.

use crate::interactive::{from_base64, static_part};
use thalweg_explain::profile::document::{
    ClassCount, ClassLine, ClassShare, CountedFrom, EventCounts, FunctionShare, HostProfile, OverTime, OwnTime, ProgramShare, Rate,
    RecorderCost, Unsymbolised,
};
use thalweg_explain::profile::{FlameFunction, FlameStack, HostStacks};
use thalweg_report::{ProfileColumn, TextOptions, policy, profile, profile_page};

/// A machine with these classes and shares.
fn host(shares: &[(&str, f64)]) -> HostProfile {
    let row = |&(class, share): &(&str, f64)| ClassShare {
        class: class.into(),
        title: format!("title of {class}"),
        share: Some(share),
        low: Some(share * 0.9),
        high: Some(share * 1.1),
        seconds: Some(share * 20.0),
        samples: 100,
        guessed: 5,
    };
    let function = |n: usize| FunctionShare {
        function: format!("function_{n}_with<a_long_name, as_cpp_has<them>>::and_more()"),
        module: "/usr/lib/libx.so".into(),
        class: shares[n % shares.len()].0.into(),
        title: format!("title of {}", shares[n % shares.len()].0),
        share: Some(0.2 / (n + 1) as f64),
        samples: 100,
    };
    let line = |&(class, share): &(&str, f64)| ClassLine { class: class.into(), shares: vec![share; 50] };
    HostProfile {
        name: "here".into(),
        cpus: 2,
        wall_s: 10.0,
        busy_s: 8.0,
        samples: 8_000,
        enough: true,
        lost: 0,
        classes: shares.iter().map(row).collect(),
        purposes: shares.iter().map(row).collect(),
        functions: (0..9).map(function).collect(),
        programs: vec![ProgramShare {
            program: "nfsd".into(),
            role: "server".into(),
            processes: 8,
            share: Some(0.4),
            user_share: None,
            system_share: None,
            samples: 9,
            classes: vec![],
            purposes: vec![],
        }],
        over_time: OverTime { bin_s: 0.2, lines: shares.iter().map(line).collect() },
        guessed_share: Some(0.02),
        unsymbolised: Unsymbolised::default(),
        cost: RecorderCost::default(),
        rates: vec![Rate { what: "net.receive".into(), bytes: 1 << 30, bytes_per_s: 117_000_000.0 }],
        events: Vec::new(),
        counted: None,
    }
}

/// A machine without samples, on which these programs ran for such parts, half in their own code.
fn counted(programs: &[(&str, &str, f64)]) -> HostProfile {
    let row = |&(program, role, share): &(&str, &str, f64)| ProgramShare {
        program: program.into(),
        role: role.into(),
        processes: 1,
        share: Some(share),
        user_share: Some(share / 2.0),
        system_share: Some(share / 2.0),
        samples: 0,
        classes: vec![],
        purposes: vec![],
    };
    let from = CountedFrom {
        source: "/proc".into(),
        tick_s: 0.01,
        look_s: Some(0.2),
        no_samples:
            "no CAP_BPF, no CAP_PERFMON (kernel.perf_event_paranoid=2, kernel.unprivileged_bpf_disabled=2): run as root, or setcap \
                     cap_bpf,cap_perfmon+ep the command"
                .into(),
        rest: Some(0.03),
        over: None,
        own: None,
    };
    let classes = ["idle", "user", "system", "hardirq", "softirq", "steal"].map(|class| (class, 1.0 / 6.0));
    HostProfile {
        samples: 0,
        functions: Vec::new(),
        programs: programs.iter().map(row).collect(),
        guessed_share: None,
        rates: Vec::new(),
        counted: Some(from),
        ..host(&classes)
    }
}

/// Classes `a`, `b`, ... that add up to 1.
fn many(count: usize) -> Vec<(String, f64)> {
    let sum: f64 = (1..=count).map(|n| 1.0 / n as f64).sum();
    (1..=count).map(|n| (format!("class-{n}"), 1.0 / n as f64 / sum)).collect()
}

fn table(columns: &[(&str, &HostProfile)]) -> String {
    let columns: Vec<ProfileColumn<'_>> =
        columns.iter().map(|(name, profile)| ProfileColumn { name: (*name).to_owned(), profile }).collect();
    profile(&columns, &[], &TextOptions::default())
}

/// The lines before the first empty one.
fn first_block(text: &str) -> Vec<&str> {
    text.lines().take_while(|line| !line.is_empty()).collect()
}

#[test]
fn the_table_has_at_most_twenty_lines_of_eighty_columns_and_adds_up() {
    for (classes, columns) in [(1, 1), (7, 2), (18, 1), (18, 5), (40, 3)] {
        let shares = many(classes);
        let shares: Vec<(&str, f64)> = shares.iter().map(|(class, share)| (class.as_str(), *share)).collect();
        let host = host(&shares);
        let names: Vec<(&str, &HostProfile)> =
            ["read", "write", "a name that is much too long", "d", "e"].into_iter().map(|n| (n, &host)).collect();
        let text = table(&names[..columns]);
        let block = first_block(&text);
        assert!(block.len() <= 20, "{classes} classes:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let last = |line: &&str| line.split_whitespace().rev().nth(1).and_then(|figure| figure.parse::<f64>().ok()).unwrap_or(0.0);
        let sum: f64 = block.iter().skip(2).map(last).sum();
        assert!((sum - 100.0).abs() < 0.05, "{sum}\n{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("functi")).count(), 5, "{text}");
    }
}

#[test]
fn columns_have_the_classes_of_all_in_one_order_and_a_dash_where_one_has_none() {
    let (read, write) = (host(&[("idle", 0.5), ("net", 0.3), ("libc", 0.2)]), host(&[("idle", 0.4), ("fs", 0.5), ("libc", 0.1)]));
    let text = table(&[("read", &read), ("write", &write)]);
    let rows: Vec<String> = first_block(&text).iter().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = ["title of idle 50.0 % 40.0 %", "title of fs - 50.0 %", "title of net 30.0 % -", "title of libc 20.0 % 10.0 %"];
    assert_eq!(rows, expected, "{text}");
    assert!(text.contains("in") && text.contains("MiB/s"), "the rates are above: {text}");
}

#[test]
fn what_was_counted_fits_into_twenty_lines_and_says_why_there_are_no_samples() {
    let many: Vec<(&str, &str, f64)> = (0..30).map(|n| ("a-program-of-15", "none", 0.2 / f64::from(n + 1))).collect();
    let (one, other) =
        (counted(&[("tar", "client", 0.3), ("sshd", "server", 0.1), ("cron", "none", 0.01), ("x", "none", 0.0)]), counted(&many));
    let squeezed = |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    for columns in [vec![("here", &one)], vec![("there", &other)], vec![("here", &one), ("there", &other)]] {
        let text = table(&columns);
        assert!(text.lines().count() <= if columns.len() == 1 { 20 } else { 22 }, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("steps of 10 ms") && text.contains("CAP_PERFMON") && !text.contains("hottest"), "{text}");
    }
    let lines = squeezed(&table(&[("here", &one)]));
    for line in [
        "programs own code kernel",
        "tar (command) 15.0 % 15.0 %",
        "sshd (server) 5.0 % 5.0 %",
        "cron 0.5 % 0.5 %",
        "ended between two samples, or not seen 3.0 %",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
    let lines = squeezed(&table(&[("here", &one), ("there", &other)]));
    assert!(lines.iter().any(|line| line == "tar (command) 30.0 % -"), "{lines:#?}");
    // What was asked for comes first, and nothing is left out of the sum.
    let text = table(&[("there", &counted(&[("a", "none", 0.2), ("b", "none", 0.1), ("c", "none", 0.04), ("cp", "client", 0.01)]))]);
    let lines = squeezed(&text);
    let at = |row: &str| lines.iter().position(|line| line == row).unwrap_or_else(|| panic!("{row}: {text}"));
    assert!(at("cp (command) 0.5 % 0.5 %") < at("a 10.0 % 10.0 %") && at("a 10.0 % 10.0 %") < at("other programs 2.0 % 2.0 %"), "{text}");
    let short = HostProfile { enough: false, ..one.clone() };
    let text = table(&[("here", &short)]);
    assert!(text.contains("too short") && !text.contains('%'), "{text}");
    let over = HostProfile { counted: one.counted.clone().map(|c| CountedFrom { rest: Some(0.0), over: Some(0.02), ..c }), ..one.clone() };
    assert!(squeezed(&table(&[("here", &over)])).join(" ").contains("2.0 % more than the processors'"));
}

#[test]
fn samples_of_own_programs_have_functions_and_the_rest_is_said_to_be_counted() {
    let base = counted(&[("gzip", "client", 0.3)]);
    let own = OwnTime { run_s: 1.9, user_s: 1.8, kernel_s: 0.09, short_s: 0.01 };
    let with = |own| HostProfile {
        samples: 1_794,
        functions: host(&[("program", 0.4)]).functions,
        counted: base.counted.clone().map(|counted| CountedFrom { own: Some(own), ..counted }),
        ..base.clone()
    };
    let text = table(&[("here", &with(own))]);
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("hottest functions"), "{text}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["1,794 samples of the code of own programs, which ran 1.90 s: 1.80 s in it, 90", "everything else counted by /proc"] {
        assert!(said.contains(part), "{part}: {text}");
    }
    assert!(said.contains("Samples of the kernel and of other programs: no CAP_BPF") && !said.contains("too briefly"), "{text}");
    let brief = table(&[("here", &with(OwnTime { run_s: 1.9, user_s: 0.5, kernel_s: 0.4, short_s: 1.0 }))]);
    assert!(brief.split_whitespace().collect::<Vec<_>>().join(" ").contains("1.00 s too briefly for a sample"), "{brief}");
}

#[test]
fn events_have_their_classes_and_what_follows_from_two_of_them() {
    let event = |name: &str, counts: [u64; 2], per_byte: Option<f64>| EventCounts {
        event: name.into(),
        count: counts.iter().sum(),
        per_byte,
        classes: ["net", "libc"]
            .into_iter()
            .zip(counts)
            .map(|(class, count)| ClassCount { class: class.into(), count, per_byte })
            .collect(),
    };
    let events =
        vec![event("cycles", [3_000_000_000, 1_000_000_000], Some(3.7)), event("instructions", [1_500_000_000, 2_000_000_000], None)];
    let with = HostProfile { events, ..host(&[("idle", 0.5), ("net", 0.3), ("libc", 0.2)]) };
    let text = table(&[("here", &with)]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in
        ["events cycles instructions instr/cycle cycles/byte", "all 4.00 G 3.50 G 0.88 3.70", "title of libc 1.00 G 2.00 G 2.00 3.70"]
    {
        assert!(lines.iter().any(|found| found == line), "{line}: {text}");
    }
    assert!(!table(&[("here", &host(&[("idle", 1.0)]))]).contains("cycle"), "nothing where nothing was counted");
}

#[test]
fn too_few_samples_are_counted_and_have_no_percentages() {
    let few = HostProfile { samples: 42, enough: false, ..host(&[("idle", 0.5)]) };
    let text = table(&[("run", &few)]);
    assert!(text.contains("42 samples") && !text.contains('%'), "{text}");
}

#[test]
fn a_page_has_the_bars_the_times_and_a_flame_graph_that_can_be_searched() {
    let host = host(&[("idle", 0.5), ("net", 0.3), ("libc", 0.2)]);
    let function =
        |name: &str, class: &str| FlameFunction { name: name.into(), module: "m".into(), class: Some(class.into()), is_user: false };
    let stack = |frames: &[u32], share: f64| FlameStack {
        program: "nfsd<x>".into(),
        frames: frames.to_vec(),
        class: "net".into(),
        share,
        samples: 100,
    };
    let stacks = HostStacks {
        functions: vec![function("main", "program"), function("tcp_sendmsg", "net"), function("narrow & small", "net")],
        stacks: vec![stack(&[0], 0.1), stack(&[0, 1], 0.4), stack(&[0, 1, 2], 0.000_01)],
    };
    let page = profile_page(&[ProfileColumn { name: "run".into(), profile: &host }], &[&stacks], &[]);
    assert_eq!(static_part(&page).matches("<svg").count(), 3, "bars, times, flame graph");
    assert!(page.contains("data-n=\"tcp_sendmsg\"") && page.contains("data-n=\"nfsd&lt;x&gt;\"") && page.contains("type=\"search\""));
    assert!(!page.contains("narrow &amp; small"), "what nobody can see is left out");
    let fixed = static_part(&page);
    for refused in ["src=", "<link", " style=", "<script>alert"] {
        assert!(!fixed.contains(refused), "{refused}");
    }
    let script = fixed.split_once("<script><![CDATA[").unwrap().1.split_once("]]></script>").unwrap().0;
    let digest = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
    let scripts = policy(&page).unwrap().split(';').find_map(|part| part.trim().strip_prefix("script-src")).unwrap();
    let hashes: Vec<_> = scripts.split('\'').filter_map(|part| part.strip_prefix("sha256-")).map(from_base64).collect();
    assert!(hashes.len() == 2 && hashes.iter().any(|hash| hash == digest.as_ref()), "the script's hash is in {scripts}");
    // Callers are as wide as what they call and what ran in them.
    let width = |name: &str| {
        let node = page.split("<g ").find(|node| node.contains(&format!("data-n=\"{name}\""))).expect("a function");
        node.split("data-w=\"").nth(1).and_then(|rest| rest.split('"').next()).and_then(|width| width.parse::<f64>().ok()).expect("a width")
    };
    assert!((width("main") - 1.0).abs() < 1e-5 && (width("tcp_sendmsg") - 0.8).abs() < 1e-3, "{} {}", width("main"), width("tcp_sendmsg"));
}

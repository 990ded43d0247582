use super::*;
use std::path::Path;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// What is advised for a change of this command, as a line.
fn change(line: &str, id: &str, facts: &[(&'static str, &str)]) -> Option<Advised> {
    let facts: Vec<Fact> = facts.iter().map(|&(name, value)| Fact { name, value: value.to_owned() }).collect();
    Asked { command: &words(line), facts: &facts }.for_change(id)
}

/// What `sh -c` is given instead of this text.
fn change_in_shell(text: &str, id: &str) -> String {
    let command: Vec<String> = ["sh", "-c", text].map(str::to_owned).to_vec();
    Asked { command: &command, facts: &[] }.for_change(id).map(|advised| advised.command[2].clone()).unwrap()
}

fn cause(line: &str, cause: &str, who: &str) -> Vec<String> {
    let advised = Asked { command: &words(line), facts: &[] }.for_cause(cause, who, false);
    advised.into_iter().map(|advised| if advised.command.is_empty() { advised.says } else { advised.command.join(" ") }).collect()
}

#[test]
fn every_recipe_is_read_and_every_parameter_has_a_source_and_a_value_besides_its_default() {
    for recipe in Recipe::embedded() {
        let is_ours = recipe.program.source.starts_with("docs/");
        assert!(is_ours || recipe.program.source.starts_with("http"), "{}", recipe.name);
        for parameter in &recipe.parameters {
            assert!(!parameter.source.is_empty() && !parameter.title.is_empty(), "{} {}", recipe.name, parameter.name);
            assert!(parameter.flags.contains(&parameter.write), "{} {}: {}", recipe.name, parameter.name, parameter.write);
            let own = parameter.conflicts.iter().find(|conflict| parameter.flags.contains(&conflict.word));
            assert!(own.is_none(), "{} {} conflicts with itself", recipe.name, parameter.name);
        }
    }
}

#[test]
fn every_file_of_recipes_is_embedded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut files: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    files.retain(|name| name.ends_with(".toml"));
    files.sort();
    let embedded: Vec<String> = embedded::EMBEDDED.iter().map(|(name, _)| format!("{name}.toml")).collect();
    assert_eq!(files, embedded);
}

#[test]
fn where_an_advice_says_it_was_tried_there_is_a_scenario() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenarios");
    let commands = std::fs::read_to_string(scenarios.join("../answers/commands.toml")).unwrap();
    for recipe in Recipe::embedded() {
        for advice in recipe.advice.iter().filter(|advice| advice.tried != check::NOT_TRIED) {
            let known = match advice.tried.strip_prefix("answers/") {
                Some(name) => commands.contains(&format!("\nname = \"{name}\"\n")),
                None => scenarios.join(format!("{}.toml", advice.tried)).is_file(),
            };
            assert!(known, "{}: tried = {}", recipe.name, advice.tried);
        }
    }
}

#[test]
fn a_recipe_that_is_none_is_refused_with_the_table_and_the_field() {
    let good = embedded::EMBEDDED.iter().find(|(name, _)| *name == "dd").unwrap().1;
    let wrong = |old: &str, new: &str| {
        assert!(good.contains(old), "{old}");
        Recipe::parse("mine.toml", &good.replacen(old, new, 1)).unwrap_err().to_string()
    };
    let says = |error: String, parts: &[&str]| parts.iter().for_each(|part| assert!(error.contains(part), "{part}: {error}"));
    says(Recipe::parse("mine.toml", "x = 1").unwrap_err().to_string(), &["mine.toml: not a recipe"]);
    says(wrong("place = \"end\"", "place = \"middle\""), &["parameter block", "expected before-operands"]);
    says(wrong("unit = \"\"", "unit = \"x\""), &["unit `x`"]);
    says(wrong("for = [\"no_sync\"]", "about = [\"no_sync\"]"), &["unknown field `about`"]);
    says(wrong("for = [\"no_sync\"]\n", ""), &["advice 1 (for nothing)", "neither `for` nor `cause`"]);
    says(wrong("tried = \"dd-sync-each-write\"", "tried = \"yes, once\""), &["advice 1 (for no_sync)", "tried `yes, once`"]);
    says(wrong("when = [\"mount\"]", "when = [\"moon\"]"), &["`moon` is not a fact", "strict"]);
    says(wrong("{if=}", "{if}"), &["{if} is not a placeholder"]);
    says(
        wrong("parameter = \"block\", value = \"1Mi\"", "parameter = \"size\", value = \"1Mi\""),
        &["no parameter `size`; the recipe has block"],
    );
    says(wrong("written = \"1M\"", "written = \"2M\""), &["`written` is a different number"]);
    says(wrong("value = \"64Ki\"", "value = \"much\""), &["`much` is not a number"]);
}

#[test]
fn what_is_left_out_is_a_word_an_item_of_a_list_or_a_flag_with_its_value() {
    let command = |line: &str, id: &str| change(line, id, &[]).unwrap().command.join(" ");
    assert_eq!(command("dd if=a of=b bs=1M oflag=dsync status=none", "no_sync"), "dd if=a of=b bs=1M status=none");
    assert_eq!(command("sudo dd if=a of=b oflag=direct,sync", "no_sync"), "sudo dd if=a of=b oflag=direct");
    assert_eq!(command("dd if=a of=b conv=notrunc,fsync", "no_sync"), "dd if=a of=b conv=notrunc");
    assert_eq!(command("rsync -a --bwlimit=4M a h:b", "no_think"), "rsync -a a h:b");
    assert_eq!(command("curl -sS --limit-rate 16M -o f http://h/f", "no_think"), "curl -sS -o f http://h/f");
    assert!(change("dd if=a of=b conv=fsync", "no_sync", &[]).unwrap().gives_up.unwrap().contains("durability"));
    assert_eq!(change("dd if=a of=b", "no_sync", &[]), None);
    assert_eq!(cause("rsync -avz a h:b", "client.cpu", "rsync"), ["rsync -av a h:b"]);
}

#[test]
fn a_parameter_is_set_where_it_stands_or_where_it_belongs_and_never_above_its_largest() {
    let command = |line: &str, id: &str| change(line, id, &[]).unwrap().command.join(" ");
    assert_eq!(command("globus-url-copy -p 4 file:///a ftp://h/b", "streams.x4"), "globus-url-copy -p 16 file:///a ftp://h/b");
    assert_eq!(command("globus-url-copy file:///a ftp://h/b", "streams.x4"), "globus-url-copy -p 4 file:///a ftp://h/b");
    assert_eq!(command("aria2c http://h/a", "streams.x4"), "aria2c -s 4 -x 4 http://h/a");
    assert_eq!(command("scp a h:b", "requests.x4"), "scp -Xnrequests=256 a h:b");
    assert_eq!(command("rclone --config c copy a r:b --transfers 16", "requests.x4"), "rclone --config c copy a r:b --transfers 32");
    assert_eq!(change("rclone copy a r:b --transfers=32", "requests.x4", &[]), None);
    let window = change("globus-url-copy file:///a ftp://h/b", "window.x4", &[]).unwrap();
    assert!(window.command.is_empty() && window.says.contains("-tcp-bs"), "{window:?}");
    assert_eq!(cause("dd if=a of=b", "client.cpu", "dd"), ["dd if=a of=b bs=1M"]);
    assert!(cause("dd if=a of=b bs=1M", "client.cpu", "dd").is_empty());
    assert!(cause("dd if=a of=b count=3", "client.cpu", "dd").is_empty(), "another block would be another amount");
    assert_eq!(
        command("nfs-client read nfs://h/f --depth 16 --window 1 --window-max 1", "requests.x4"),
        "nfs-client read nfs://h/f --depth 16 --window 4 --window-max 4"
    );
    assert_eq!(
        command("nfs-client walk nfs://h/d --depth 1 --sample 0", "walk.window.32"),
        "nfs-client walk nfs://h/d --depth 32 --sample 0"
    );
}

#[test]
fn a_new_command_has_a_place_for_every_word_of_the_old_one_or_is_not_made() {
    let overlapped = |line: &str| change(line, "overlap.read_send", &[]).unwrap().command;
    assert_eq!(overlapped("dd if=a of=b bs=4M conv=fsync"), ["sh", "-c", "dd if=a bs=4M | dd of=b bs=4M iflag=fullblock conv=fsync"]);
    assert_eq!(overlapped("nice -n 5 dd if=a of=b")[..3], ["nice", "-n", "5"]);
    let strange: Vec<String> = ["cp", "it's a file", "b"].map(str::to_owned).into();
    let cp = Asked { command: &strange, facts: &[] }.for_change("overlap.read_send").unwrap();
    assert_eq!(cp.command[2], "dd if='it'\\''s a file' bs=1M status=none | dd of=b bs=1M iflag=fullblock status=none");
    for text in ["cp -r a b", "cp a b c", "cp -t d a", "dd if=a of=b skip=4", "dd if=a of=b ibs=1k bs=4k"] {
        assert!(overlapped(text).is_empty(), "{text}: words in place of a command");
    }
    assert_eq!(change("curl -sS -O http://h/f", "streams.x4", &[]).unwrap().command.join(" "), "aria2c -x 4 -s 4 -k 1M http://h/f");
    assert_eq!(
        change("psql -1f a.sql", "no_sync", &[]).unwrap().command.join(" "),
        "env PGOPTIONS=-c synchronous_commit=off psql -1f a.sql"
    );
}

#[test]
fn facts_of_a_run_choose_the_advice_and_fill_its_words() {
    let mount = ("mount", "/mnt/s");
    let dd = |facts: &[(&'static str, &str)]| change("dd if=/mnt/s/a of=b bs=1M", "requests.x4", facts).unwrap();
    assert_eq!(dd(&[mount]).command.join(" "), "dd if=/mnt/s/a of=b bs=16M");
    assert!(dd(&[mount, ("strict", "/mnt/s")]).says.starts_with("mount /mnt/s without --strict"));
    let wide = change("cat a", "layout.wide", &[mount, ("servers", "4")]).unwrap();
    assert!(wide.says.starts_with("setfattr -n user.thalweg.layout -v 'simple_stripe datafiles=4' /mnt/s:"), "{}", wide.says);
    assert_eq!(change("cat a", "layout.wide", &[]), None);
    assert_eq!(change("cat a", "window.x4", &[]).unwrap().recipe, "linux-tcp");
}

#[test]
fn what_loses_no_data_comes_before_what_may() {
    let changed =
        |line: &str, id: &str| change(line, id, &[]).map(|a| if a.command.is_empty() { a.says } else { a.command.join(" ") }).unwrap();
    assert_eq!(changed("psql -f a.sql", "sync_once"), "psql --single-transaction -f a.sql");
    for line in ["sqlite3 a.db", "mariadb shop"] {
        assert!(["BEGIN", "START TRANSACTION"].iter().any(|begin| changed(line, "sync_once").starts_with(begin)), "{line}");
    }
    assert!(changed("pg_restore -d shop a.dump", "no_sync").contains("--single-transaction"));
    assert_eq!(changed("dd if=a of=b bs=4k oflag=dsync", "sync_once"), "dd conv=fsync if=a of=b bs=4k");
    assert_eq!(changed("find . -name *.log -exec gzip {} ;", "start_once"), "find . -name *.log -exec gzip {} +");
    let stage = change_in_shell("cat ins.sql | sqlite3 shop.db", "no_sync");
    assert_eq!(stage, "cat ins.sql | sqlite3 -cmd 'PRAGMA synchronous=OFF' shop.db", "words that were added are quoted for the shell");
}

#[test]
fn a_library_that_a_script_imports_has_a_recipe_of_its_own() {
    let facts = |more: &[(&'static str, &'static str)]| [&[("modules", "os paramiko sys")], more].concat();
    let says = |more: &[(&'static str, &'static str)]| change("python3 job.py", "requests.x4", &facts(more)).unwrap().says;
    assert!(says(&[]).contains("prefetch"), "{}", says(&[]));
    assert!(says(&[("in_flight", "2097152")]).contains("window_size"));
    assert!(change("python3 job.py", "requests.x4", &[]).unwrap().says.contains("ThreadPoolExecutor"), "nothing is known of its modules");
    assert_eq!(change("./job", "requests.x4", &facts(&[])).unwrap().recipe, "paramiko", "whatever the script is called");
    let good = embedded::EMBEDDED.iter().find(|(name, _)| *name == "paramiko").unwrap().1;
    let both = good.replace("names = []", "names = [\"python3\"]");
    assert!(Recipe::parse("mine.toml", &both).unwrap_err().to_string().contains("both `names` and `uses`"));
    let strange = good.replace("fact = \"in_flight\"", "fact = \"moon\"");
    assert!(Recipe::parse("mine.toml", &strange).unwrap_err().to_string().contains("`moon` is not a fact"));
}

#[test]
fn what_served_the_command_or_worked_for_it_is_changed_in_words() {
    let of = |line: &str, facts: &[(&'static str, &str)]| change(line, "requests.x4", facts);
    let dropbear = of("ssh-pipe", &[("peers", "dropbear")]).unwrap();
    assert!(dropbear.command.is_empty() && dropbear.says.starts_with("dropbear -W 1048576"), "{dropbear:?}");
    assert_eq!(of("dropbear -F -p 22", &[]).unwrap().command.join(" "), "dropbear -W 1048576 -F -p 22");
    assert_eq!(of("./loop.sh", &[("programs", "lftp loop.sh seq")]).unwrap().recipe, "lftp");
    assert_eq!(of("./loop.sh", &[("programs", "lftp redis-cli")]), None, "nobody knows which of them");
    assert_eq!(of("sh -c x", &[("programs", "sh"), ("peers", "php-fpm8.2")]).unwrap().recipe, "php-fpm");
    let facts = [("peers", "nginx postgres")].map(|(name, value)| Fact { name, value: value.to_owned() });
    let command = words("curl -o f http://h/f");
    let server = Asked { command: &command, facts: &facts }.for_cause("server.read", "nginx", true);
    assert!(server.iter().any(|advised| advised.says.starts_with("nginx: aio threads")), "{server:?}");
}

#[test]
fn a_command_that_a_shell_is_given_is_changed_in_its_text() {
    let command: Vec<String> = ["sh", "-c", "scp a h:b > log"].map(str::to_owned).into();
    let advised = Asked { command: &command, facts: &[] }.for_change("requests.x4").unwrap();
    assert_eq!(advised.command[2], "scp -Xnrequests=256 a h:b > log");
}

#[test]
fn who_was_charged_decides_what_helps_against_a_cause() {
    assert_eq!(cause("tar czf a.tgz d", "client.cpu", "gzip"), ["tar -I pigz -cf a.tgz d"]);
    assert_eq!(cause("tar -cJf a.txz d", "client.cpu", "xz"), ["tar -I xz -T0 -cf a.txz d"]);
    assert!(cause("tar xzf a.tgz", "client.cpu", "gzip").iter().all(|text| !text.contains("-I")));
    assert_eq!(cause("gzip -9 a", "client.cpu", "gzip"), ["pigz -9 a"]);
    assert!(cause("gzip -d a.gz", "client.cpu", "gzip").is_empty());
    assert_eq!(cause("rsync -a a h:b", "client.cpu", "ssh"), ["rsync -e ssh -c aes128-gcm@openssh.com -a a h:b"]);
    let piped = cause("sh -c x", "client.cpu", "gzip");
    assert!(piped.len() == 1 && piped[0].starts_with("pigz"), "{piped:?}");
    assert!(cause("true", "client.cpu", "true").is_empty());
}

#[test]
fn a_stage_of_a_shells_pipeline_is_changed_where_the_shell_reads_nothing_in_it() {
    let shell = |text: &str, who: &str| {
        let command: Vec<String> = ["sh", "-c", text].map(str::to_owned).into();
        let facts = [Fact { name: "processors", value: "2".to_owned() }];
        let advised = Asked { command: &command, facts: &facts }.for_cause("client.cpu", who, false);
        advised.into_iter().filter(|advised| !advised.command.is_empty()).map(|advised| advised.command[2].clone()).collect::<Vec<_>>()
    };
    assert_eq!(shell("find d -name '*.log' | xargs -n 1 gzip -k", "gzip"), ["find d -name '*.log' | xargs -P 2 -n 1 gzip -k"]);
    assert!(shell("find d | xargs -P 4 -n 1 gzip", "gzip").is_empty(), "it has several at a time");
    assert!(shell("find d | xargs gzip", "gzip").is_empty(), "one gzip has them all");
    assert!(shell("find d | xargs -n 1 gzip; echo $?", "gzip").is_empty(), "the shell reads the stage");
    assert!(shell("echo 'a | xargs -n 1 gzip'", "gzip").is_empty(), "that is a text");
}

#[test]
fn many_operands_are_worked_on_at_a_time() {
    let facts = [Fact { name: "processors", value: "2".to_owned() }];
    let advised = |line: &str, who: &str| {
        let command = words(line);
        let found = Asked { command: &command, facts: &facts }.for_cause("client.cpu", who, false);
        found.first().map(|advised| advised.command.clone()).unwrap_or_default()
    };
    assert_eq!(advised("sha256sum a b&c", "sha256sum"), ["sh", "-c", "printf '%s\\0' a 'b&c' | xargs -0 -n 1 -P 2 sha256sum"]);
    assert!(advised("sha256sum a", "sha256sum").is_empty(), "one file is one processor's work");
    assert!(advised("sha256sum -c sums more", "sha256sum").is_empty(), "flags have no place in the new command");
    assert_eq!(advised("make -C parser all", "cc1"), words("make -j2 -C parser all"));
    assert!(advised("make -j4", "cc1").is_empty());
}

#[test]
fn what_is_cut_into_pieces_is_spread_where_there_are_two() {
    let of = |line: &str, who: &str, read_mib: u64| {
        let fact = |name, value: u64| Fact { name, value: value.to_string() };
        let facts = [fact("processors", 2), fact("read_bytes", read_mib << 20), fact("part_mib", read_mib.div_ceil(2))];
        let advised = Asked { command: &words(line), facts: &facts }.for_change_of("processors.all", who)?;
        Some((advised.command.join(" "), advised.pieces))
    };
    assert_eq!(of("xz -k -3 log", "xz", 30), Some(("xz -T0 -k -3 log".to_owned(), Some(3))));
    let smaller = "xz -T0 --block-size=4MiB -9 log".to_owned();
    assert_eq!(of("xz -9 log", "xz", 8), Some((smaller, None)), "one block of 192 MiB is one thread's");
    assert_eq!(of("zstd -12 log", "zstd", 12), None, "one job of 16 MiB is one thread's");
    assert_eq!(of("zstd -12 log", "zstd", 96), Some(("zstd -T0 -12 log".to_owned(), Some(6))));
    assert_eq!(of("xz -T1 -1 log", "xz", 8), Some(("xz -T0 -1 log".to_owned(), Some(3))), "one thread was asked for");
    assert_eq!(of("tar -cJf a.txz d", "xz", 20), None);
    assert_eq!(of("tar -czf a.tgz d", "gzip", 20), Some(("tar -I pigz -cf a.tgz d".to_owned(), None)));
    assert_eq!(of("tar -czf a.tgz d", "tar", 20), None, "tar itself is one thread");
    let command: Vec<String> = ["sh", "-c", "tar -cf - d | gzip > d.tgz"].map(str::to_owned).into();
    let in_shell = Asked { command: &command, facts: &[] }.for_change_of("processors.all", "gzip");
    assert_eq!(in_shell.map(|advised| advised.command[2].clone()).as_deref(), Some("tar -cf - d | pigz > d.tgz"));
}

#[test]
fn where_data_is_compressed_the_cipher_is_not_what_is_changed() {
    assert_eq!(cause("scp -C a h:b", "client.cpu", "ssh"), ["scp a h:b"]);
    assert_eq!(cause("scp a h:b", "client.cpu", "ssh"), ["scp -c aes128-gcm@openssh.com a h:b"]);
    assert_eq!(
        change("curl -s -o f#1 http://h/[1-9]", "requests.x4", &[]).unwrap().command.join(" "),
        "curl -Z --parallel-max 4 -s -o f#1 http://h/[1-9]"
    );
    assert_eq!(cause("rsync -ac a b", "client.cpu", "rsync"), ["rsync -a a b"]);
}

#[test]
fn a_recipe_is_text_with_what_each_advice_gives_up_and_whether_it_was_tried() {
    let dd = Recipe::embedded().iter().find(|recipe| recipe.name == "dd").unwrap();
    let text = text(dd).join("\n");
    for part in
        ["dd: copies and converts", "no_sync: leave out", "gives up: durability", "tried in dd-sync-each-write", "block: bytes of one read"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_list_of_addresses_is_fetched_several_at_a_time() {
    let fetched = |line: &str| change(line, "requests.x4", &[]).unwrap().command;
    assert_eq!(fetched("wget -q -P copies -i urls.txt"), ["sh", "-c", "xargs -n 1 -P 8 wget -q -P copies <urls.txt"]);
    for line in [
        "wget -q -i -",
        "wget -i urls.txt http://h/a",
        "wget -O all -i urls.txt",
        "wget -i http://h/list",
        "wget -r http://h/",
        "wget -ci urls.txt",
    ] {
        assert!(fetched(line).is_empty(), "{line}: words in place of a command");
    }
}

/// The text that takes the place of a shell's loop for a what-if, or for what a program was charged with.
fn looped(text: &str, id: &str, who: Option<&str>) -> Option<String> {
    let command: Vec<String> = ["sh", "-c", text].map(str::to_owned).into();
    let facts = [Fact { name: "processors", value: "2".to_owned() }, Fact { name: "network", value: "12".to_owned() }];
    let asked = Asked { command: &command, facts: &facts };
    let found = match who {
        Some(who) if id.contains("client.") || id.contains("network.") => asked.for_cause(id, who, true).into_iter().next(),
        Some(who) => asked.for_change_of(id, who),
        None => asked.for_change(id),
    };
    found.map(|advised| advised.command.join(" ")).filter(|text| !text.is_empty())
}

#[test]
fn a_loop_of_one_program_becomes_one_process_that_gets_all() {
    let once = |text: &str| looped(text, "connect_once", None);
    let curl = "for i in $(seq 9); do curl -sS -H 'A: b' -o copy-$i http://h/a-$i.log; done";
    let all = r#"sh -c for i in $(seq 9); do echo "-o copy-$i http://h/a-$i.log"; done | xargs -L 100 curl -sS -H 'A: b'"#;
    assert_eq!(once(curl).as_deref(), Some(all));
    let named = r#"sh -c for i in 1 2; do echo "-fsSLO http://h/$i"; done | xargs -L 100 curl"#;
    assert_eq!(once("for i in 1 2; do curl -fsSLO http://h/$i; done").as_deref(), Some(named), "-O is for one address");
    let bundled = r#"sh -c for i in 1 2; do echo "-sSo f$i http://h/$i"; done | xargs -L 100 curl"#;
    assert_eq!(once("for i in 1 2; do curl -sSo f$i http://h/$i; done").as_deref(), Some(bundled));
    let keys = r#"sh -c for i in $(seq 400); do echo "lrange key${i}s 0 -1"; done | redis-cli -h far >/dev/null"#;
    assert_eq!(once("for i in $(seq 400); do redis-cli -h far lrange key${i}s 0 -1 >/dev/null; done").as_deref(), Some(keys));
    let list = r#"sh -c for u in $(cat urls); do echo "$u"; done | wget -q -P copies -i -"#;
    assert_eq!(once("for u in $(cat urls); do wget -q -P copies $u; done").as_deref(), Some(list));
    for text in [
        "for i in 1 2; do curl -d x=$i http://h/a; done",
        "for i in 1 2; do curl -s \"http://h/a?b=$i&c\"; done",
        "for f in *; do curl http://h/$f; done",
        "for i in 1 2; do nice curl http://h/$i; done",
        "for i in 1 2; do curl -s -o f$i http://h/$i http://g/$i; done",
        "for i in 1 2; do wget -q http://h/$i http://g/$i; done",
        "for i in 1 2; do curl -s -T $i http://h/; done",
        "for i in 1 2; do redis-cli set key$i \"some words\"; done",
        "for i in 1 2; do wget -O f$i http://h/$i; done",
        "for i in 1 2; do curl -s http://h/$i >f$i; done",
    ] {
        assert_eq!(once(text), None, "{text}");
    }
}

#[test]
fn a_loop_over_files_has_as_many_commands_at_a_time_as_there_are_processors() {
    let side_by_side = |text: &str| looped(text, "commands.all", Some("gzip"));
    let files = r"sh -c printf '%s\0' logs/*.log | xargs -0 -P 2 -I {} gzip -k {}";
    assert_eq!(side_by_side("for f in logs/*.log; do gzip -k $f; done").as_deref(), Some(files));
    assert_eq!(side_by_side("for f in logs/*.log; do gzip -c $f; done"), None, "what is printed would be mixed");
    assert_eq!(side_by_side("for f in a b; do gzip $f.log all.log; done"), None, "all may write the last");
    let pigz = "sh -c for f in *.log; do pigz -k $f; done";
    assert_eq!(looped("for f in *.log; do gzip -k $f; done", "processors.all", Some("gzip")).as_deref(), Some(pigz));
    assert_eq!(looped("for f in *.log; do xz $f; done", "processors.all", Some("xz")), None, "how large each is nobody knows");
    let psql = "for f in a.sql b.sql; do psql -f $f; done";
    assert_eq!(looped(psql, "commands.all", Some("psql")), None, "one may need what an earlier one made");
}

#[test]
fn a_command_in_a_loop_is_changed_where_it_stands() {
    let kept =
        "sh -c for h in a b; do ssh -o ControlMaster=auto -o 'ControlPath=~/.ssh/%C' -o ControlPersist=10 \"$h\" df -h >/dev/null; done";
    assert_eq!(looped("for h in a b; do ssh \"$h\" df -h >/dev/null; done", "network.latency", Some("sshd")).as_deref(), Some(kept));
    assert_eq!(
        looped("for f in a b; do scp -l 800 $f h:; done", "no_think", None).as_deref(),
        Some("sh -c for f in a b; do scp $f h:; done")
    );
}

#[test]
fn what_a_run_read_and_sent_says_whether_compressing_brought_anything() {
    let of = |line: &str, cause: &str, who: &str, name: &'static str, percent: &str| {
        let facts = [Fact { name: "network", value: "1".to_owned() }, Fact { name, value: percent.to_owned() }];
        let found = Asked { command: &words(line), facts: &facts }.for_cause(cause, who, true);
        found.first().map(|advised| advised.command.join(" ")).unwrap_or_default()
    };
    assert_eq!(of("rsync -az d h:d", "client.runqueue", "ssh", "sent_of_read", "100"), "rsync -a d h:d");
    assert_eq!(of("rsync -az d h:d", "client.runqueue", "ssh", "sent_of_read", "60"), "");
    assert_eq!(of("zip -qr d.zip d", "client.cpu", "zip", "written_of_read", "99"), "zip -0 -qr d.zip d");
    assert_eq!(of("zip -qr d.zip d", "client.cpu", "zip", "written_of_read", "30"), "");
    let far = change("scp -qr d/ h:/srv/", "requests.x4", &[]).unwrap();
    assert_eq!(far.command, ["rsync", "-rL", "d", "h:/srv/"]);
    assert_eq!(change("scp -pr d h:", "requests.x4", &[]), None, "what keeps times has no place in the new command");
    let many: Vec<String> = words("openssl dgst -sha512 a b c");
    let facts = [Fact { name: "processors", value: "2".to_owned() }];
    let side_by_side = Asked { command: &many, facts: &facts }.for_change_of("processors.all", "openssl").unwrap();
    assert_eq!(side_by_side.command[2], r"printf '%s\0' a b c | xargs -0 -n 1 -P 2 openssl dgst -sha512");
    assert_eq!(cause("tar cjf a.tbz d", "client.cpu", "bzip2"), ["tar -I lbzip2 -cf a.tbz d"]);
}

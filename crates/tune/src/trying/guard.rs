//! Commands that cannot be run a second time: they consume their input, or write to a device.

use thalweg_recipes::{at_program, program};

/// Returns the reason why a second run of this command would not find the same input; `None` if none is known. Each command in a shell's
/// text is checked.
pub fn consumes(command: &[String]) -> Option<String> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let own = words.iter().skip(at_program(&words));
    let text = own.skip_while(|word| **word != "-c").nth(1).filter(|_| SHELLS.contains(&program(&words)));
    let Some(text) = text else { return of_words(&words) };
    // Operands after a redirection are ignored.
    let words = |one: &str| of_words(&one.split(['<', '>']).next().unwrap_or_default().split_whitespace().collect::<Vec<_>>());
    text.split([';', '|', '&', '\n', '(', ')']).find_map(words)
}

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "zsh"];

fn of_words(words: &[&str]) -> Option<String> {
    let words = &words[words.iter().take_while(|word| word.contains('=') && !word.starts_with('-')).count()..];
    let rest = words.get(at_program(words) + 1..)?;
    let program = program(words);
    if matches!(program, "xargs" | "exec") {
        let is_flag = |word: &&&str| word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit());
        return of_words(&rest[rest.iter().take_while(is_flag).count()..]);
    }
    let first = rest.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let has = |long: &str| rest.iter().any(|word| *word == long || word.strip_prefix(long).is_some_and(|value| value.starts_with('=')));
    let short = |letter: char| rest.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter));
    let keeps = has("--keep") || has("--stdout") || has("--to-stdout") || has("--test") || has("--list") || "kctl".chars().any(short);
    match program {
        "mv" | "rm" | "rmdir" | "unlink" | "shred" | "truncate" => Some(format!("{program} takes away what it works on")),
        "thalweg" | "rclone" | "hadoop" | "git"
            if matches!(first, "mv" | "rm" | "move" | "moveto" | "delete" | "deletefile" | "purge" | "rmdir") =>
        {
            Some(format!("{program} {first} takes away what it works on"))
        }
        "rsync" if has("--remove-source-files") || has("--remove-sent-files") => {
            Some("rsync --remove-source-files takes its source away".to_owned())
        }
        "find" if rest.contains(&"-delete") => Some("find -delete takes away what it finds".to_owned()),
        "zstd" | "unzstd" if has("--rm") => Some(format!("{program} --rm takes away what it worked on")),
        "gzip" | "gunzip" | "pigz" | "unpigz" | "bzip2" | "bunzip2" | "pbzip2" | "xz" | "unxz" | "lzma" | "lzip" | "plzip"
            if !keeps && !first.is_empty() =>
        {
            Some(format!("{program} takes away what it worked on, unless -k is given"))
        }
        "tar" | "cpio" if has("--remove-files") => Some(format!("{program} --remove-files takes away what it packed")),
        _ => device(rest),
    }
}

/// Returns the device that is overwritten: by `of=`, or named as the output.
fn device(words: &[&str]) -> Option<String> {
    const HARMLESS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/stdout", "/dev/stderr", "/dev/fd", "/dev/shm"];
    let written = words.iter().find_map(|word| word.strip_prefix("of="))?;
    let is_device = written.starts_with("/dev/")
        && !HARMLESS.iter().any(|harmless| written == *harmless || written.starts_with(&format!("{harmless}/")));
    is_device.then(|| format!("it writes over {written}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Option<String> {
        consumes(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_that_take_their_input_away_are_known() {
        for (command, why) in [
            ("mv a b", "mv takes away"),
            ("sudo nice /bin/mv a b", "takes away"),
            ("thalweg mv thal://h/a thal://h/b", "thalweg mv"),
            ("rclone move a b", "rclone move"),
            ("rsync -a --remove-source-files a b", "--remove-source-files"),
            ("gzip big", "unless -k"),
            ("GZIP=-9 xargs -n 1 gzip big", "unless -k"),
            ("xz -T0 big", "unless -k"),
            ("zstd --rm big", "zstd --rm"),
            ("dd if=a of=/dev/vdb bs=1M", "writes over /dev/vdb"),
        ] {
            assert!(asked(command).is_some_and(|said| said.contains(why)), "{command}: {:?}", asked(command));
        }
        let shell = |text: &str| consumes(&["sh".to_owned(), "-c".to_owned(), text.to_owned()]);
        assert!(shell("cp a b && rm a").is_some_and(|why| why.contains("rm")));
        assert!(shell("tar c x | gzip -9 > y").is_none());
        for before in [vec!["sudo", "-u", "ana"], vec!["taskset", "-c", "0"]] {
            let words: Vec<String> = [before, vec!["sh", "-c", "gzip big"]].concat().into_iter().map(str::to_owned).collect();
            assert!(consumes(&words).is_some_and(|why| why.contains("unless -k")), "{words:?}");
        }
    }

    #[test]
    fn commands_that_leave_it_alone_may_be_run_again() {
        for command in [
            "cp a b",
            "dd if=/dev/zero of=x",
            "dd if=x of=/dev/null",
            "dd if=/dev/vdb of=x",
            "gzip -k big",
            "gzip -kf9 big",
            "xz --keep big",
            "zstd -f big",
            "rsync -a a b",
            "thalweg cp a thal://h/b",
            "sleep 1",
        ] {
            assert_eq!(asked(command), None, "{command}");
        }
    }
}

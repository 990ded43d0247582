use super::*;

fn recipe(name: &str) -> Recipe {
    let mut recipe = Recipe::embedded().iter().find(|recipe| recipe.name == name).unwrap().clone();
    // The installed version is irrelevant here.
    recipe.program.version = None;
    recipe
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn apply(name: &str, line: &str) -> Applied {
    super::apply(&recipe(name), &words(line), &[], |_| false).unwrap()
}

/// Returns the command with one parameter changed from `start`.
fn at(applied: &Applied, name: &str, label: &str) -> String {
    let choice = thalweg_study::sweep::Choice { command: applied.template.clone(), ..Default::default() };
    let place =
        applied.parameters.iter().position(|parameter| parameter.name == name).unwrap_or_else(|| panic!("no {name}: {:?}", applied.notes));
    let mut point = applied.start.clone();
    point[place] = label.to_owned();
    assert!(
        applied.parameters[place].values.iter().any(|value| value.label == label),
        "{name} has no {label}: {:?}",
        applied.parameters[place]
    );
    choice.grid(applied.parameters.clone()).map(|sweep| sweep.command(&point, "0").join(" ")).unwrap_or_else(|error| panic!("{error}"))
}

fn start(applied: &Applied) -> String {
    at(applied, &applied.parameters[0].name.clone(), &applied.start[0].clone())
}

#[test]
fn every_parameters_values_are_a_sweeps() {
    for recipe in Recipe::embedded() {
        checked(recipe.clone()).unwrap();
    }
}

#[test]
fn the_command_as_it_stands_is_the_default_of_every_recipe() {
    let lines = [
        ("gridftp", "globus-url-copy file:///a ftp://h/b"),
        ("gridftp", "globus-url-copy -p 4 -bs 4194304 file:///a ftp://h/b"),
        ("dd", "dd if=a of=b"),
        ("dd", "dd if=a of=b bs=64k conv=fsync"),
        ("rclone", "rclone copy a b --transfers=8"),
        ("rclone", "/usr/bin/rclone sync a b"),
        ("xrdcp", "xrdcp root://h//a b"),
        ("aria2c", "aria2c -x4 http://h/a"),
        ("rsync", "rsync -a a b"),
        ("nfs-cp", "nfs-cp nfs://h/a b"),
        ("nfs-cp", "nfs-cp nfs://h/a?readahead=131072&uid=1 b"),
        ("thalweg-cp", "thalweg cp a thal://h/b"),
    ];
    let recipes = Recipe::embedded();
    for (name, line) in lines {
        assert_eq!(Recipe::find(recipes, &words(line)).map(|recipe| recipe.name.as_str()), Some(name), "{line}");
        let applied = apply(name, line);
        assert_eq!(start(&applied), line, "{:?}", applied.template);
    }
    for other in ["rclone serve http a", "thalweg ls", ""] {
        assert!(Recipe::find(recipes, &words(other)).is_none(), "{other}");
    }
}

#[test]
fn values_are_written_as_the_program_takes_them() {
    let gridftp = apply("gridftp", "globus-url-copy file:///a ftp://h/b");
    assert!(at(&gridftp, "streams", "4").contains("globus-url-copy -p 4 ") || at(&gridftp, "streams", "4").contains(" -p 4 "));
    assert_eq!(at(&apply("dd", "dd if=a of=b"), "block", "64Ki"), "dd if=a of=b bs=65536");
    assert_eq!(at(&apply("dd", "dd bs=4k if=a of=b"), "block", "1Mi"), "dd bs=1048576 if=a of=b");
    assert!(at(&apply("rclone", "rclone copy a b"), "requests", "16").contains("rclone copy --transfers=16 a b"));
    assert_eq!(at(&apply("nfs-cp", "nfs-cp nfs://h/a b"), "readahead", "1Mi"), "nfs-cp nfs://h/a?readahead=1048576 b");
    assert_eq!(at(&apply("nfs-cp", "nfs-cp nfs://h/a?uid=1 b"), "readahead", "1Mi"), "nfs-cp nfs://h/a?uid=1&readahead=1048576 b");
    let both = at(&apply("aria2c", "aria2c http://h/a"), "streams", "8");
    assert!(both.contains("-x 8") && both.contains("-s 8"), "{both}");
}

#[test]
fn values_are_in_order_with_the_one_that_stands_in_the_command() {
    let applied = apply("dd", "dd if=a of=b bs=100k");
    let numbers: Vec<f64> = applied.parameters[0].values.iter().map(|value| value.number.unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.contains(&102_400.0), "{numbers:?}");
    assert_eq!(applied.start, ["100k"]);
}

#[test]
fn what_changes_the_work_or_gives_something_up_is_not_varied_and_the_note_says_why() {
    let error = super::apply(&recipe("dd"), &words("dd if=a of=b count=3"), &[], |_| false).unwrap_err().to_string();
    assert!(error.contains("count= counts blocks"), "{error}");
    let zstd = apply("zstd", "zstd a -o b");
    assert!(zstd.notes.iter().any(|note| note.contains("--allow level")), "{:?}", zstd.notes);
    let allowed = super::apply(&recipe("zstd"), &words("zstd a -o b"), &["level".into()], |_| false).unwrap();
    assert_eq!(allowed.parameters.len(), zstd.parameters.len() + 1);
    let wrong = super::apply(&recipe("zstd"), &words("zstd a"), &["speed".into()], |_| false).unwrap_err().to_string();
    assert!(wrong.contains("no such parameter"), "{wrong}");
    let set = super::apply(&recipe("rclone"), &words("rclone copy a b"), &[], |name| name == "RCLONE_TRANSFERS").unwrap();
    assert!(set.notes.iter().any(|note| note.contains("RCLONE_TRANSFERS is set")), "{:?}", set.notes);
}

#[test]
fn letters_in_bundles_items_of_lists_and_arguments_of_addresses_are_seen() {
    let cannot = |name: &str, line: &str| match super::apply(&recipe(name), &words(line), &[], |_| false) {
        Ok(applied) => applied.notes.join("; "),
        Err(error) => error.to_string(),
    };
    assert!(cannot("dd", "dd if=a of=b conv=notrunc,sync").contains("padded"));
    assert!(cannot("nfs-cp", "nfs-cp nfs://h/a?version=4 b").contains("NFS 3"));
    assert!(
        !cannot("rsync", "rsync -avz a h:b").contains("compress-level is not")
            && !cannot("thalweg-cp", "thalweg cp -fr a thal://h/").contains("trees")
    );
}

#[test]
fn what_a_run_makes_is_known() {
    let output = |name: &str, line: &str| apply(name, line).output;
    assert_eq!(output("dd", "dd if=a of=b").as_deref(), Some("b"));
    assert_eq!(output("gridftp", "globus-url-copy -p 4 file:///a file:///b").as_deref(), Some("file:///b"));
    assert_eq!(output("aria2c", "aria2c -o c http://h/a").as_deref(), Some("c"));
    assert_eq!(output("aria2c", "aria2c http://h/a"), None);
}

#[test]
fn values_that_are_no_sweeps_are_refused_by_name() {
    let mut recipe = recipe("dd");
    recipe.parameters[0].values = "16Mi..4Ki:x4".into();
    let error = checked(recipe).unwrap_err().to_string();
    assert!(error.contains("dd: parameter block: values"), "{error}");
}

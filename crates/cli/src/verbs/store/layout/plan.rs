//! `thalweg layout plan RECORDING`: plans the layout that keeps each writer's bytes on its own node, from a recording of the writes.

use crate::operand::StoreFlags;
use crate::{failure::Failure, output, session::Session};
use std::path::PathBuf;
use thalweg_base::numbers;
use thalweg_study::locality::{LaidOut, Plan, TargetsOfNode, Written};
use thalweg_trace::Recording;

/// Arguments of `thalweg layout plan`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The recording, a directory NAME.thw
    recording: PathBuf,
    /// The file, by the name that the program used or the end of its path (default: the file with the most bytes written)
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// The targets of a node, if the recording does not have them: NODE=TARGET[,TARGET]... May be repeated
    #[arg(long, value_name = "NODE=TARGETS", value_parser = targets_of_node)]
    target_of_node: Vec<(String, Vec<u32>)>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

fn targets_of_node(text: &str) -> Result<(String, Vec<u32>), String> {
    let expected = || format!("`{text}`: expected NODE=TARGET[,TARGET]...");
    let (node, targets) = text.split_once('=').filter(|(node, _)| !node.is_empty()).ok_or_else(expected)?;
    let targets: Result<Vec<u32>, _> = targets.split(',').map(str::parse).collect();
    Ok((node.to_owned(), targets.map_err(|_| expected())?))
}

/// Plans and prints the layout.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let recording = Recording::open(&arguments.recording).map_err(Failure::failed)?;
    let file = Written::read(&recording, arguments.file.as_deref()).map_err(Failure::failed)?;
    let targets = targets(arguments, &file)?;
    let now = match &file.laid_out {
        Some(then) => Some(then.clone()),
        None => now(&file.path, arguments)?,
    };
    let plan = file.plan(&targets, now.as_ref()).map_err(Failure::failed)?;
    if arguments.json {
        return output::json(&plan);
    }
    output::result(&text(&plan))
}

/// Returns the targets of each node: from the flags, from the store, or from the recording.
fn targets(arguments: &Arguments, file: &Written) -> Result<TargetsOfNode, Failure> {
    if !arguments.target_of_node.is_empty() {
        return Ok(arguments.target_of_node.iter().cloned().collect());
    }
    let mut targets = TargetsOfNode::new();
    if let Ok(root) = arguments.store.path("/") {
        let session = Session::connect(&root.store, &arguments.store)?;
        let map = session.map();
        for entry in &map.targets {
            if let Some((_, server)) = map.target(entry.target) {
                targets.entry(server.node.clone()).or_default().push(entry.target.0);
            }
        }
        return Ok(targets);
    }
    if file.targets.is_empty() {
        return Err(Failure::usage(
            "the targets of the nodes are not known: the recording has no mounted store. Name the store with --store, or give --target-of-node NODE=TARGET,...",
        ));
    }
    Ok(file.targets.clone())
}

/// Returns the file's current layout: from the store, or from the mount it is on.
fn now(path: &str, arguments: &Arguments) -> Result<Option<LaidOut>, Failure> {
    if let (Ok(_), Some(file)) = (arguments.store.path("/"), &arguments.file)
        && let Ok(there) = arguments.store.path(file)
    {
        let session = Session::connect(&there.store, &arguments.store)?;
        if session.stat_if_there(&there.path)?.is_some() {
            let file = session.file_layout(&there)?;
            return Ok(LaidOut::new(&file.spec, file.targets.iter().map(|target| target.0).collect()));
        }
    }
    let attribute = |name: &str| {
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::getxattr(path, name, &mut value).ok()?;
        String::from_utf8(value[..length.min(1 << 16)].to_vec()).ok()
    };
    let said = attribute("user.thalweg.layout").zip(attribute("user.thalweg.map"));
    Ok(said.and_then(|(layout, map)| LaidOut::from_attributes(&layout, &map)))
}

fn text(plan: &Plan) -> String {
    let mut text = format!("{}: {} written by {} writers\n\n", plan.file, numbers::size(plan.size_bytes), plan.writers.len());
    let rows: Vec<Vec<String>> = plan
        .writers
        .iter()
        .map(|writer| vec![writer.name.clone(), writer.node.clone(), writer.target.to_string(), numbers::size(writer.bytes)])
        .collect();
    text.push_str(&output::table(&["writer", "node", "target", "bytes"], &rows));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let now = plan.local_now.map_or_else(|| "not known (the file is on no mounted store here)".to_owned(), percent);
    text.push_str(&format!("\nlocal now:  {now}\nlocal then: {}\n", percent(plan.local_then)));
    if let Some(said) = &plan.said {
        text.push_str(&format!("Hints of the job: {said}\n"));
    }
    if plan.elsewhere_bytes > 0 {
        text.push_str(&format!(
            "For {} more, the offsets in the file were not recorded (shared file pointers, views of very many pieces).\n",
            numbers::size(plan.elsewhere_bytes)
        ));
    }
    text.push_str("\nMPI hints (MPI_Info_set before MPI_File_open):\n");
    for (key, value) in &plan.hints {
        text.push_str(&format!("  {key} = {value}\n"));
    }
    let layout = format!("{} datafiles={} place={}", plan.layout, plan.datafiles, plan.place);
    text.push_str(&format!("\nExtended attribute, before the first byte:\n  setfattr -n user.thalweg.layout -v '{layout}' FILE\n"));
    text.push_str(&format!("\nCopying:\n  thalweg cp --layout '{}' --place {} FROM TO\n", plan.layout, plan.place));
    if plan.layout.len() > 4096 {
        text.push_str("\nThere are many strips; `thalweg_layout=local` computes them when the job runs.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_targets_a_node_has_is_read() {
        assert_eq!(targets_of_node("a=0,3"), Ok(("a".to_owned(), vec![0, 3])));
        assert!(targets_of_node("a").is_err() && targets_of_node("=1").is_err() && targets_of_node("a=x").is_err());
    }
}

//! Draws made-up copies, to be looked at: `cargo run -p thalweg-report --example made_up -- DIRECTORY`.

#[path = "../tests/report/made_up/mod.rs"]
mod made_up;
#[path = "../tests/report/made_up_rpcs.rs"]
mod made_up_rpcs;

use made_up::Copy;
use thalweg_report::{PictureOptions, TextOptions, html, rpcstat_pair_picture, rpcstat_picture, svg, text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::path::PathBuf::from(std::env::args().nth(1).ok_or("name a directory to draw into")?);
    std::fs::create_dir_all(&directory)?;
    for (name, copy) in [("serial", Copy::SERIAL), ("long", Copy::LONG), ("wide", Copy::WIDE)] {
        let (source, explanation) = made_up::made_up(copy);
        let options = PictureOptions::default();
        std::fs::write(directory.join(format!("{name}.svg")), svg(&source, &explanation, &options)?)?;
        std::fs::write(directory.join(format!("{name}.html")), html(&source, &explanation, &options, None)?)?;
        print!("{}", text(&explanation, &TextOptions::for_stdout()));
        println!();
    }
    let (plain, full) = (made_up_rpcs::plain(), made_up_rpcs::full(600));
    std::fs::write(directory.join("rpcs-plain.svg"), rpcstat_picture(&plain))?;
    std::fs::write(directory.join("rpcs-full.svg"), rpcstat_picture(&full))?;
    std::fs::write(directory.join("rpcs-pair.svg"), rpcstat_pair_picture([("plain", &plain), ("full", &full)]))?;
    Ok(())
}

//! How many names a second: `names [FILES [CLIENTS]]` starts a store in a temporary directory (TMPDIR) and makes,
//! renames, looks up, lists and removes files in it, with some clients at a time. Each line is one kind of work.

use std::time::Instant;
use thalweg_client::metadata::MetadataClient;
use thalweg_store::start::{UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::{Existing, LayoutChoice, Owner, Place, SetAttributes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let files = arguments.next().transpose()?.unwrap_or(10_000);
    let clients = arguments.next().transpose()?.unwrap_or(1).max(1);
    let directory = std::env::temp_dir().join(format!("thalweg-names-{}", std::process::id()));
    let store = up(&UpOptions { servers: Some(4), ..UpOptions::new([&directory]) })?;
    let address = store.address().service()?;
    let each = files / clients;
    let measure = |what: &str, work: &(dyn Fn(&MetadataClient, usize) + Sync)| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..clients {
                let address = &address;
                scope.spawn(move || {
                    let names = MetadataClient::connect(&mut Tracer::off(), address, &Connect::default()).expect("the store runs");
                    for i in 0..each {
                        work(&names, client * each + i);
                    }
                });
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        println!("{what:<8} {:>9.0}/s  {:>7.1} us each", (each * clients) as f64 / seconds, seconds * 1e6 / each as f64);
    };
    let draft = |i: usize| Place::at(format!("/file-{i:07}.partial"));
    let name = |i: usize| Place::at(format!("/file-{i:07}"));
    let owner = Owner { mode: 0o644, uid: 0, gid: 0 };
    measure("create", &|names, i| {
        names.create(&mut Tracer::off(), &draft(i), owner, Existing::Refuse, &LayoutChoice::default()).expect("a new name");
    });
    measure("rename", &|names, i| {
        names.rename(&mut Tracer::off(), &draft(i), &name(i), false, &SetAttributes::default()).expect("a name that is there");
    });
    measure("stat", &|names, i| {
        names.stat(&mut Tracer::off(), &name(i)).expect("a name that is there");
    });
    let start = Instant::now();
    let names = MetadataClient::connect(&mut Tracer::off(), &address, &Connect::default())?;
    let listed = names.entries(&mut Tracer::off(), &Place::at("/"), true)?.len();
    println!("{:<8} {:>9.0}/s  with attributes", "list", listed as f64 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    names.sync(&mut Tracer::off())?;
    println!("{:<8} {:>9.1} ms", "sync", start.elapsed().as_secs_f64() * 1e3);
    measure("unlink", &|names, i| names.unlink(&mut Tracer::off(), &name(i)).expect("a name that is there"));
    store.stop()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

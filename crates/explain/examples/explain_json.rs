//! Explains a recording and prints the document: `explain_json RECORDING.thw`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: explain_json RECORDING.thw")?;
    let recording = thalweg_trace::Recording::open(path.as_ref())?;
    println!("{}", thalweg_explain::explain(&recording, &thalweg_explain::Options::default())?.to_json());
    Ok(())
}

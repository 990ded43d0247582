//! Lots over the wire.

use thalweg_client::metadata::MetadataClient;
use thalweg_store::start::{UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::lots::LotOperation;

#[test]
fn what_is_asked_about_lots_is_answered_over_the_wire() {
    let directory = tempfile::tempdir().unwrap();
    let options = UpOptions { servers: Some(1), targets: Some(2), node: Some("n0".into()), ..UpOptions::new([directory.path()]) };
    let store = up(&options).unwrap();
    let names = MetadataClient::connect(&mut Tracer::off(), &store.address().service().unwrap(), &Connect::default()).unwrap();
    let tracer = &mut Tracer::off();
    assert_eq!(names.lots(tracer, LotOperation::Show { name: None }).unwrap(), []);
    let error = names.lot_named(tracer, "run").unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("no lot `run`"), "{error}");
    let (name, targets) = ("run".to_owned(), Vec::new());
    let create = LotOperation::Create { name, owner: None, size_bytes: 0, for_ns: 1, elastic: false, least: None, targets };
    assert_eq!(names.lots(tracer, create).unwrap_err().kind(), ErrorKind::Invalid);
}

//! Rows of every version can be read.

use super::*;
use thalweg_layout::Spec;
use thalweg_wire::protocol::metadata::{LostRange, Placement};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn striped() -> FileLayout {
    FileLayout { spec: Spec::new("simple_stripe").with("strip_size", "65536"), targets: vec![TargetId(2), TargetId(0)], lot: None }
}

/// Rows written when version 1 was current.
#[test]
fn rows_of_version_1_are_read() {
    let inode = |hex: &str| decode_inode(b"key", &bytes(hex)).unwrap();
    let file = inode(concat!(
        "01a403e8076401aab4aed8c7bfce972f80a8a69ccebfce972f80a8a69ccebfce972faab4aed8c7bfce972f02",
        "000d73696d706c655f737472697065010a73747269705f73697a65053635353336020200"
    ));
    assert_eq!((file.mode, file.uid, file.gid, file.links, file.change), (0o644, 1000, 100, 1, 2));
    assert_eq!((file.created_ns, file.modified_ns), (1_700_000_000_123_456_789, 1_700_000_001_000_000_000));
    assert_eq!((file.node, file.extended_bytes, file.written), (Node::File(striped()), 0, None));
    let directory = inode(concat!(
        "01ed0be807640209090909010187808080802001010d76617273747269705f6469737401067374726970730930",
        "3a324b3b313a314b01020101020103"
    ));
    let choice = LayoutChoice {
        spec: Some(Spec::new("varstrip_dist").with("strips", "0:2K;1:1K")),
        datafiles: Some(2),
        placement: Some(Placement::Targets(vec![TargetId(1), TargetId(3)])),
        lot: None,
    };
    assert_eq!(directory.node, Node::Directory { parent: FileId(1 << 40 | 7), default_layout: Some(choice) });
    assert_eq!((directory.mode, directory.links, directory.changed_ns), (0o2755, 2, -5));
    assert_eq!(inode("01ed03e80764021212121201010100").node, Node::Directory { parent: FileId::ROOT, default_layout: None });
    let entry = |hex: &str| decode::<Entry>(Table::Entries, b"key", &bytes(hex)).unwrap();
    assert_eq!(entry("0189808080806000"), Entry { id: FileId(3 << 40 | 9), kind: FileKind::File });
    assert_eq!(entry("018a808080806001"), Entry { id: FileId(3 << 40 | 10), kind: FileKind::Directory });
    let intent = |hex: &str| decode_intent(b"key", &bytes(hex)).unwrap();
    assert_eq!(intent("0100020200"), Intent::Remove { targets: vec![TargetId(2), TargetId(0)], lot: None });
    let truncate = "010180808080200d73696d706c655f737472697065010a73747269705f73697a65053635353336020200";
    assert_eq!(intent(truncate), Intent::Truncate { size_bytes: 1 << 33, layout: striped() });
    assert_eq!(decode::<String>(Table::Targets, b"key", &bytes("0103696f30")).unwrap(), "io0");
}

/// A row written when version 3 was current, without lengths or sync state.
#[test]
fn rows_of_version_3_are_read() {
    let mut inode = Inode::new(Node::File(striped()), Owner { mode: 0o644, uid: 1, gid: 2 }, 77);
    inode.sizing = Sizing::Settled(Settlement { size_bytes: 0x55, boots: 0x66, lengths: Lengths::Unknown, unsynced: None });
    let mut value = encode_inode(&inode);
    let at = value.windows(5).position(|bytes| bytes == [2, 0x55, 0x66, 0, 0]).unwrap();
    value.drain(at + 3..at + 6);
    value.pop();
    value[0] = 3;
    inode.sizing = Sizing::Settled(Settlement { size_bytes: 0x55, boots: 0x66, lengths: Lengths::Unknown, unsynced: Some(0) });
    assert_eq!(decode_inode(b"key", &value).unwrap(), inode);
}

/// Version 4 had no losses.
#[test]
fn rows_of_version_4_are_read() {
    let mut inode = Inode::new(Node::File(striped()), Owner { mode: 0o644, uid: 1, gid: 2 }, 77);
    inode.sizing = Sizing::Settled(Settlement { size_bytes: 0x55, boots: 0x66, lengths: Lengths::Whole, unsynced: None });
    let mut value = encode_inode(&inode);
    let at = value.windows(6).position(|bytes| bytes == [2, 0x55, 0x66, 1, 0, 0]).unwrap();
    value.remove(at + 5);
    value.pop();
    value[0] = 4;
    assert_eq!(decode_inode(b"key", &value).unwrap(), inode);
}

/// Rows written when version 5 was current, and layouts had no lot.
#[test]
fn rows_of_version_5_are_read_and_are_in_no_lot() {
    let owner = Owner { mode: 0o644, uid: 1, gid: 2 };
    let choice = LayoutChoice { datafiles: Some(2), placement: Some(Placement::Local), ..LayoutChoice::default() };
    let nodes = [
        Node::File(striped()),
        Node::Directory { parent: FileId(7), default_layout: Some(choice) },
        Node::Directory { parent: FileId(7), default_layout: None },
        Node::Symlink(b"to".to_vec()),
        Node::Fifo,
    ];
    for node in nodes {
        let inode = Inode::new(node, owner, 77);
        let mut value = encode_inode(&inode);
        if matches!(inode.node, Node::File(_) | Node::Directory { default_layout: Some(_), .. }) {
            assert_eq!(value.pop(), Some(0), "the lot is what a row ends with");
        }
        value[0] = 5;
        assert_eq!(decode_inode(b"key", &value).unwrap(), inode);
        let (attributes, sizing) = decode_attributes(FileId(3), b"key", &value, &mut Layouts::default()).unwrap();
        assert_eq!((attributes, sizing), (inode.clone().attributes(FileId(3)), inode.sizing));
    }
}

#[test]
fn rows_in_a_lot_come_back_and_others_grow_by_a_byte_at_most() {
    let in_lot = |lot| Inode::new(Node::File(FileLayout { lot, ..striped() }), Owner { mode: 0o644, uid: 1000, gid: 100 }, 77);
    let hex = |value: &[u8]| value.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let layout = "0d73696d706c655f737472697065010a73747269705f73697a65053635353336020200";
    let head = "06a403e80764019a019a019a019a010100000000";
    assert_eq!(hex(&encode_inode(&in_lot(None))), format!("{head}00{layout}00"));
    let value = bytes(&format!("{head}00{layout}018002"));
    assert_eq!(decode_inode(b"key", &value).unwrap(), in_lot(Some(LotId(256))));
    let (attributes, _) = decode_attributes(FileId(3), b"key", &value, &mut Layouts::default()).unwrap();
    assert_eq!(attributes.layout.unwrap().lot, Some(LotId(256)));
    let directory = bytes("06ed03e80764029a019a019a019a010100000000010101000000017f");
    let choice = LayoutChoice { lot: Some(LotId(127)), ..LayoutChoice::default() };
    let expected = Node::Directory { parent: FileId::ROOT, default_layout: Some(choice) };
    assert_eq!(decode_inode(b"key", &directory).unwrap().node, expected);
    let removal = Intent::Remove { targets: vec![TargetId(2), TargetId(0)], lot: Some(LotId(9)) };
    assert_eq!(hex(&encode_intent(&removal)), "02000202000109");
    assert_eq!(decode_intent(b"key", &bytes("02000202000109")).unwrap(), removal);
    let truncation = Intent::Truncate { size_bytes: 5, layout: FileLayout { lot: Some(LotId(9)), ..striped() } };
    assert_eq!(decode_intent(b"key", &bytes(&format!("020105{layout}0109"))).unwrap(), truncation);
    assert_eq!(encode_intent(&truncation), bytes(&format!("020105{layout}0109")));
}

#[test]
fn attributes_are_the_same_in_both_ways_to_read_them() {
    let mut layouts = Layouts::default();
    let owner = Owner { mode: 0o4711, uid: 1, gid: 2 };
    let nodes = [
        Node::File(striped()),
        Node::Symlink(b"to".to_vec()),
        Node::BlockDevice(9),
        Node::Directory { parent: FileId(1), default_layout: None },
        Node::File(FileLayout { spec: Spec::new("basic_dist"), targets: vec![TargetId(1)], lot: None }),
        Node::File(striped()),
    ];
    let mut shared = Vec::new();
    for node in nodes {
        let mut inode = Inode::new(node, owner, -77);
        inode.written = Some(Written { size_bytes: 5, change: 1 });
        inode.sizing = Sizing::Settled(Settlement::truncated(u64::MAX, 7));
        let (attributes, sizing) = decode_attributes(FileId(3), b"key", &encode_inode(&inode), &mut layouts).unwrap();
        assert_eq!((&attributes, sizing), (&inode.clone().attributes(FileId(3)), inode.sizing));
        shared.extend(attributes.layout);
    }
    assert!(Arc::ptr_eq(&shared[0], &shared[2]) && !Arc::ptr_eq(&shared[0], &shared[1]));
}

#[test]
fn inodes_come_back_as_they_were_and_later_versions_are_refused() {
    let mut inode = Inode::new(Node::CharacterDevice(0x0501), Owner { mode: 0o4711, uid: 1, gid: 2 }, 77);
    inode.extended_bytes = 9;
    inode.written = Some(Written { size_bytes: 5, change: 1 });
    inode.sizing = Sizing::Settled(Settlement { size_bytes: 5, boots: 7, lengths: Lengths::AtLeast(vec![0, 300]), unsynced: Some(9) });
    let mut lost = Lost::default();
    lost.add(LostRange { index: 1, start: 4096, end: 8192 }, 12288);
    inode.lost = Some(Box::new(lost));
    let mut value = encode_inode(&inode);
    assert_eq!(decode_inode(b"key", &value).unwrap(), inode);
    value[0] = 7;
    assert!(decode_inode(b"key", &value).unwrap_err().to_string().contains("version 7"));
}

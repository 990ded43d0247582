//! The kernel's filter for a live capture: a classic BPF program that keeps TCP and UDP packets of the requested
//! ports.
//!
//! The socket delivers packets from their network header on, so that offsets are the same on every kind of interface.
//! Packets that the program cannot classify (IPv6 extension headers, VLAN tags inside the packet) are kept.

use libc::sock_filter;

const LOAD_LENGTH: u16 = 0x80;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_INDEXED: u16 = 0x48;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// The kernel's offset for the packet's protocol, ...
const PROTOCOL: u32 = 0xffff_f000;
/// ... its direction, ...
const TYPE: u32 = PROTOCOL + 4;
/// ... and its interface.
const INTERFACE: u32 = PROTOCOL + 8;

/// Maximum ports of a filter: jumps reach 255 instructions.
pub(crate) const MOST_PORTS: usize = 24;

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Runs `then` if the accumulator equals `k`, otherwise jumps past it.
fn when(k: u32, then: Vec<sock_filter>) -> Vec<sock_filter> {
    let past = u8::try_from(then.len()).expect("blocks are short: the number of ports is bounded");
    let mut all = vec![sock_filter { code: JUMP_EQUAL, jt: 0, jf: past, k }];
    all.extend(then);
    all
}

/// How much of a packet is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Packets up to this length are kept whole: they may hold the heads of several RPCs.
    pub whole: u32,
    /// Bytes kept of larger packets.
    pub head: u32,
}

/// Builds the program. Packets that this machine sends on the interface `loopback` are dropped, since they are
/// received there too.
pub(crate) fn program(ports: &[u16], cut: Cut, loopback: Option<i32>) -> Vec<sock_filter> {
    let mut all = Vec::new();
    if let Some(loopback) = loopback {
        all.push(step(LOAD_WORD, INTERFACE));
        let drop_sent = [vec![step(LOAD_WORD, TYPE)], when(u32::from(libc::PACKET_OUTGOING), vec![step(RETURN, 0)])].concat();
        all.extend(when(loopback as u32, drop_sent));
    }
    all.extend(of_ports(ports, cut));
    all
}

fn of_ports(ports: &[u16], cut: Cut) -> Vec<sock_filter> {
    let keep = || {
        vec![
            step(LOAD_LENGTH, 0),
            sock_filter { code: JUMP_GREATER, jt: 1, jf: 0, k: cut.whole },
            step(RETURN, cut.whole),
            step(RETURN, cut.head),
        ]
    };
    let drop = || step(RETURN, 0);
    let ports = &ports[..ports.len().min(MOST_PORTS)];
    let with_ports = |load: u16, source: u32| -> Vec<sock_filter> {
        if ports.is_empty() {
            return keep();
        }
        let mut all = Vec::new();
        for (i, at) in [source, source + 2].into_iter().enumerate() {
            all.push(step(load, at));
            // Jumps to the end, where packets are kept: past the remaining comparisons and the drop.
            let left = |n: usize| (if i == 0 { ports.len() + 1 } else { 0 }) + ports.len() - 1 - n + 1;
            all.extend(ports.iter().enumerate().map(|(n, port)| {
                let jt = u8::try_from(left(n)).expect("the number of ports is bounded");
                sock_filter { code: JUMP_EQUAL, jt, jf: 0, k: u32::from(*port) }
            }));
        }
        all.push(drop());
        all.extend(keep());
        all
    };
    // With two protocols, jumps over the ports exceed one instruction's reach, so each protocol's block decides by
    // itself.
    let transport = |at: u32| {
        vec![
            step(LOAD_BYTE, at),
            sock_filter { code: JUMP_EQUAL, jt: 2, jf: 0, k: 6 },
            sock_filter { code: JUMP_EQUAL, jt: 1, jf: 0, k: 17 },
            drop(),
        ]
    };
    let mut v4 = transport(9);
    v4.push(step(LOAD_HALF, 6));
    v4.push(sock_filter { code: JUMP_ANY_BIT, jt: 0, jf: 1, k: 0x1fff });
    v4.push(drop());
    v4.push(step(LOAD_HEADER_LENGTH, 0));
    v4.extend(with_ports(LOAD_HALF_INDEXED, 0));
    let mut v6 = vec![step(LOAD_BYTE, 6)];
    [0, 43, 44, 51, 60].iter().for_each(|&extension| v6.extend(when(extension, keep())));
    v6.extend(transport(6));
    v6.extend(with_ports(LOAD_HALF, 40));
    let mut all = vec![step(LOAD_WORD, PROTOCOL)];
    all.extend(when(0x0800, v4));
    all.extend(when(0x86dd, v6));
    all.extend(when(0x8100, keep()));
    all.extend(when(0x88a8, keep()));
    all.push(drop());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the program as the kernel does, for the instructions used here.
    fn run(program: &[sock_filter], protocol: u32, packet: &[u8]) -> u32 {
        run_on(program, protocol, (4, 3), packet)
    }

    /// Interprets the program for a packet of a type on an interface.
    fn run_on(program: &[sock_filter], protocol: u32, (interface, kind): (u32, u32), packet: &[u8]) -> u32 {
        let (mut a, mut x, mut at) = (0_u32, 0_usize, 0);
        loop {
            let s = program[at];
            let k = s.k as usize;
            at += 1;
            let half = |i: usize| packet.get(i..i + 2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])));
            match s.code {
                LOAD_WORD if s.k == PROTOCOL => a = protocol,
                LOAD_WORD if s.k == TYPE => a = kind,
                LOAD_WORD if s.k == INTERFACE => a = interface,
                LOAD_LENGTH => a = packet.len() as u32,
                JUMP_GREATER => at += usize::from(if a > s.k { s.jt } else { s.jf }),
                LOAD_HALF | LOAD_HALF_INDEXED => match half(k + if s.code == LOAD_HALF { 0 } else { x }) {
                    Some(value) => a = value,
                    None => return 0,
                },
                LOAD_BYTE => match packet.get(k) {
                    Some(value) => a = u32::from(*value),
                    None => return 0,
                },
                LOAD_HEADER_LENGTH => x = usize::from(packet[k] & 15) * 4,
                JUMP_EQUAL => at += usize::from(if a == s.k { s.jt } else { s.jf }),
                JUMP_ANY_BIT => at += usize::from(if a & s.k != 0 { s.jt } else { s.jf }),
                RETURN => return s.k,
                other => panic!("{other:#x}"),
            }
        }
    }

    const WHOLE: Cut = Cut { whole: 99, head: 99 };

    #[test]
    fn large_packets_are_cut_and_what_loops_back_is_taken_once() {
        let program = program(&[2049], Cut { whole: 50, head: 45 }, Some(1));
        let packet = |bytes: usize| {
            let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 0, 6];
            p.resize(20, 0);
            p.extend_from_slice(&[3, 0, 8, 1]);
            p.resize(bytes, 0);
            p
        };
        let (sent, received) = (u32::from(libc::PACKET_OUTGOING), 0);
        assert_eq!(run_on(&program, 0x800, (1, received), &packet(50)), 50);
        assert_eq!(run_on(&program, 0x800, (1, received), &packet(51)), 45);
        assert_eq!(run_on(&program, 0x800, (1, sent), &packet(50)), 0);
        assert_eq!(run_on(&program, 0x800, (2, sent), &packet(50)), 50);
    }

    #[test]
    fn only_the_ports_asked_for_pass() {
        let ports: Vec<u16> = (2049..2049 + MOST_PORTS as u16).collect();
        let program = program(&ports, WHOLE, Some(1));
        let v4 = |protocol: u8, from: u16, to: u16, fragment: u8| {
            let mut p = vec![0x46, 0, 0, 0, 0, 0, 0, fragment, 0, protocol];
            p.resize(24, 0);
            p.extend_from_slice(&from.to_be_bytes());
            p.extend_from_slice(&to.to_be_bytes());
            p
        };
        assert_eq!(run(&program, 0x800, &v4(6, 1000, 2049, 0)), 99);
        assert_eq!(run(&program, 0x800, &v4(17, ports[MOST_PORTS - 1], 1000, 0)), 99);
        assert_eq!(run(&program, 0x800, &v4(6, 1000, 2048, 0)), 0);
        assert_eq!(run(&program, 0x800, &v4(1, 2049, 2049, 0)), 0);
        assert_eq!(run(&program, 0x800, &v4(17, 2049, 2049, 7)), 0, "a later fragment has no ports");
        let v6 = |next: u8, to: u16| {
            let mut p = vec![0x60, 0, 0, 0, 0, 0, next];
            p.resize(42, 0);
            p.extend_from_slice(&to.to_be_bytes());
            p
        };
        assert_eq!(run(&program, 0x86dd, &v6(6, 2050)), 99);
        assert_eq!(run(&program, 0x86dd, &v6(6, 80)), 0);
        assert_eq!(run(&program, 0x86dd, &v6(44, 80)), 99);
        assert_eq!(run(&program, 0x8100, &[]), 99);
        assert_eq!(run(&program, 0x806, &[0; 60]), 0);
        assert_eq!(run(&super::program(&[], WHOLE, None), 0x800, &v4(6, 1, 2, 0)), 99);
    }
}

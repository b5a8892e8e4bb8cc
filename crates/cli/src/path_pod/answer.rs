//! Answering: as large a packet as the question asks for, as far as the way back takes it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;

use anyhow::{Context, anyhow};
use netferry_core::mtu::paths::message::{Message, Token};
use netferry_core::net::Family;
use netferry_core::probe::{Layer, Way};
use netferry_core::size::Mtu;

use super::AnswerArgs;
use super::line::{never_cut, path_mtu};
use crate::exit::Failure;

/// Answers at all addresses until its time is over.
pub(super) fn run(args: &AnswerArgs) -> Result<(), Failure> {
    for address in &args.address {
        let at = SocketAddr::new(*address, args.port);
        let socket = open(at).with_context(|| format!("answering at {at}"))?;
        let token = args.token;
        thread::spawn(move || answer(&socket, at.ip(), &token));
    }
    println!("answering");
    thread::sleep(args.lifetime);
    Err(Failure::TimedOut(anyhow!("nobody ended this within {} s", args.lifetime.as_secs())))
}

fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    never_cut(&socket, at.ip())?;
    Ok(socket)
}

/// Answers for as long as the process lives. The address is the one that was asked: an answer from another one would be
/// nobody's.
fn answer(socket: &UdpSocket, own: IpAddr, token: &Token) {
    let way = Way { layer: Layer::Pods, family: Family::of(own) };
    let mut buffer = vec![0; 1 << 16];
    loop {
        // An error is about an earlier answer that was too large for its way: the kernel has taken note.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some(Message::Question { number, back }) = Message::read(&buffer[..length], token) else {
            continue;
        };
        let Ok(uses) = way_back(own, from, way.family) else { continue };
        let size = Mtu::new(back.min(uses)).map_or(0, |size| way.payload(size));
        // One that is not sent is lost, which whoever asked finds out.
        let _ = socket.send_to(&Message::Answer { number, uses }.write(token, size), from);
    }
}

/// The largest packet that is sent back. Only a connected socket is told.
fn way_back(own: IpAddr, to: SocketAddr, family: Family) -> io::Result<u32> {
    let socket = UdpSocket::bind(SocketAddr::new(own, 0))?;
    socket.connect(to)?;
    path_mtu(&socket, family)
}

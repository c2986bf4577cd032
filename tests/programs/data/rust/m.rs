// Threads, a lock, a child, a socket, a caught panic.
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

fn twice(n: u64) -> u64 {
    n * 2
}

#[test]
fn doubles() {
    assert_eq!(twice(2), 4);
}

fn main() {
    let map = Arc::new(Mutex::new(HashMap::new()));
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let map = map.clone();
            let work = move || {
                map.lock().unwrap().insert(n, twice(n));
            };
            thread::Builder::new().name(format!("t{n}")).spawn(work).unwrap()
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    println!("{}", map.lock().unwrap().values().sum::<u64>());

    let child = Command::new("sh").args(["-c", "echo child; exit 3"]).output().unwrap();
    print!("{} {}", child.status.code().unwrap(), String::from_utf8(child.stdout).unwrap());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let t = thread::spawn(move || listener.accept().unwrap().0.write_all(b"net").unwrap());
    let mut got = String::new();
    TcpStream::connect(address).unwrap().read_to_string(&mut got).unwrap();
    t.join().unwrap();
    println!("{got}");

    println!("{}", std::panic::catch_unwind(|| panic!("p")).is_err());
}

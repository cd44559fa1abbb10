//! However a stream is split, ordered and repeated, the same messages come out.

use proptest::prelude::*;

use super::*;

/// The messages of one direction, the longer the later their bytes.
fn messages(sizes: &[usize], make: fn(u16, usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    let message = |(number, &bytes): (usize, &usize)| {
        let mut message = make(number as u16, 30);
        message.resize(bytes, number as u8 + 1);
        message
    };
    sizes.iter().enumerate().map(message).collect()
}

/// A stretch of the stream.
type Piece = (usize, usize);

/// Cuts a stream into pieces of these lengths, again and again.
fn pieces(total: usize, lengths: &[usize]) -> Vec<Piece> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    for length in lengths.iter().cycle() {
        let end = (at + length).min(total);
        pieces.push((at, end));
        at = end;
        if at == total {
            break;
        }
    }
    pieces
}

/// The pieces in the order in which they come: each as many places later as its delay says. Some come again.
fn order(pieces: &[Piece], delays: &[usize], repeats: &[usize]) -> Vec<Piece> {
    let delay = |number: usize| delays[number % delays.len()];
    let first = (0..pieces.len()).map(|number| (number + delay(number), number));
    let again = repeats.iter().map(|&repeat| {
        let number = repeat % pieces.len();
        (number + delay(repeat) + repeat % 5, number)
    });
    let mut order: Vec<(usize, usize)> = first.chain(again).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, number)| pieces[number]).collect()
}

/// Plays the pieces in both directions. Returns what came out, and the outcomes.
fn play(
    wire: &mut Wire,
    starts: [u32; 2],
    streams: &[Vec<u8>; 2],
    order: &[Piece],
) -> Vec<Result<usize, Why>> {
    let mut outcomes = Vec::new();
    for &(from, to) in order {
        let sequence = |start: u32| start.wrapping_add(1).wrapping_add(from as u32);
        outcomes.push(wire.take(wire.query(sequence(starts[0]), &streams[0][from..to])));
        outcomes.push(wire.take(wire.reply(sequence(starts[1]), &streams[1][from..to])));
    }
    outcomes
}

fn sent(sizes: &[usize]) -> ([Vec<Vec<u8>>; 2], [Vec<u8>; 2]) {
    let both = [messages(sizes, query), messages(sizes, reply)];
    let stream = |way: usize| both[way].iter().flat_map(|message| framed(message)).collect();
    let streams = [stream(0), stream(1)];
    (both, streams)
}

/// The messages of one direction that came out, with their times.
fn received(seen: &[OwnedEvent], way: usize) -> Vec<(Vec<u8>, u64)> {
    let messages = seen.iter().filter_map(|seen| match seen {
        OwnedEvent::Message { to_server, at_ns, bytes, .. } if *to_server == (way == 0) => {
            Some((bytes.clone(), *at_ns))
        }
        _ => None,
    });
    messages.collect()
}

fn is_part_of(part: &[Vec<u8>], whole: &[Vec<u8>]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|message| whole.any(|other| other == message))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each message also has the time of the first segment with its last byte.
    #[test]
    fn pieces_in_any_order_make_the_stream(
        sizes in prop::collection::vec(30_usize..300, 1..30),
        lengths in prop::collection::vec(1_usize..200, 1..40),
        delays in prop::collection::vec(0_usize..8, 1..40),
        repeats in prop::collection::vec(any::<u16>(), 0..40),
        starts in any::<[u32; 2]>(),
    ) {
        let (both, streams) = sent(&sizes);
        let repeats: Vec<usize> = repeats.into_iter().map(usize::from).collect();
        let order = order(&pieces(streams[0].len(), &lengths), &delays, &repeats);
        let mut wire = Wire::new();
        prop_assert_eq!(wire.syn(starts[0]), Err(Why::TcpControl));
        prop_assert_eq!(wire.syn_ack(starts[1]), Err(Why::TcpControl));
        let begin_ns = wire.now_ns + STEP_NS;
        let outcomes = play(&mut wire, starts, &streams, &order);
        let allowed = |outcome: &Result<usize, Why>| {
            matches!(outcome, Ok(1..) | Err(Why::TcpPart | Why::TcpRepeated))
        };
        prop_assert!(outcomes.iter().all(allowed));
        let seen = wire.seen();
        for way in [0, 1] {
            let mut end = 0;
            let expected = both[way].iter().map(|message| {
                end += 2 + message.len();
                let place = order.iter().position(|&(from, to)| (from..to).contains(&(end - 1)));
                let step = place.expect("every byte comes") * 2 + way;
                (message.clone(), begin_ns + step as u64 * STEP_NS)
            });
            let expected: Vec<_> = expected.collect();
            prop_assert_eq!(received(&seen, way), expected);
        }
        prop_assert_eq!(wire.streams.held_bytes, 0);
    }

    /// A sender may cut the stream in another way when it sends again.
    #[test]
    fn pieces_that_overlap_make_the_stream(
        sizes in prop::collection::vec(30_usize..300, 1..30),
        lengths in prop::collection::vec(1_usize..200, 1..40),
        more in prop::collection::vec(0_usize..100, 1..40),
        delays in prop::collection::vec(0_usize..8, 1..40),
        starts in any::<[u32; 2]>(),
    ) {
        let (both, streams) = sent(&sizes);
        let pieces = pieces(streams[0].len(), &lengths);
        let longer = pieces.iter().zip(more.iter().cycle());
        let longer: Vec<Piece> = longer.map(|(&(from, to), more)| (from.saturating_sub(*more), to)).collect();
        let mut wire = Wire::new();
        prop_assert_eq!(wire.syn(starts[0]), Err(Why::TcpControl));
        prop_assert_eq!(wire.syn_ack(starts[1]), Err(Why::TcpControl));
        play(&mut wire, starts, &streams, &order(&longer, &delays, &[]));
        let seen = wire.seen();
        for way in [0, 1] {
            let bytes: Vec<Vec<u8>> = received(&seen, way).into_iter().map(|(bytes, _)| bytes).collect();
            prop_assert_eq!(&bytes, &both[way]);
        }
    }

    /// Whatever is lost, no message comes out twice, in another order or in another form. What comes after a gap that
    /// nothing fills is read again from the next segment that begins with a message.
    #[test]
    fn lost_pieces_make_no_other_messages(
        sizes in prop::collection::vec(30_usize..300, 1..30),
        lengths in prop::collection::vec(1_usize..200, 1..40),
        delays in prop::collection::vec(0_usize..4, 1..40),
        lost in prop::collection::vec(0_usize..6, 1..40),
        starts in any::<[u32; 2]>(),
    ) {
        let (both, streams) = sent(&sizes);
        let order = order(&pieces(streams[0].len(), &lengths), &delays, &[]);
        let kept = order.iter().zip(lost.iter().cycle()).filter(|(_, lost)| **lost > 0);
        let kept: Vec<Piece> = kept.map(|(piece, _)| *piece).collect();
        let mut wire = Wire::new();
        play(&mut wire, starts, &streams, &kept);
        let ends = starts.map(|start| start.wrapping_add(1 + streams[0].len() as u32));
        let last = framed(&query(999, 30));
        let _ = wire.take(Segment { fin: true, ..wire.query(ends[0], &last) });
        let _ = wire.take(Segment { rst: true, ..wire.query(ends[0].wrapping_add(33), &[]) });
        let seen = wire.seen();
        for way in [0, 1] {
            let bytes: Vec<Vec<u8>> = received(&seen, way).into_iter().map(|(bytes, _)| bytes).collect();
            let mut whole = both[way].clone();
            whole.extend((way == 0).then(|| query(999, 30)));
            prop_assert!(is_part_of(&bytes, &whole));
        }
    }
}

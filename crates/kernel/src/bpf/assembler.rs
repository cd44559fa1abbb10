//! A small assembler for BPF programs (Documentation/bpf/standardization/instruction-set.rst): one function for each
//! instruction that the filter needs, and jumps to labels.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// An instruction as the kernel reads it (`struct bpf_insn`, linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The registers that programs here use. A call leaves its result in the first, takes arguments from the next four,
/// and keeps the sixth to eighth. The tenth is the end of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R10 = 10,
}

/// The size of a value in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// When a jump is taken: how a register compares with a number, without signs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Is {
    Equal = 0x10,
    Above = 0x20,
    NotEqual = 0x50,
    Below = 0xa0,
}

/// A place in a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

// Classes and modes of instructions.
const LOAD_WIDE: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const AND_32: u8 = 0x54;
const MULTIPLY_32: u8 = 0x24;
const SHIFT_LEFT_32: u8 = 0x64;
const ADD_REGISTER_64: u8 = 0x0f;
const ADD_64: u8 = 0x07;
const SET_64: u8 = 0xb7;
const COPY_64: u8 = 0xbf;
const TO_BIG_ENDIAN: u8 = 0xdc;
const JUMP: u8 = 0x05;
const JUMP_IF_64: u8 = 0x05;
const JUMP_IF_32: u8 = 0x06;
const JUMP_IF_ABOVE_REGISTER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// In the second register of [`LOAD_WIDE`]: the number is the descriptor of a map.
const PSEUDO_MAP: u8 = 1;

/// A program that is being written.
#[derive(Default)]
pub(crate) struct Assembler {
    instructions: Vec<Instruction>,
    /// The index of the instruction at every label, once it is placed.
    labels: Vec<Option<usize>>,
    /// The indices of jumps, and where they lead.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label without a place yet.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.push(LOAD | width as u8, pair(to as u8, from as u8), offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.push(STORE | width as u8, pair(to as u8, from as u8), offset, 0);
    }

    /// `to = number`, with its sign
    pub(crate) fn set(&mut self, to: Register, number: i32) {
        self.push(SET_64, pair(to as u8, 0), 0, number);
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.push(COPY_64, pair(to as u8, from as u8), 0, 0);
    }

    /// `to += number`
    pub(crate) fn add(&mut self, to: Register, number: i32) {
        self.push(ADD_64, pair(to as u8, 0), 0, number);
    }

    /// `to &= mask` on the lower 32 bits; the upper ones become 0.
    pub(crate) fn and(&mut self, to: Register, mask: u32) {
        self.push(AND_32, pair(to as u8, 0), 0, mask as i32);
    }

    /// `to *= number` on the lower 32 bits; the upper ones become 0.
    pub(crate) fn multiply(&mut self, to: Register, number: u16) {
        self.push(MULTIPLY_32, pair(to as u8, 0), 0, i32::from(number));
    }

    /// `to <<= bits` on the lower 32 bits; the upper ones become 0.
    pub(crate) fn shift_left(&mut self, to: Register, bits: u8) {
        self.push(SHIFT_LEFT_32, pair(to as u8, 0), 0, i32::from(bits));
    }

    /// `to += from`
    pub(crate) fn add_register(&mut self, to: Register, from: Register) {
        self.push(ADD_REGISTER_64, pair(to as u8, from as u8), 0, 0);
    }

    /// Exchanges the two bytes of a 16-bit number in network order for the host's order; the upper bits become 0.
    pub(crate) fn host_order_16(&mut self, register: Register) {
        self.push(TO_BIG_ENDIAN, pair(register as u8, 0), 0, 16);
    }

    /// `to = ` the address of a map. Takes the place of two instructions.
    pub(crate) fn map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.push(LOAD_WIDE, pair(to as u8, PSEUDO_MAP), 0, map.as_raw_fd());
        self.push(0, 0, 0, 0);
    }

    /// Jumps always.
    pub(crate) fn jump(&mut self, label: Label) {
        self.jump_by(JUMP, 0, 0, label);
    }

    /// Jumps if all 64 bits of a register compare so with a number.
    pub(crate) fn jump_if(&mut self, register: Register, is: Is, number: u16, label: Label) {
        self.jump_by(JUMP_IF_64 | is as u8, pair(register as u8, 0), i32::from(number), label);
    }

    /// Jumps if the lower 32 bits of a register compare so with a number.
    pub(crate) fn jump_if_word(&mut self, register: Register, is: Is, number: u32, label: Label) {
        self.jump_by(JUMP_IF_32 | is as u8, pair(register as u8, 0), number as i32, label);
    }

    /// Jumps if `register > other`.
    pub(crate) fn jump_if_above(&mut self, register: Register, other: Register, label: Label) {
        self.jump_by(JUMP_IF_ABOVE_REGISTER, pair(register as u8, other as u8), 0, label);
    }

    /// Calls a function of the kernel by its number.
    pub(crate) fn call(&mut self, helper: i32) {
        self.push(CALL, 0, 0, helper);
    }

    /// Ends the program. Its result is in the first register.
    pub(crate) fn exit(&mut self) {
        self.push(EXIT, 0, 0, 0);
    }

    /// The program with all jumps resolved. Fails if a jump is longer than 32,767 instructions. Panics if a label of a
    /// jump has no place.
    pub(crate) fn finish(mut self) -> io::Result<Vec<Instruction>> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("every label has a place");
            let distance = i16::try_from(to as i64 - (from as i64 + 1));
            self.instructions[from].offset = distance.map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, "the filter has too many addresses for a program")
            })?;
        }
        Ok(self.instructions)
    }

    fn jump_by(&mut self, code: u8, registers: u8, immediate: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(code, registers, 0, immediate);
    }

    fn push(&mut self, code: u8, registers: u8, offset: i16, immediate: i32) {
        self.instructions.push(Instruction { code, registers, offset, immediate });
    }
}

/// Both registers of an instruction in one byte. In C they are bit fields, so their order is that of the host.
fn pair(to: u8, from: u8) -> u8 {
    if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::Register::{R0, R1, R2, R3, R6, R7, R8, R10};
    use super::*;

    fn bytes(write: impl FnOnce(&mut Assembler)) -> Vec<[u8; 8]> {
        let mut code = Assembler::default();
        write(&mut code);
        let bytes = |instruction: &Instruction| {
            let Instruction { code, registers, offset, immediate } = *instruction;
            let (offset, immediate) = (offset.to_le_bytes(), immediate.to_le_bytes());
            let [low, high] = offset;
            let [first, second, third, fourth] = immediate;
            [code, registers, low, high, first, second, third, fourth]
        };
        code.finish().unwrap().iter().map(bytes).collect()
    }

    /// The bytes are those that LLVM's assembler gives for the instruction in the comment.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_the_standard_has_them() {
        // r0 = 2; exit
        let end = bytes(|code| {
            code.set(R0, 2);
            code.exit();
        });
        assert_eq!(end, [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]);
        // r7 = *(u32 *)(r6 + 4); r2 = *(u16 *)(r7 + 12); r2 = *(u8 *)(r7 + 9); r1 = *(u64 *)(r0 + 0)
        let loads = bytes(|code| {
            code.load(Width::Word, R7, R6, 4);
            code.load(Width::Half, R2, R7, 12);
            code.load(Width::Byte, R2, R7, 9);
            code.load(Width::Double, R1, R0, 0);
        });
        assert_eq!(loads[0], [0x61, 0x67, 4, 0, 0, 0, 0, 0]);
        assert_eq!(loads[1], [0x69, 0x72, 12, 0, 0, 0, 0, 0]);
        assert_eq!(loads[2], [0x71, 0x72, 9, 0, 0, 0, 0, 0]);
        assert_eq!(loads[3], [0x79, 0x01, 0, 0, 0, 0, 0, 0]);
        // *(u32 *)(r10 - 4) = r1; *(u64 *)(r3 + 0) = r0
        let stores = bytes(|code| {
            code.store(Width::Word, R10, -4, R1);
            code.store(Width::Double, R3, 0, R0);
        });
        assert_eq!(stores, [[0x63, 0x1a, 0xfc, 0xff, 0, 0, 0, 0], [0x7b, 0x03, 0, 0, 0, 0, 0, 0]]);
        // r1 = r7; r1 += 14; r2 = -8; w2 &= 0xffff0000; r2 = be16 r2; call 51; w2 *= 40503; w2 <<= 2; r7 += r2
        let sums = bytes(|code| {
            code.copy(R1, R7);
            code.add(R1, 14);
            code.set(R2, -8);
            code.and(R2, 0xffff_0000);
            code.host_order_16(R2);
            code.call(51);
            code.multiply(R2, 40_503);
            code.shift_left(R2, 2);
            code.add_register(R7, R2);
        });
        assert_eq!(sums[0], [0xbf, 0x71, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sums[1], [0x07, 0x01, 0, 0, 14, 0, 0, 0]);
        assert_eq!(sums[2], [0xb7, 0x02, 0, 0, 0xf8, 0xff, 0xff, 0xff]);
        assert_eq!(sums[3], [0x54, 0x02, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(sums[4], [0xdc, 0x02, 0, 0, 16, 0, 0, 0]);
        assert_eq!(sums[5], [0x85, 0, 0, 0, 51, 0, 0, 0]);
        assert_eq!(sums[6], [0x24, 0x02, 0, 0, 0x37, 0x9e, 0, 0]);
        assert_eq!(sums[7], [0x64, 0x02, 0, 0, 2, 0, 0, 0]);
        assert_eq!(sums[8], [0x0f, 0x27, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn jumps_count_from_the_instruction_behind_them() {
        // if r1 > r8 goto +3; if r2 == 8 goto -2; if w2 != 0xffffffff goto +1; goto +0; exit
        let jumps = bytes(|code| {
            let (start, next, end) = (code.label(), code.label(), code.label());
            code.place(start);
            code.jump_if_above(R1, R8, next);
            code.jump_if(R2, Is::Equal, 8, start);
            code.jump_if_word(R2, Is::NotEqual, u32::MAX, end);
            code.jump(end);
            code.place(next);
            code.place(end);
            code.exit();
        });
        assert_eq!(jumps[0], [0x2d, 0x81, 3, 0, 0, 0, 0, 0]);
        assert_eq!(jumps[1], [0x15, 0x02, 0xfe, 0xff, 8, 0, 0, 0]);
        assert_eq!(jumps[2], [0x56, 0x02, 1, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(jumps[3], [0x05, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_map_takes_two_instructions() {
        let map = File::open("/dev/null").unwrap();
        let number = map.as_raw_fd().to_le_bytes();
        let loaded = bytes(|code| code.map(R1, map.as_fd()));
        assert_eq!(loaded[0][..4], [0x18, 0x11, 0, 0]);
        assert_eq!(loaded[0][4..], number);
        assert_eq!(loaded[1], [0; 8]);
    }

    #[test]
    fn a_jump_that_is_too_long_is_an_error() {
        let far = |distance: usize| {
            let mut code = Assembler::default();
            let end = code.label();
            code.jump(end);
            (0..distance).for_each(|_| code.set(R0, 2));
            code.place(end);
            code.exit();
            code.finish()
        };
        assert!(far(32_767).is_ok());
        assert!(far(32_768).is_err());
    }
}

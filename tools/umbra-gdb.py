# SPDX-License-Identifier: BSL-1.0
"""
gdb commands for programs that run Umbra fibers, on a live process and on a core dump alike:

    (gdb) source tools/umbra-gdb.py        or put that line into ~/.gdbinit
    (gdb) umbra fibers                     all fibers: number, name, core, state, what they wait for
    (gdb) umbra cores                      all cores: processor, state, what runs, what is ready
    (gdb) umbra bt FIBER                   the backtrace of one; "all": of each
    (gdb) umbra fiber FIBER                look at that one: then bt, up, frame, print work on it
    (gdb) umbra fiber                      go back to the thread
    (gdb) umbra children                   executables that run as fibers (mpi/)
    (gdb) umbra symbols                    read the symbols of all of them: then bt, break, print

FIBER is a number of `umbra fibers`, a name, or the address of its control block.

A fiber that does not run has its registers in its control block if it switches in line, else on its
stack, in the frame that Boost.Context made.
`umbra fiber` does not touch the process: while a fiber is selected, an unwinder shows the thread's
newest frame as called by the fiber's. So frame 0 stays the thread's, and the fiber's begin at 1, or
further up where functions are inlined in the thread's: each of them is a frame for gdb.
"""
import os
import re

import gdb
import gdb.types
from gdb.unwinder import Unwinder, register_unwinder

STATES = ("created", "ready", "executing", "stopped", "blocked", "terminated", "system call")
CORE_STATES = ("created", "initializing", "initialized", "executing", "task", "idle", "terminated")
READY, EXECUTING, STOPPED, BLOCKED = 1, 2, 3, 4
CREATED, TERMINATED, SYSTEM_CALL = 0, 5, 6

# Where Boost's frames keep the registers, by byte from the saved stack pointer, and how long they
# are: jump_x86_64_sysv_elf_gas.S and jump_arm64_aapcs_elf_gas.S.
FRAMES = {
    "x86-64": (
        {"r12": 0x08, "r13": 0x10, "r14": 0x18, "r15": 0x20, "rbx": 0x28, "rbp": 0x30, "rip": 0x38},
        "rsp",
        0x40,
    ),
    "aarch64": (
        {
            **{"x%d" % (19 + i): 0x40 + 8 * i for i in range(10)},
            "x29": 0x90,
            "x30": 0x98,
            "pc": 0xA0,
        },
        "sp",
        0xB0,
    ),
}

# Where a context that switches in line goes on: registers by the fields of struct um_arch_place. The
# function that called the switch has saved all others.
PLACES = {
    "x86-64": {"rsp": "sp", "rip": "pc", "rbp": "bp", "rbx": "bx"},
    "aarch64": {"sp": "sp", "pc": "pc", "x29": "x29", "x19": "x19"},
}


class UmbraError(gdb.GdbError):
    """Shown as one line, without a Python backtrace."""


def architecture():
    name = gdb.selected_inferior().architecture().name()
    if name.startswith("i386:x86-64"):
        return "x86-64"
    if name.startswith("aarch64"):
        return "aarch64"
    raise UmbraError("umbra: the frames of Boost.Context are not known for %s" % name)


def number(value):
    """An atomic integer as gdb shows it, or a plain one."""
    return int(value.cast(value.type.unqualified().strip_typedefs()))


def words(value):
    """The text in an array of words."""
    memory = gdb.selected_inferior().read_memory(address(value.address), value.type.sizeof)
    return memory.tobytes().split(b"\0")[0].decode(errors="replace")


def pointer(value, to):
    return value.cast(gdb.lookup_type(to).pointer())


def address(value):
    return int(value.cast(gdb.lookup_type("unsigned long")))


def runtimes():
    try:
        first = gdb.parse_and_eval("um_runtimes.first")
    except gdb.error:
        raise UmbraError("umbra: no um_runtimes here: no Umbra program, or no debug information")
    while address(first) != 0:
        runtime = pointer(first, "struct umbra_runtime").dereference()
        yield runtime
        first = runtime["next"]


def cores():
    for runtime in runtimes():
        for i in range(int(runtime["cores"])):
            yield runtime["core"][i].dereference()


def in_system_call(kind):
    """True if a blocked fiber that waits for this kind of thing is in a system call."""
    kinds = gdb.parse_and_eval("um_kind_system")
    return 0 <= kind - address(kinds.address) < kinds.type.sizeof


class Fiber:
    def __init__(self, block):
        self.block = block
        self.address = address(block.address)
        self.home = address(block["node"]["home"])
        self.state = number(block["state"]) & 0xFF  # UM_STATE_BITS
        if self.home and self.state == READY and address(self.core()["current"]) == self.address:
            self.state = EXECUTING
        if self.state == BLOCKED and in_system_call(address(self.block["waits_for"])):
            self.state = SYSTEM_CALL
        self.name = words(block["name"])

    def core(self):
        return gdb.Value(self.home).cast(gdb.lookup_type("struct umbra_core").pointer()).dereference()

    def lives(self):
        if self.state == CREATED:
            return self.home == 0 or int(self.block["timer"]["deadline"]) != 0
        return self.state != TERMINATED

    def waits(self):
        """What it waits for, what is known of that, and where it called."""
        if self.state == STOPPED:
            return "at " + self.place()
        if self.state not in (BLOCKED, SYSTEM_CALL):
            return ""
        on = address(self.block["waits_on"]) & ~1  # marked where it is a fiber
        text = "?"
        if address(self.block["waits_for"]):
            text = pointer(self.block["waits_for"], "struct um_kind")["name"].string()
        known = KNOWN.get(text)
        if on:
            text += " " + symbol(on)
        if known:
            text += known(on)
        return text + " at " + self.place()

    def place(self):
        """The newest of its frames that is the program's: function, file, line."""
        before = UNWINDER.saved, UNWINDER.newest
        UNWINDER.select(self)
        try:
            frame = gdb.newest_frame()
            for _ in range(UNWINDER.threads):
                frame = frame.older()
            while frame is not None and of_library(frame):
                frame = frame.older()
            if frame is not None:
                sal = frame.find_sal()
                return "%s (%s:%d)" % (frame.name(), os.path.basename(sal.symtab.filename), sal.line)
        finally:
            UNWINDER.saved, UNWINDER.newest = before
            gdb.invalidate_cached_frames()
        return symbol(address(self.block["waits_at"]) or self.registers()[1])

    def label(self):
        return '"%s"' % self.name if self.name else "-"

    def registers(self):
        """Registers by name, where it goes on, its stack pointer."""
        layout, stack_pointer, length = FRAMES[architecture()]
        context = self.block["context"]
        if self.state == EXECUTING:
            raise UmbraError("umbra: the fiber runs: look at the thread of core %d" % self.core()["index"])
        if gdb.types.has_field(context.type, "place"):
            fields = PLACES[architecture()]
            saved = {name: address(context["place"][field]) for name, field in fields.items()}
            pc = "rip" if "rip" in saved else "pc"
            text = gdb.execute("info symbol %d" % saved[pc], to_string=True)
            if text.startswith("um_fiber_main in "):  # not begun: gdb looks at the byte before
                saved[pc] += 1
            return saved, saved[pc], saved[stack_pointer]
        sp = address(context["sp"])
        words = gdb.selected_inferior().read_memory(sp, length).tobytes()
        saved = {
            name: int.from_bytes(words[at : at + 8], "little") for name, at in layout.items()
        }
        saved[stack_pointer] = sp + length
        return saved, saved.get("rip", saved.get("pc")), saved[stack_pointer]


def symbol(at):
    """An address with what gdb knows of it."""
    try:
        block = gdb.block_for_pc(at)
    except gdb.error:
        block = None
    name = None
    while block is not None:
        if block.function is not None:
            name = block.function.name  # the outermost: those inlined in it are the library's
        block = block.superblock
    if name:
        return name
    text = gdb.execute("info symbol %d" % at, to_string=True)
    return "%#x" % at if text.startswith("No symbol") else "<%s>" % text.split(" in section")[0]


def of_library(frame):
    """True for a frame of Umbra's own headers, and of what has no debug information."""
    symtab = frame.find_sal().symtab
    name = frame.name() or "um_"
    if symtab is None or name.startswith(("umbra_", "um_")):  # inlined: lines of its caller's
        return True
    return re.search(r"/umbra/(\w+/)?\w+\.h$", symtab.fullname()) is not None


# ---- executables that run as fibers: mpi/ ----


def children():
    """The children that run: struct umbra_child. None in a program without the loader."""
    try:
        child = gdb.parse_and_eval("um_children.first")
    except gdb.error:
        return
    while address(child) != 0:
        yield child.dereference()
        child = child["next"]


SYMBOLS = set()  # (executable, base) that gdb has been given


def read_symbols(child):
    """Gives gdb the symbols of a child's executable, at the place of its copy."""
    place = child["image"]["path"].string(), address(child["copy"]["base"])
    if place in SYMBOLS:
        return
    SYMBOLS.add(place)
    gdb.execute("set confirm off", to_string=True)
    try:
        gdb.execute('add-symbol-file "%s" -o %#x' % place, to_string=True)
    except gdb.error as error:
        print("umbra: %s: %s" % (place[0], error))


def read_symbols_of(fiber):
    for child in children():
        if address(child["fiber"]["block"]) == fiber.address:
            read_symbols(child)


# ---- what is known of what fibers wait for, by kind ----


def thing(on, kind):
    return gdb.Value(on).cast(gdb.lookup_type("struct " + kind).pointer()).dereference()


def event_list(on):
    group = thing(on, "um_group")
    events = [symbol(address(group["event"][i])) for i in range(int(group["count"]))]
    return " (%s)" % " ".join(events[:8] + ["..."] * (len(events) > 8))


def mutex_holder(on):
    """What um_fiber_self() in umbra/fiber.h makes: a thread is odd; of a fiber block and generation."""
    owner = number(thing(on, "umbra_mutex")["owner"])
    if owner == 0:
        return " that is free"
    at = (owner & ((1 << 43) - 2)) << 5
    if owner & 1:
        return " held by thread %#x" % at
    for fiber in fibers(ended=True):
        if fiber.address == at and number(fiber.block["generation"]) & ((1 << 21) - 1) == owner >> 43:
            ended = "" if fiber.lives() else ", which has ended"
            return " held by fiber %s %#x%s" % (fiber.label(), at, ended)
    return " held by a fiber that has ended"


def lock_holders(on):
    word = number(thing(on, "umbra_rwlock")["word"])  # sync/rwlock.h
    came = 0 if word & 2 else word >> 34
    readers = (came - (word >> 3)) & ((1 << 30) - 1)
    return " held by a writer" if word & 4 else " held by readers: %d" % readers


KNOWN = {
    "mutex": mutex_holder,
    "any of some events": event_list,
    "semaphore": lambda on: " with count %d" % (number(thing(on, "umbra_semaphore")["word"]) // 4),
    "latch": lambda on: " with count %d" % number(thing(on, "umbra_latch")["count"]),
    "read lock": lock_holders,
    "write lock": lock_holders,
}


def slab_fibers(slab, used):
    block = gdb.lookup_type("struct um_fiber")
    colours = 16
    while address(slab) != 0:
        value = slab.dereference()
        slots = int(value["slots"])
        for slot in range(min(used, slots)):
            high = address(value["base"]) + (slot + 1) * int(value["slot_bytes"])
            at = high - slot % colours * 64 - block.sizeof
            yield Fiber(gdb.Value(at).cast(block.pointer()).dereference())
        slab = value["next"]
        used = 1 << 62


def fibers(ended=False):
    """All that live, or have ended, too; each core's in the order of their memory."""
    for core in cores():
        depot = core["more"]["depot"]
        for k in range(depot["slab"].type.range()[1] + 1):
            slab = pointer(depot["slab"][k], "struct um_slab")
            for fiber in slab_fibers(slab, number(depot["next_slot"][k])):
                if ended or fiber.lives():
                    yield fiber


def find(what):
    live = list(fibers())
    if what.isdigit() and int(what) < len(live):
        return live[int(what)]
    named = [fiber for fiber in live if fiber.name == what.strip('"')]
    if len(named) > 1:
        raise UmbraError("umbra: %d fibers have the name %s: give a number" % (len(named), what))
    if named:
        return named[0]
    try:
        at = address(gdb.parse_and_eval(what))
    except gdb.error:
        at = 0
    for fiber in live:
        if fiber.address == at:
            return fiber
    raise UmbraError("umbra: no such fiber: '%s'" % what)


# ---- a selected fiber ----


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class FiberUnwinder(Unwinder):
    """Shows the newest frame as called by the selected fiber's."""

    def __init__(self):
        super().__init__("umbra fiber")
        self.saved = None
        self.newest = None
        self.threads = 1  # how many of the frames are the thread's

    def __call__(self, pending):
        if self.saved is None:
            return None
        sp = pending.read_register("rsp" if "rsp" in self.saved else "sp")
        pc = pending.read_register("rip" if "rip" in self.saved else "pc")
        if (int(sp), int(pc)) != self.newest:
            return None
        info = pending.create_unwind_info(FrameId(sp, pc))
        word = gdb.lookup_type("unsigned long")
        for name, value in self.saved.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(value).cast(word).cast(kind))
        return info

    def select(self, fiber):
        self.saved = None
        gdb.invalidate_cached_frames()
        if fiber is None:
            return
        saved = fiber.registers()[0]
        frame = gdb.newest_frame()
        stack_pointer = "rsp" if "rsp" in saved else "sp"
        self.newest = (int(frame.read_register(stack_pointer)), frame.pc())
        self.threads = 1
        while frame.type() == gdb.INLINE_FRAME:
            self.threads += 1
            frame = frame.older()
        self.saved = saved
        gdb.invalidate_cached_frames()


UNWINDER = FiberUnwinder()
register_unwinder(None, UNWINDER, replace=True)


def forget(event):
    """A process that has run is not where it was."""
    UNWINDER.select(None)


def forget_symbols(event):
    SYMBOLS.clear()


gdb.events.cont.connect(forget)
gdb.events.exited.connect(forget)
gdb.events.exited.connect(forget_symbols)


def backtrace(fiber):
    """The fiber's frames as gdb prints them, numbered from 0."""
    read_symbols_of(fiber)
    before = UNWINDER.saved, UNWINDER.newest
    UNWINDER.select(fiber)
    try:
        lines = gdb.execute("bt", to_string=True).splitlines()
    finally:
        UNWINDER.saved, UNWINDER.newest = before
        gdb.invalidate_cached_frames()
    for line in lines:
        if line.startswith("#"):
            head, rest = line[1:].split(None, 1)
            if int(head) < UNWINDER.threads:
                continue
            line = "#%-3d%s" % (int(head) - UNWINDER.threads, rest)
        print(line)
        if "um_fiber_main" in line:
            break  # below it is only what made the stack


# ---- commands ----


class Umbra(gdb.Command):
    """Fibers and cores of programs that use Umbra: umbra fibers, cores, bt, fiber."""

    def __init__(self):
        super().__init__("umbra", gdb.COMMAND_STACK, prefix=True)


class Fibers(gdb.Command):
    """List all live fibers: number, address, core, state, name, what they wait for."""

    def __init__(self):
        super().__init__("umbra fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        print("%5s  %-14s %4s  %-11s %-24s waits for" % ("", "address", "core", "state", "name"))
        for i, fiber in enumerate(fibers()):
            core = str(int(fiber.core()["index"])) if fiber.home else "-"
            row = (i, fiber.address, core, STATES[fiber.state], fiber.label(), fiber.waits())
            print(("%5d  %#-14x %4s  %-11s %-24s %s" % row).rstrip())


class Children(gdb.Command):
    """List the executables that run as fibers: fiber, core, state, base of the copy, path."""

    def __init__(self):
        super().__init__("umbra children", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        print("%-14s %4s  %-11s %-14s executable" % ("fiber", "core", "state", "base"))
        for child in children():
            fiber = Fiber(child["fiber"]["block"].dereference())
            core = str(int(fiber.core()["index"])) if fiber.home else "-"
            place = address(child["copy"]["base"]), child["image"]["path"].string()
            print("%#-14x %4s  %-11s %#-14x %s" % ((fiber.address, core, STATES[fiber.state]) + place))


class Symbols(gdb.Command):
    """Read the symbols of all executables that run as fibers."""

    def __init__(self):
        super().__init__("umbra symbols", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for child in children():
            read_symbols(child)


class Cores(gdb.Command):
    """List the holds of runtimes, and all cores: number, processor, state, what runs, how many fibers
    are ready and alive."""

    def __init__(self):
        super().__init__("umbra cores", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for runtime in runtimes():
            print("runtime %#x, holds: %d" % (address(runtime.address), number(runtime["holds"])))
        print("core   cpu  state        ready  alive  runs")
        for core in cores():
            current = address(core["current"])
            ready, link, first = 0, core["ready"]["next"], address(core["ready"].address)
            while address(link) not in (first, 0):
                ready += 1
                link = pointer(link, "struct um_link").dereference()["next"]
            state = "task" if current else CORE_STATES[number(core["state"])]
            row = (int(core["index"]), int(core["cpu"]), state, ready, number(core["live"]))
            print("%4d  %4d  %-11s  %5d  %5d  %s" % (row + ("%#x" % current if current else "-",)))


class Backtrace(gdb.Command):
    """Print the backtrace of a fiber, by number, name or address; "all": of each."""

    def __init__(self):
        super().__init__("umbra bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if not argument:
            raise UmbraError('umbra: which fiber? A number, a name, an address, or "all"')
        if argument != "all":
            backtrace(find(argument))
            return
        for i, fiber in enumerate(fibers()):
            print("fiber %d %s %s" % (i, fiber.label(), STATES[fiber.state]))
            if fiber.state in (STOPPED, BLOCKED, SYSTEM_CALL, READY):
                backtrace(fiber)
            elif fiber.state == EXECUTING:
                print("runs: see the thread of core %d" % fiber.core()["index"])
            print()


class Select(gdb.Command):
    """Look at a fiber, by number, name or address: bt, up, print then work on it.
    Without an argument: go back to the thread."""

    def __init__(self):
        super().__init__("umbra fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fiber = find(argument) if argument else None
        if fiber:
            read_symbols_of(fiber)
        UNWINDER.select(fiber)
        if argument:
            gdb.execute("frame %d" % UNWINDER.threads)
        else:
            gdb.execute("frame 0")


Umbra()
Fibers()
Cores()
Backtrace()
Select()
Children()
Symbols()

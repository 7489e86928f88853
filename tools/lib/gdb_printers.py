"""Printers for gdb: lists, maps, arenas, buffers and errors as what they hold. Loaded by .gdbinit.

    (gdb) p router->fleet          structs show their lists' lengths, maps' entries, buffers' text
    (gdb) tandem-list HEAD TYPE MEMBER     each object of an intrusive list, dereferenced
"""
import gdb

SHOWN_MAX = 200  # entries of a list or a map: a broken one may have no end


class ListPrinter:
    """An intrusive list's head, or a link: how many others hang on it."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        head, at, n = int(self.value.address or 0), self.value["next"], 0
        while head and int(at) not in (0, head) and n < SHOWN_MAX:
            at, n = at.dereference()["next"], n + 1
        return f"list of {n}{' or more' if n == SHOWN_MAX else ''}"


class MapPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"map of {int(self.value['n_used'])} (at most {int(self.value['capacity'])})"

    def children(self):
        shown = 0
        for at in range(int(self.value["n_slots"])):
            slot = (self.value["slots"] + at).dereference()
            if int(slot["used"]) and shown < SHOWN_MAX:
                shown += 1
                yield f"{int(slot['key']['hi']):x}.{int(slot['key']['lo']):x}", slot["value"]


class ArenaPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"arena with {int(self.value['n_bytes'])} of {int(self.value['limit'])} bytes"


class BufPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        n, data = int(self.value["n"]), self.value["data"]
        text = data.string("utf-8", "backslashreplace", min(n, SHOWN_MAX)) if n and int(data) else ""
        return f"buf of {n}{', failed' if self.value['failed'] else ''}: {text!r}{'...' if n > SHOWN_MAX else ''}"


class RequestIdPrinter:
    """As the log writes it."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"{int(self.value['hi']):x}.{int(self.value['lo']):x}"


PRINTERS = {"list": ListPrinter, "map": MapPrinter, "arena": ArenaPrinter, "buf": BufPrinter, "request_id": RequestIdPrinter}


def find_printer(value):
    kind = value.type.strip_typedefs()
    printer = PRINTERS.get(kind.tag) if kind.code == gdb.TYPE_CODE_STRUCT else None
    return printer(value) if printer else None


class ListCommand(gdb.Command):
    """tandem-list HEAD TYPE MEMBER: each object whose link MEMBER hangs on the list HEAD (an lvalue)."""

    def __init__(self):
        super().__init__("tandem-list", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        head_text, kind, member = argument.rsplit(" ", 2)
        head = gdb.parse_and_eval(head_text)
        pointer = gdb.lookup_type(f"struct {kind}").pointer()
        offset = int(gdb.parse_and_eval(f"&((struct {kind} *)0)->{member}"))
        at, n = head["next"], 0
        while int(at) != int(head.address) and n < SHOWN_MAX:
            print(f"[{n}]", gdb.Value(int(at) - offset).cast(pointer).dereference())
            at, n = at.dereference()["next"], n + 1


gdb.pretty_printers.append(find_printer)
ListCommand()

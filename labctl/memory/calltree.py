"""The calls of one program: the compiler's account of its objects, joined with its symbols, machine code and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath

from labctl.errors import FileFault
from labctl.memory import machine
from labctl.memory.callgraph import INDIRECT, Call, Function, complete, read_callgraph
from labctl.memory.elf import Program
from labctl.memory.mapfile import LinkMap
from labctl.memory.pointers import called_field, field_targets


@dataclass
class CallTree:
    """What the functions of a program call. `folder` is where the compiler ran: names of files are relative to it."""

    program: Program
    compiled: dict[str, Function]
    folder: Path
    followed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, program: Program, link_map: LinkMap, folder: Path) -> CallTree:
        """Read the .ci files beside the objects that a map names. Raises FileFault where there is none at all."""
        objects = [folder / name for name in link_map.objects if name.endswith(".o")]
        paths = [path.with_suffix(".ci") for path in objects if path.with_suffix(".ci").is_file()]
        if not paths:
            raise FileFault(
                f"no call graph (.ci) lies beside the objects of {program.path}: build with -fcallgraph-info=su"
            )
        return cls(program, read_callgraph(paths), folder)

    def reach(self, root: str, ignore_pointers: Iterable[str] = ()) -> dict[str, Function]:
        """Take all functions below a root, calls of fields of constant tables followed.

        Calls through pointers in the functions named in `ignore_pointers` are left out.
        """
        ignored = frozenset(ignore_pointers)

        def find(title: str) -> Function | None:
            function = self.compiled.get(title)
            return self._described(title) if function is None else self._resolved(function, ignored)

        return complete(find, root)

    def title_at(self, address: int) -> str | None:
        """Name the function at an address as the call graph does; None where no function begins there."""
        for symbol in self.program.at(address):
            if not symbol.file and symbol.name in self.compiled:
                return symbol.name
            titles = [
                title for title in self._by_name.get(symbol.name, ())
                if symbol.file and PurePath(title.rpartition(":")[0]).name == PurePath(symbol.file).name
            ]
            if len(titles) == 1:
                return titles[0]
        found = self.program.at(address)
        return found[0].name if found else None

    def titles(self, name: str) -> tuple[str, ...]:
        """List the functions of a name, copies that the compiler has specialised included."""
        found = [titles for known, titles in self._by_name.items() if known.partition(".")[0] == name]
        return tuple(title for titles in found for title in titles)

    def n_followed(self, reached: dict[str, Function]) -> int:
        """Count the call sites through pointers that were followed among these functions."""
        compiled = (self.compiled[title] for title in reached if title in self.compiled)
        return len({call.place for one in compiled for call in one.calls if call.place in self.followed})

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for title, function in self.compiled.items():
            names.setdefault(function.name, []).append(title)
        return names

    @cached_property
    def _fields(self) -> dict[str, frozenset[int]]:
        return field_targets(self.program)

    def _targets(self, place: str) -> tuple[str, ...]:
        name = called_field(place, self.folder)
        titles = [self.title_at(address) for address in sorted(self._fields.get(name or "", ()))]
        return tuple(title for title in titles if title) if all(titles) else ()

    def _resolved(self, function: Function, ignored: frozenset[str]) -> Function:
        calls: list[Call] = []
        for call in function.calls:
            if call.target != INDIRECT:
                calls.append(call)
            elif function.title not in ignored:
                targets = self._targets(call.place)
                if targets:
                    self.followed.add(call.place)
                calls += [Call(title, call.place) for title in targets] or [call]
        return replace(function, calls=tuple(calls))

    def _described(self, title: str) -> Function | None:
        """Describe what no .ci file does: another name of a function that one describes, or a library's function."""
        name = title.rpartition(":")[2]
        symbol = self.program.find(name)
        other = None if symbol is None else self.title_at(symbol.address)
        if other is not None and other != title and other in self.compiled:
            return Function(title, 0, (Call(other, ""),), "")
        found = machine.describe(self.program, name)
        return None if found is None else replace(found, title=title)


"""Stops a process before every system call that changes something below a folder: to go on, fail or die.

The kernel's seccomp(2) hands such calls to a supervisor, those of C libraries and of all threads as well. It
takes no root and no ptrace, and costs nothing for other calls.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from syscalls import CREATING, RULES, Buffers, Machine, Rule, Target, this_machine

_NOTIFICATION = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_SET_FILTER, _LISTENER = 1, 8
_NO_NEW_PRIVILEGES = 38
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_AT_NUMBER, _AT_MACHINE, _AT_ARGUMENTS = 0, 4, 16
_IOVEC = struct.Struct("<QQ")
_HERE = -100
"""AT_FDCWD"""


@dataclass(frozen=True, slots=True)
class Go:
    """Let the call happen."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Let the call fail with this error number."""

    error: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the process before the call, or with this share of its bytes written."""

    share: float = 0.0


Answer = Go | Fail | Kill
GO = Go()


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a process is about to make.

    Attributes:
        number: how many came before.
        name: of the call.
        path: what it changes, below the folder.
        size: bytes that it writes.
        errors: what a device can answer.
    """

    number: int
    name: str
    path: str
    size: int
    errors: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.path}" + (f" ({self.size} bytes)" if self.size else "")


def unavailable() -> str:
    """Why this machine cannot do it; empty if it can."""
    if this_machine() is None:
        return "needs Linux on x86-64 or aarch64"
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(install())
            os._exit(0)
        os._exit(1)
    return (
        ""
        if os.waitpid(child, 0)[1] == 0
        else "the kernel, or the container, does not allow seccomp user notification"
    )


def install() -> int:
    """Have the kernel ask for leave for every such call of this process from now on; where it asks.

    Raises:
        OSError: it does not do so here.
    """
    machine = this_machine()
    if machine is None:
        raise OSError(errno.ENOSYS, "not on this machine")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    code = _program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer)))
    found = libc.syscall(machine.seccomp, _SET_FILTER, _LISTENER, program)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)


def _program(machine: Machine) -> bytes:
    """The filter: opens that create or truncate, and every other listed call, are asked about."""
    steps = [(_LOAD, 0, 0, _AT_MACHINE), (_JUMP_EQUAL, 1, 0, machine.audit), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_LOAD, 0, 0, _AT_NUMBER))
    for name, number in machine.numbers.items():
        rule = RULES[name]
        if rule.flags is None:
            steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
            continue
        steps += [
            (_JUMP_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * rule.flags),
            (_JUMP_ANY_BIT, 0, 1, CREATING),
            (_RETURN, 0, 0, _NOTIFY),
            (_RETURN, 0, 0, _ALLOW),
        ]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


class Supervisor:
    """Answers the calls of a process, and of those that it starts.

    Args:
        listener: the descriptor that ``install`` returned, in this process; it is closed at the end.
        process: who is killed.
        root: calls that change nothing below this folder are let through.
        decide: what is to become of a call.

    Attributes:
        calls: that came, in order.
        killed: at which one the process was killed.
    """

    def __init__(self, listener: int, process: int, root: Path, decide: Callable[[Call], Answer]) -> None:
        self.calls: list[Call] = []
        self.killed: Call | None = None
        self._listener, self._process, self._decide = listener, process, decide
        self._root = str(root)
        self._names = (
            {} if (machine := this_machine()) is None else {n: k for k, n in machine.numbers.items()}
        )

    def run(self, limit_s: float) -> bool:
        """Answer until the process ends; whether it does so in time."""
        ended = os.pidfd_open(self._process)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(self._listener, select.POLLIN)
        try:
            end_s = time.monotonic() + limit_s
            while ended not in (ready := dict(poll.poll(max(0.0, end_s - time.monotonic()) * 1000))):
                if ready.get(self._listener, 0) & select.POLLIN:
                    self._answer_one()
                elif not ready:
                    return False
        except BaseException:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            raise
        else:
            return True
        finally:
            os.close(ended)
            os.close(self._listener)

    def _answer_one(self) -> None:
        asked = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, asked)
        except OSError as error:  # it died meanwhile
            if error.errno in {errno.ENOENT, errno.EINTR}:
                return
            raise
        ident, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(asked)
        answer = self._judge(_Asking(thread, self._names[number], arguments))
        value = -answer.error if isinstance(answer, Fail) else 0
        reply = _ANSWER.pack(ident, 0, value, 0 if value else _CONTINUE)
        if self.killed is None:
            with suppress(OSError):
                fcntl.ioctl(self._listener, _SEND, reply)

    def _judge(self, asking: _Asking) -> Answer:
        if self.killed is not None:
            return GO
        try:
            path = asking.path()
        except OSError:  # it died meanwhile
            return GO
        if path != self._root and not path.startswith(f"{self._root}/"):
            return GO
        call = Call(
            len(self.calls), asking.name, path[len(self._root) + 1 :], asking.size(), asking.rule.errors
        )
        self.calls.append(call)
        answer = self._decide(call)
        if isinstance(answer, Kill):
            self.killed = call
            if answer.share and call.size:
                asking.write_part(answer.share)
            os.kill(self._process, signal.SIGKILL)
        return answer


@dataclass(frozen=True, slots=True)
class _Asking:
    """A thread before a call."""

    thread: int
    name: str
    arguments: list[int]

    @property
    def rule(self) -> Rule:
        return RULES[self.name]

    def path(self) -> str:
        if self.rule.target is Target.DESCRIPTOR:
            return self._link(f"fd/{self._signed(self.rule.at)}")
        given = os.fsdecode(self._text(self.arguments[self.rule.at]))
        if given.startswith("/"):
            return given
        folder = _HERE if self.rule.directory is None else self._signed(self.rule.directory)
        return f"{self._link('cwd' if folder == _HERE else f'fd/{folder}')}/{given}"

    def size(self) -> int:
        match self.rule.buffers:
            case Buffers.PLAIN:
                return self.arguments[2]
            case Buffers.VECTOR:
                return sum(size for _, size in self._vector())
            case _:
                return 0

    def write_part(self, share: float) -> None:
        """Do the first part of a write in its place."""
        buffers = (
            self._vector()
            if self.rule.buffers is Buffers.VECTOR
            else [(self.arguments[1], self.arguments[2])]
        )
        data = b"".join(self._memory(at, size) for at, size in buffers)
        number = self._signed(self.rule.at)
        if self.rule.offset is not None:
            position = self.arguments[self.rule.offset]
        else:
            lines = Path(f"/proc/{self.thread}/fdinfo/{number}").read_text(encoding="ascii").splitlines()
            position = int(lines[0].split()[1])
        target = os.open(f"/proc/{self.thread}/fd/{number}", os.O_WRONLY)
        try:
            os.pwrite(target, data[: max(1, round(len(data) * share))], position)
        finally:
            os.close(target)

    def _link(self, name: str) -> str:
        return str(Path(f"/proc/{self.thread}/{name}").readlink())

    def _vector(self) -> list[tuple[int, int]]:
        table = self._memory(self.arguments[1], self.arguments[2] * _IOVEC.size)
        return [*_IOVEC.iter_unpack(table)]

    def _signed(self, argument: int) -> int:
        return int(ctypes.c_int32(self.arguments[argument] & 0xFFFFFFFF).value)

    def _memory(self, address: int, size: int) -> bytes:
        with Path(f"/proc/{self.thread}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            data = b""
            while len(data) < size and (more := memory.read(size - len(data))):
                data += more
            return data

    def _text(self, address: int) -> bytes:
        """Up to the zero; page by page, because the next one may not be there."""
        data = b""
        while b"\0" not in data:
            data += self._memory(address + len(data), 4096 - (address + len(data)) % 4096)
        return data.partition(b"\0")[0]

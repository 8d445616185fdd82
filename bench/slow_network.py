"""Hosts of this machine, each a network namespace, and a hub that carries their packets late, or loses them. Needs
root.

Kernels without netem can do this as well: a host's only network is a tunnel, whose packets this process forwards.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _TUN, _NO_PACKET_INFO = 0x400454CA, 0x0001, 0x1000
_DEVICE = "slow0"
_NET = "10.77.0"
_LAST_OCTET_OF_TARGET = 19
_TICK_S = 0.5


def possible() -> bool:
    return os.geteuid() == 0 and Path("/dev/net/tun").exists()


class Network:
    """A network whose `delay_s` and `loss` apply to each packet, and may be changed at any time."""

    def __init__(self, names: Sequence[str]) -> None:
        self.delay_s, self.loss = 0.0, 0.0
        self.lost = 0
        self.address_of = {name: f"{_NET}.{number}" for number, name in enumerate(names, 1)}
        self._over = threading.Event()
        self._ready = threading.Event()
        self._hub = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Network:
        for name in self.address_of:
            _ip("netns", "add", _space(name))
        self._hub.start()
        if not self._ready.wait(10):
            self.__exit__()
            raise SystemExit("bench: no tunnel can be made here")
        for name, address in self.address_of.items():
            for words in (["link", "set", "lo", "up"], ["link", "set", _DEVICE, "mtu", "1400", "up"]):
                _ip("-n", _space(name), *words)
            _ip("-n", _space(name), "address", "add", f"{address}/24", "dev", _DEVICE)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._hub.join()
        for name in self.address_of:
            _ip("netns", "delete", _space(name))

    def start(
        self, host: str, words: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """A process on a host."""
        with log.open("ab") as output:
            return subprocess.Popen(
                ["ip", "netns", "exec", _space(host), *words], stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )  # fmt: skip

    def _carry(self) -> None:
        tunnels = {int(address.rpartition(".")[2]): _tunnel(name) for name, address in self.address_of.items()}
        self._ready.set()
        waiting: list[tuple[float, int, int, bytes]] = []
        numbers, dice, poll = itertools.count(), random.Random(1), select.poll()
        for tunnel in tunnels.values():
            poll.register(tunnel, select.POLLIN)
        while not self._over.is_set():
            left_s = waiting[0][0] - time.monotonic() if waiting else _TICK_S
            for tunnel, _ in poll.poll(max(0.0, min(left_s, _TICK_S)) * 1000):
                packet = os.read(tunnel, 2**16)
                target = packet[_LAST_OCTET_OF_TARGET] if packet[0] >> 4 == 4 else 0
                if target not in tunnels:
                    continue
                if dice.random() < self.loss:
                    self.lost += 1
                    continue
                heapq.heappush(waiting, (time.monotonic() + self.delay_s, next(numbers), tunnels[target], packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, tunnel, packet = heapq.heappop(waiting)
                os.write(tunnel, packet)
        for tunnel in tunnels.values():
            os.close(tunnel)


def _space(name: str) -> str:
    return f"slab-{os.getpid()}-{name}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _tunnel(name: str) -> int:
    """One end of a tunnel, made in the namespace of a host, which this thread enters for that."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/run/netns/{_space(name)}").open() as space:
        if libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    tunnel = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tunnel, _TUNSETIFF, struct.pack("16sH", _DEVICE.encode(), _TUN | _NO_PACKET_INFO))
    return tunnel

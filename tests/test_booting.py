"""The guest with throw-away drives, which other tests rely upon."""

from pathlib import Path

import pytest

from bench.guest import Drive


@pytest.mark.timeout(700)
def test_a_guest_has_the_drives_that_were_described_and_returns_what_its_script_said(guest, tmp_path):
    one, two, waits = (tmp_path / name for name in ("one", "two", "waits"))
    drives = [Drive("ONE", 2**26, one), Drive("TWO", 2**27, two, 4096), Drive("TWO", 2**25, waits, attached=False)]
    finished = guest("shows_drives", drives, limit_s=500)
    assert finished.exit_code == 7, finished.output
    lines = [line for line in finished.output.splitlines() if "Ctrl" in line or "after" in line]
    name = "nvme-QEMU_NVMe_Ctrl"
    before, after = lines[: lines.index("after attach-ns")], lines[lines.index("after attach-ns") :]
    assert f"{name}_ONE {2**26 // 512} 512" in before
    assert f"{name}_TWO {2**27 // 512} 4096" in before
    assert not any(f" {2**25 // 512} " in line for line in before)
    assert f"{name}_TWO_2 {2**25 // 512} 512" in after
    assert (finished.folder / "file").read_text() == "from the guest"
    assert not Path("/etc/only-in-the-guest").exists()
    assert one.read_bytes()[:4097] == b"\1" * 4096 + b"\0"

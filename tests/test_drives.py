"""Volumes made of whole drives: the refused drives, the journal's facts, and that no data is destroyed without a
question. `test_preparing` makes such volumes, in a guest.
"""

import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.processes import until
from storagelab.model.target import ClaimedDrive
from storagelab.model.volume import VolumeConfig
from storagelab.verbs._running import refuse_unconfirmed
from storagelab.volumes import drives, file_systems, journal, preparing, programs, refusals
from storagelab.volumes.drives import Drive
from storagelab.volumes.journal import Journal
from storagelab.volumes.refusals import Background

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes drives")
ID = "/dev/disk/by-id/nvme-Maker_9000_S1"
BLANK = Drive(id=ID, name="nvme0n1", serial="S1", model="Maker 9000", size_bytes=10**12)
# As `nvme id-ns` and `id-ctrl` of nvme-cli 2.3 answered for an emulated drive, without what is not read.
LBA_FORMATS = [{"ms": ms, "ds": ds, "rp": 0} for ds in (9, 12) for ms in (0, 8, 16, 64)]
NAMESPACE = {"flbas": 0, "dps": 0, "lbafs": LBA_FORMATS}
FORMATS = drives.formats_in(NAMESPACE, {"fna": 0}, 1)


def volume(**keys: object) -> VolumeConfig:
    return VolumeConfig.model_validate({"path": "/mnt", "devices": (ID,), **keys})


def problems(drive: Drive, known: Background = refusals.NOTHING_KNOWN, **keys: object) -> list[str]:
    return [str(error) for error in refusals.refusals(drive, volume(**keys), "volumes.a", known)]


def changed(**facts: object) -> Drive:
    return BLANK.model_copy(update=facts)


@pytest.mark.parametrize(
    ("drive", "words"),
    [
        (changed(part_of="nvme0n1"), "is a partition of nvme0n1\n  name the whole drive"),
        (changed(name="dm-0", made_of_others=True), "is not a drive"),
        (changed(serial=""), "reports no serial number"),
        (changed(read_only=True), "is read-only"),
        (changed(shared_name=True), "is the name of every namespace .*\n.* ends with its number, such as .*_S1_1"),
        (changed(of_the_system=True, used_by=("it is mounted at /",)), "is the system's own drive: it is mounted at /"),
        (changed(used_by=("the RAID md0 is made of it",)), "is in use: the RAID md0 is made of it\n  unmount, stop"),
        (changed(holds=("ext4", "LVM2_member")), 'volumes.a.wipe: .*holds ext4, LVM2_member.*\n.*wipe = "S1"'),
    ],
)  # fmt: skip
def test_a_drive_that_is_used_or_holds_something_is_refused_with_a_way_out(drive, words):
    assert [re.search(words, problem) is not None for problem in problems(drive)] == [True]


@given(
    st.builds(
        Drive, id=st.just(ID), name=st.sampled_from(["nvme0n1", "sda"]), serial=st.sampled_from(["", "S1", "S2"]),
        model=st.sampled_from(["Maker 9000", "Other"]), size_bytes=st.sampled_from([10**12, 2 * 10**12]),
        holds=st.lists(st.sampled_from(["ext4 (sda)", drives.UNKNOWN_DATA, "zfs_member (sda)"]), max_size=2).map(tuple),
        used_by=st.lists(st.sampled_from(["it is mounted at /x"]), max_size=1).map(tuple), of_the_system=st.booleans(),
        read_only=st.booleans(), made_of_others=st.booleans(), part_of=st.sampled_from(["", "sda"]),
    ),
    st.lists(st.sampled_from(["S1", "S2", "S3"]), max_size=2),
    st.booleans(),
)  # fmt: skip
def test_a_drive_is_taken_only_if_nobody_uses_it_and_its_content_was_named(drive, wiped, released):
    taken = not problems(drive, Background(confirmed=BLANK, released=released), wipe=tuple(wiped))
    if taken:
        assert drive.is_same_as(BLANK)
        assert not any([drive.used_by, drive.of_the_system, drive.read_only])
        assert set(drive.holds or ()) <= ({drives.UNKNOWN_DATA} if released else set()) or drive.serial in wiped


def test_another_drive_under_the_same_name_is_refused():
    (problem,) = problems(changed(serial="S2"), Background(confirmed=BLANK))
    assert "is not the drive with which this campaign began: now Maker 9000, serial S2" in problem


def test_sectors_that_the_drive_can_not_have_or_not_alone_or_not_give_up_again_are_refused():
    def refused(formats: drives.Formats, sector_bytes: int = 4096, **keys: object) -> list[str]:
        return problems(BLANK, Background(formats=formats), sector_bytes=sector_bytes, **keys)

    assert refused(FORMATS) == []
    assert "no format with sectors of 2048 B\n  it has 512 and 4096" in refused(FORMATS, 2048)[0]
    assert "formats all of them at once" in refused(drives.formats_in(NAMESPACE, {"fna": 1}, 2))[0]
    protected = drives.formats_in({**NAMESPACE, "flbas": 1, "dps": 1}, {"fna": 0}, 1)
    assert "can't restore: 8 B of metadata" in refused(protected)[0]
    assert refused(protected, wipe="S1") == []
    assert "only NVMe drives" in problems(changed(name="sda"), sector_bytes=4096)[0]


def test_the_format_in_use_is_kept_where_two_have_the_same_sectors():
    two_alike = {"flbas": 0x20, "lbafs": [*LBA_FORMATS, *[{"ms": 0, "ds": 9, "rp": 1}] * 30]}
    formats = drives.formats_in(two_alike, {}, 1)  # bits 5 and 6 of flbas are the high ones: format 16
    assert (formats.now.number, formats.with_sectors(512)) == (16, formats.now)


def test_what_lies_on_a_drive_is_told_from_what_wipefs_says():
    found = {"signatures": [{"type": "gpt"}, {"type": "PMBR"}, {"type": "ext4", "label": "old"}]}
    told = list(drives.signatures_in(json.dumps(found), "/dev/sda"))
    assert told == ["a partition table (sda)", "a partition table (sda)", 'ext4 "old" (sda)']
    assert list(drives.signatures_in("", "/dev/sda")) == []


def test_drives_of_a_raid_are_named_once_and_are_of_one_size():
    with pytest.raises(PreflightError, match="are one drive"):
        refusals.refuse_twice([BLANK, changed(id=f"{ID}_1")], "volumes.a")
    refusals.refuse_unequal([BLANK, changed(size_bytes=BLANK.size_bytes + 10**9)], "volumes.a")
    with pytest.raises(PreflightError, match="unequal size"):
        refusals.refuse_unequal([BLANK, changed(size_bytes=2 * BLANK.size_bytes)], "volumes.a")


# --- the journal -----------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "REGISTRY", tmp_path / "registry")
    return tmp_path / "registry"


def test_a_drive_that_was_not_given_back_is_found_even_if_the_last_line_was_cut_off(tmp_path, registry):
    kept = Journal(tmp_path / "results")
    kept.confirmed(BLANK)
    kept.claimed(BLANK, 3)
    kept.step(BLANK, "blkdiscard")
    file = tmp_path / "results" / journal.FILE
    file.write_text(file.read_text() + '{"event": "rele')
    history = kept.of(ID)
    assert (history.confirmed, history.steps, history.claim.lba_format) == (BLANK, ("blkdiscard",), 3)
    assert kept.left() == [(history.claim, True)]
    assert journal.claims() == [history.claim]
    kept.released(BLANK)
    assert (kept.left(), journal.claims(), kept.of(ID).released) == ([], [], True)


def test_a_drive_of_another_experiment_is_refused_until_it_is_given_back(tmp_path, registry):
    Journal(tmp_path / "theirs").claimed(BLANK, None)
    with pytest.raises(RunFailed, match=r"not given back.*theirs\n.*volumes undo .*theirs"):
        Journal(tmp_path / "ours").claimed(BLANK, None)
    assert Journal(tmp_path / "ours").left() == []
    first, second = (changed(id=f"{ID}_{number}", wwid=f"nvme.{number}", size_bytes=9) for number in (1, 2))
    Journal(tmp_path / "of-one").claimed(first, None)
    Journal(tmp_path / "of-the-other").claimed(second, None)  # an equal namespace of the same controller


def test_what_somebody_put_on_a_blank_drive_is_only_destroyed_if_it_was_shown_then(tmp_path, registry):
    kept = Journal(tmp_path / "results")
    with_table = changed(holds=("a partition table (nvme0n1)",))
    kept.confirmed(with_table)
    kept.claimed(with_table, None)
    kept.released(with_table)
    assert kept.of(ID).confirmed == BLANK  # as it was given back
    kept.confirmed(with_table)
    assert kept.of(ID).confirmed == with_table


def test_a_drive_is_had_only_when_the_programs_that_a_killed_run_left_at_work_have_ended(tmp_path, registry):
    begun, waited_for, made = (tmp_path / name for name in ("begun", "waited_for", "made"))
    works = f"touch {begun}; for i in $(seq 300); do [ -e {waited_for} ] && break; sleep 0.1; done; touch {made}"
    code = (
        "import sys; from pathlib import Path; from storagelab.volumes import drives, journal, programs\n"
        "journal.REGISTRY = Path(sys.argv[1])\n"
        "with journal.locked(drives.Drive.model_validate_json(sys.argv[2])):\n"
        "    programs.said('sh', '-c', sys.argv[3])\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, str(registry), BLANK.model_dump_json(), works])
    assert until(begun.exists, 30)
    killed.kill()
    killed.wait()
    told = logging.Handler()
    told.emit = lambda record: waited_for.write_text(record.getMessage())
    logging.getLogger("storagelab").addHandler(told)
    with journal.locked(BLANK):
        assert made.exists()
    logging.getLogger("storagelab").removeHandler(told)
    said = waited_for.read_text()
    assert re.fullmatch(r"waiting for process \d+ \(sh\).*, which a killed run has left running", said)


def test_a_program_that_fails_without_a_word_has_its_exit_code_and_a_way_out():
    with pytest.raises(
        RunFailed, match=r"^sh -c exit 3: it ended with exit code 3, and printed nothing\n  the kernel's log"
    ):
        programs.said("sh", "-c", "exit 3")


def test_a_journal_that_can_not_be_written_stops_everything(tmp_path, registry):
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(RunFailed, match="so nothing is done to a drive"):
        Journal(tmp_path / "results").step(BLANK, "blkdiscard")


@pytest.mark.parametrize(
    "line",
    [
        b"{", b"7", b"null", b"[" * 100_000, b"\0\0", b"\xff\xfe\x80", b"x" * 2**20, b'{"event": "claimed"}',
        b'{"event": "claimed", "device": "/a"}', b'{"event": "step", "device": "/a\\u0000", "what": "x"}',
        b'{"event": "queue", "device": "/a", "before": {"../../x": 1}}', b'{"event": "step", "device": 1, "what": []}',
    ],
)  # fmt: skip
def test_a_damaged_journal_is_one_error_with_its_line_and_a_way_out(tmp_path, registry, line):
    kept = Journal(tmp_path / "results")
    kept.claimed(BLANK, None)
    with (tmp_path / "results" / journal.FILE).open("ab") as file:
        file.write(line + b"\n" + b"{}\n")
    for look in (kept.left, lambda: kept.of(ID), lambda: preparing.put_back(kept)):
        with pytest.raises(
            RunFailed, match=r"drives.jsonl: line 2 is damaged .*nothing is done.*\n  to get drives back"
        ):
            look()


def test_a_journal_that_claims_a_drive_twice_or_is_no_file_is_refused(tmp_path, registry):
    kept = Journal(tmp_path / "results")
    kept.claimed(BLANK, None)
    file = tmp_path / "results" / journal.FILE
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(RunFailed, match=r"line 2 is damaged .*claimed a second time"):
        kept.left()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(RunFailed, match="is not a regular file"):
        kept.left()


@pytest.fixture
def stand_in(tmp_path, monkeypatch, registry):
    """A loop device that stands for a drive."""
    monkeypatch.setattr(drives, "serial_of", lambda _, kernel=None: "S1")
    monkeypatch.setattr(drives, "_NO_DRIVES", re.compile("none"))
    monkeypatch.setattr(refusals, "STABLE_NAMES", "/dev/")
    with file_systems.made_of_file(tmp_path / "drive", 2**26, None) as name:
        yield drives.look(f"/dev/{name}", "devices")


def minix(node: str) -> None:
    subprocess.run(["mkfs.minix", node], check=True, capture_output=True)


def raw_bytes(node: str) -> None:
    with open(node, "r+b") as drive:
        drive.seek(16 * 2**20)
        drive.write(b"rows" * 1000)
        drive.seek(0)
        drive.write(b"a database without a file system")


def tar(node: str) -> None:
    subprocess.run(["tar", "-cf", node, "/etc/hostname"], check=True, capture_output=True)


def ext4(node: str) -> None:
    file_systems.make(node, "ext4", "-F")


def content(drive: Drive) -> bytes:
    with open(f"/dev/{drive.name}", "rb") as opened:
        return opened.read()


@as_root
@pytest.mark.parametrize("put", [minix, raw_bytes, tar, ext4])
def test_what_somebody_put_on_a_drive_since_the_kill_is_wiped_only_if_its_serial_number_is_given(
    tmp_path, stand_in, put
):
    left = Journal(tmp_path / "results")
    claim = left.claimed(stand_in, None)
    drives.mark(stand_in.name, claim.token)
    assert list(drives.signatures_in(programs.said("wipefs", "--json", stand_in.id), stand_in.id)) == []
    put(stand_in.id)
    before = content(stand_in)
    with pytest.raises(
        RunFailed, match=r"may hold what storagelab did not make.*\n.*begins with .*\n.*--yes-wipe S1\n"
    ):
        preparing.put_back(left)
    assert content(stand_in) == before
    preparing.put_back(left, ["S1"])
    assert (drives.look(stand_in.id, "key").holds, left.left()) == ((), [])


@as_root
@pytest.mark.parametrize("pages", [1, 256, 511])
@pytest.mark.parametrize("holds", ["a file system of ours", "nothing", "the mark"])
def test_a_drive_is_given_back_unasked_if_a_kill_cut_its_mark_short(tmp_path, stand_in, monkeypatch, holds, pages):
    left, uuid = Journal(tmp_path / "results"), uuid4()
    claim = left.claimed(stand_in, None, {str(uuid)})
    if holds == "a file system of ours":
        file_systems.make(stand_in.id, "ext4", "-F", uuid)
    elif holds == "the mark":
        drives.mark(stand_in.name, claim.token)
    write, written = os.pwrite, []

    def killed(number, content, at):
        if len(written) == pages:
            raise KeyboardInterrupt
        written.append(at)
        return write(number, content, at)

    with monkeypatch.context() as kills:
        kills.setattr(os, "pwrite", killed)
        with pytest.raises(KeyboardInterrupt):
            drives.mark(stand_in.name, claim.token)
    preparing.put_back(left)
    assert (drives.look(stand_in.id, "key").holds, left.left()) == ((), [])


@as_root
@pytest.mark.parametrize("known", ["nowhere", "with another token", "with another folder"])
def test_a_claim_that_only_a_file_of_the_results_knows_destroys_nothing(tmp_path, stand_in, registry, known):
    forged = Journal(tmp_path / "results")
    claim = forged.claimed(stand_in, None)
    file = registry / f"{stand_in.key}.json"
    other = {"with another token": {"token": "x"}, "with another folder": {"results": "/elsewhere"}}.get(known)
    file.unlink()
    if other:
        file.write_text(claim.model_copy(update=other).model_dump_json())
    ext4(stand_in.id)
    before = content(stand_in)
    with pytest.raises(RunFailed, match=r"nothing is done|not given back by the runs"):
        preparing.put_back(forged)
    assert content(stand_in) == before


@as_root
def test_a_drive_is_given_back_unasked_if_it_holds_what_storagelab_made_or_nothing(tmp_path, stand_in):
    left = Journal(tmp_path / "results")
    left.claimed(stand_in, None)
    assert preparing.put_back(left) == [f"{stand_in.id} is given back as it is: nothing of storagelab's is on it"]
    left.claimed(stand_in, None)
    ext4(stand_in.id)
    left.made(stand_in, drives.uuids_on(stand_in.name))
    with preparing.held(stand_in), pytest.raises(RunFailed, match="in use by a campaign that runs"):
        preparing.put_back(left)
    with (
        file_systems.mounted(stand_in.id, tmp_path / "photos", "ext4", None),
        pytest.raises(RunFailed, match=r"something else.*mounted at .*photos; storagelab does.*\n.*should keep it"),
    ):
        preparing.put_back(left)
    assert preparing.put_back(left) == [f"{stand_in.id} is blank again: its last run had not given it back"]
    assert (drives.uuids_on(stand_in.name), left.left()) == (frozenset(), [])


# --- the user's word -------------------------------------------------------------------------------------------------


def test_without_a_terminal_each_serial_number_is_asked_for_on_the_command_line():
    asked = [ClaimedDrive(serial="S1", text=BLANK.text), ClaimedDrive(serial="S2", text="another")]
    with pytest.raises(PreflightError, match=r"would be destroyed:\n.*another\n  confirm it: --yes-wipe S2$"):
        refuse_unconfirmed(asked, ["S1"])
    refuse_unconfirmed(asked, ["S1", "S2"])


@pytest.mark.parametrize(("typed", "goes_on"), [("S1\n", True), ("s1\n", False), ("yes\n", False), ("", False)])
def test_on_a_terminal_each_serial_number_is_typed(typed, goes_on, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", Terminal())
    with (
        contextlib.nullcontext() if goes_on else pytest.raises(PreflightError, match="S1 was not confirmed, so nothing")
    ):
        refuse_unconfirmed([ClaimedDrive(serial="S1", text=BLANK.text)], [])


def test_a_drive_that_is_not_there_is_refused_by_name():
    with pytest.raises(PreflightError, match=r"volumes\.a\.devices: .*nvme-Maker_9000_S1 is not there"):
        drives.look(ID, "volumes.a.devices")

"""Output of any size and any bytes, and the answers in $WEFT_OUTPUT and $WEFT_CONTEXT."""

import asyncio
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.executors.attempts import is_alive
from tests.executors.shells import Shell
from weft.executors.output import (
    ANSWER_BYTES_MAX,
    TAIL_BYTES,
    BadAnswer,
    as_text,
    output_path,
    parse_answer,
    read_tail,
)
from weft.executors.protocol import Outcome

MIB = 1 << 20


def run(tmp_path: Path, what: str | dict[str, Any], **changes: Any) -> Outcome:
    async def main() -> Outcome:
        async with Shell(tmp_path) as shell:
            return await shell.run(what, **changes)

    return asyncio.run(main())


def result(tmp_path: Path, what: str | dict[str, Any], **changes: Any) -> dict[str, Any]:
    outcome = run(tmp_path, what, **changes)
    assert outcome.ok, outcome.error
    assert outcome.result is not None
    return outcome.result


# Text


@given(st.binary(max_size=300))
def test_text_is_lossless(data: bytes) -> None:
    text, escaped = as_text(data)
    if not escaped:
        assert text.encode() == data
        return
    assert unescape(text) == data


def unescape(text: str) -> bytes:
    """The dumb way back: what a reader of the docs would write."""
    raw, out, at = text.encode(), bytearray(), 0
    while at < len(raw):
        if raw[at : at + 2] == b"\\\\":
            out += b"\\"
            at += 2
        elif raw[at : at + 2] == b"\\x":
            out.append(int(raw[at + 2 : at + 4], 16))
            at += 4
        else:
            out.append(raw[at])
            at += 1
    return bytes(out)


@given(st.text(alphabet="aé漢🧶", max_size=40), st.integers(1, 40))
def test_a_cut_moves_to_a_character_boundary(tmp_path_factory: pytest.TempPathFactory, text: str, keep: int) -> None:
    path = tmp_path_factory.mktemp("tail") / "file"
    path.write_text(text)
    tail, truncated, escaped = read_tail(str(path), keep, True)
    assert not escaped
    assert text.endswith(tail)
    assert truncated == (len(text.encode()) > keep)
    assert len(tail.encode()) > min(keep, len(text.encode())) - 4


def test_valid_text_has_no_flags(tmp_path: Path) -> None:
    shown = result(tmp_path, r"printf 'ünï \\ \0 end'")
    assert shown == {"exitCode": 0, "stdout": "ünï \\ \0 end", "stderr": ""}


def test_binary_output_is_escaped(tmp_path: Path) -> None:
    shown = result(tmp_path, r"printf '\377\\ok\001'; printf '\200' >&2")
    assert shown["stdout"] == "\\xff\\\\ok\x01"
    assert shown["stderr"] == "\\x80"
    assert shown["stdoutEscaped"] is True
    assert shown["stderrEscaped"] is True
    assert "stdoutTruncated" not in shown


def test_the_last_64_kib_are_in_the_result_and_all_in_the_file(tmp_path: Path) -> None:
    shown = result(tmp_path, "seq 100000")
    whole = "".join(f"{n}\n" for n in range(1, 100001))
    assert shown["stdout"] == whole[-TAIL_BYTES:]
    assert shown["stdoutTruncated"] is True
    assert "stdoutBytes" not in shown
    assert Path(output_path(str(tmp_path / "output"), "t1", 1, "stdout")).read_text() == whole


# Size


def peak_rss_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_gigabyte_keeps_head_and_tail_within_bounded_disk_and_memory(tmp_path: Path) -> None:
    cap = 8 * MIB
    before = peak_rss_kib()
    text = "echo first; head -c 1G /dev/zero; echo last"

    async def main() -> tuple[Outcome, int]:
        async with Shell(tmp_path) as shell:
            _, future = shell.start(text, output_max=cap)
            path = Path(output_path(shell.output_dir, "t1", 1, "stdout"))
            most = 0
            while not future.done():
                await asyncio.sleep(0.01)
                if path.exists():
                    most = max(most, path.stat().st_blocks * 512)
            return future.result(), most

    outcome, most_on_disk = asyncio.run(main())
    assert outcome.ok
    assert outcome.result is not None
    size = len("first\n") + (1 << 30) + len("last\n")
    assert outcome.result["stdoutBytes"] == size
    assert outcome.result["stdoutKept"] == [cap // 2, cap // 2]
    assert outcome.result["stdout"].endswith("\0last\n")
    assert outcome.result["stdoutTruncated"] is True
    path = Path(output_path(str(tmp_path / "output"), "t1", 1, "stdout"))
    with path.open("rb") as file:
        assert file.read(8) == b"first\n\0\0"
    assert path.stat().st_size == size
    assert path.stat().st_blocks * 512 <= cap + 8192
    assert most_on_disk < (1 << 30) * 0.9, "the middle is dropped while the command runs"
    assert peak_rss_kib() - before < 64 * 1024


def test_exactly_head_and_tail_are_kept(tmp_path: Path) -> None:
    shown = result(tmp_path, "seq -f %09g 100000", output_max=100_001)
    whole = "".join(f"{n:09}\n" for n in range(1, 100001)).encode()
    kept = Path(output_path(str(tmp_path / "output"), "t1", 1, "stdout")).read_bytes()
    assert shown["stdoutBytes"] == len(whole)
    head, tail = shown["stdoutKept"]
    assert head + tail == 100_001
    assert kept[:head] == whole[:head]
    assert kept[-tail:] == whole[-tail:]
    assert not kept[head:-tail].strip(b"\0")
    assert shown["stdout"].encode() == whole[-min(tail, TAIL_BYTES) :]


def test_a_line_of_200_megabytes(tmp_path: Path) -> None:
    before = peak_rss_kib()
    shown = result(tmp_path, "head -c 200M /dev/zero | tr '\\0' x")
    assert shown["stdout"] == "x" * TAIL_BYTES
    assert shown["stdoutBytes"] == 200 * MIB
    assert peak_rss_kib() - before < 64 * 1024


def test_output_that_never_ends_can_be_stopped(tmp_path: Path) -> None:
    async def main() -> Outcome:
        async with Shell(tmp_path) as shell:
            launch, future = shell.start("yes", output_max=MIB)
            path = Path(output_path(shell.output_dir, "t1", 1, "stdout"))
            while not path.exists() or path.stat().st_size < 20 * MIB:
                await asyncio.sleep(0.01)
            shell.stop(launch, "timeout")
            return await asyncio.wait_for(future, 10)

    outcome = asyncio.run(main())
    assert outcome.stopped == "timeout"
    assert outcome.result is not None
    assert outcome.result["stdoutKept"] == [MIB // 2, MIB // 2]


def test_output_can_be_followed_while_it_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with Shell(tmp_path) as shell:
            launch, future = shell.start("echo early; exec sleep 60")
            assert await shell.until_file("output/t1.1.out") == "early\n"
            assert not future.done()
            shell.stop(launch)
            await future

    asyncio.run(main())


def test_a_filesystem_that_cannot_drop_the_middle(tmp_path: Path) -> None:
    mount = tmp_path / "ramfs"
    mount.mkdir()
    if os.geteuid() != 0 or os.system(f"mount -t ramfs none {mount} 2>/dev/null") != 0:
        pytest.skip("needs the right to mount a ramfs, which has no hole punching")
    try:
        outcome = run(tmp_path, "trap '' TERM; yes", output_max=MIB, output_dir=str(mount / "output"))
        assert not outcome.ok
        assert outcome.error == f"output over {MIB} bytes and this filesystem cannot drop the middle"
        assert outcome.stopped is None
    finally:
        os.system(f"umount {mount}")


def test_a_full_disk_fails_the_attempt_and_says_so(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=256k,nr_inodes=3 none {mount} 2>/dev/null") != 0:
        pytest.skip("needs the right to mount a small tmpfs")
    try:

        async def main() -> None:
            async with Shell(tmp_path) as shell:
                full = await shell.run("head -c 1M /dev/zero", output_dir=str(mount))
                assert not full.ok
                assert full.result is not None
                assert "No space left" in full.result["stderr"] or full.result["stdout"]
                refused = await shell.run("true", output_dir=str(mount))
                assert not refused.ok
                assert not refused.startable
                assert refused.error == "cannot create the output files: no space left on device"
                assert (await shell.run("true")).ok

        asyncio.run(main())
    finally:
        os.system(f"umount {mount}")


def test_a_silent_attempts_files_serve_the_next_one_only_when_nobody_holds_them(tmp_path: Path) -> None:
    """A process outside (here: this one) that was given the descriptor must not write into another's output."""

    async def main() -> None:
        async with Shell(tmp_path, spawners=1) as shell:
            _, future = shell.start("echo $$ > pid; read x < go || :", env={"GO": "1"})
            os.mkfifo(tmp_path / "go")
            pid = int(await shell.until_file("pid"))
            held = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
            fd = os.open(tmp_path / "go", os.O_WRONLY)
            os.close(fd)
            assert (await asyncio.wait_for(future, 10)).ok
            assert not is_alive(pid)
            os.write(held, b"not yours")
            for _ in range(5):
                outcome = await shell.run("true")
                assert outcome.result == {"exitCode": 0, "stdout": "", "stderr": ""}
            os.close(held)

    asyncio.run(main())


# Answers


def test_output_and_context(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, """echo '{"a": [1, "ü", null]}' > $WEFT_OUTPUT; printf 'k=v\\nx=1=2\\n' > $WEFT_CONTEXT"""
    )
    assert outcome.output == {"a": [1, "ü", None]}
    assert outcome.context == {"k": "v", "x": "1=2"}
    assert os.listdir(tmp_path / "output") == []


def test_answers_of_a_failure_are_dropped_unread(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo 1 > $WEFT_OUTPUT; echo k=v > $WEFT_CONTEXT; exit 1")
    assert outcome.output is msgspec.UNSET
    assert outcome.context is None
    assert os.listdir(tmp_path / "output") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("echo 'k=v\nnonsense' > $WEFT_OUTPUT", "line 2 is 'nonsense'"),
        ("echo '{\"a\": 1,}' > $WEFT_OUTPUT", "$WEFT_OUTPUT is neither JSON ("),
        ("echo '[1]' > $WEFT_CONTEXT", "$WEFT_CONTEXT must be a JSON object"),
        ("echo null > $WEFT_CONTEXT", "not a JSON null"),
        ("printf '\\377' > $WEFT_OUTPUT", "not UTF-8"),
        ("mkfifo $WEFT_OUTPUT", "not a regular file"),
        ("mkdir $WEFT_OUTPUT", "not a regular file"),
        (f"head -c {ANSWER_BYTES_MAX + 1} /dev/zero > $WEFT_OUTPUT", f"the {ANSWER_BYTES_MAX:,} that artifact_max"),
    ],
)
def test_bad_answers_fail_the_attempt(tmp_path: Path, text: str, error: str) -> None:
    outcome = run(tmp_path, text)
    assert not outcome.ok
    assert outcome.exit_code == 0
    assert error in str(outcome.error)
    assert "\n" not in str(outcome.error)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"3", 3),
        (b' "text" ', "text"),
        (b"null", None),
        (b"a=1\n\nb=two words \n", {"a": "1", "b": "two words "}),
        (b"a=", {"a": ""}),
        (b"  \n", msgspec.UNSET),
        (b"", msgspec.UNSET),
    ],
)
def test_parse_answer(data: bytes, value: object) -> None:
    assert parse_answer(data, "x") == value


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    with suppress(BadAnswer):
        msgspec.json.encode(parse_answer(data, "x") or None)


def test_a_deep_answer_is_refused_not_fatal() -> None:
    with pytest.raises(BadAnswer):
        parse_answer(b"[" * 1_000_000, "x")

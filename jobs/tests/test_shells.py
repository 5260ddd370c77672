"""Files of a target, and which paths it may touch."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.executors.local import _exit_file
from jobs.models import Target
from jobs.printed import LATEST
from jobs.shells import LocalShell, explain, shell_for, within_roots, write_whole
from record.errors import AdapterError, BadInput


def test_paths_within_the_roots(target: Target, tmp_path: Path) -> None:
    assert within_roots(target, str(tmp_path)) == os.path.realpath(tmp_path)
    assert within_roots(target, f"{tmp_path}//a/./new/") == f"{os.path.realpath(tmp_path)}/a/new"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("relative/path", "not an absolute path"),
        ("/etc", "lies outside the folders that target here may touch"),
        ("{root}-evil", "lies outside"),
        ("{root}/../x", "holds `..`"),
        ("{root}/a b", "holds ' '"),
        ("{root}/a\nb", "no white space"),
        ("{root}/a;rm", "holds ';'"),
        ("{root}/it's", "no white space, quotes"),
        ("{root}/$HOME", r"holds '\$'"),
        ("{root}/a\0b", "no white space"),
        ("{root}/" + "x" * 600, "characters long"),
        ("{root}/" + "x" * 300, "longer than 255 bytes"),
        ("", "not an absolute path"),
    ],
)
def test_refused_paths(target: Target, tmp_path: Path, path: str, words: str) -> None:
    with pytest.raises((BadInput, AdapterError), match=words):
        within_roots(target, path.format(root=tmp_path))


def test_unicode_names_are_fine(target: Target, tmp_path: Path) -> None:
    assert within_roots(target, f"{tmp_path}/断層撮影_µ").endswith("断層撮影_µ")


def test_a_link_that_leads_out_is_refused(target: Target, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(BadInput, match="lies outside"):
        within_roots(target, f"{tmp_path}/out/passwd")


def test_no_roots_no_path(target: Target, tmp_path: Path) -> None:
    target.roots = []
    with pytest.raises(BadInput, match=r"may touch \(none\)"):
        within_roots(target, str(tmp_path))


def test_glob_finds_files_by_pattern(target: Target, tmp_path: Path) -> None:
    shell = shell_for(target)
    for name in ("recon/TS_2.mrc", "recon/TS_1.mrc", "recon/deep/x.mrc", "log.txt"):
        shell.write(str(tmp_path / name), b"data")
    (tmp_path / "folder.mrc").mkdir()

    found = shell.glob(str(tmp_path), ["recon/*.mrc", "**/*.mrc", "log.txt", "none*"])

    names = {pattern: [os.path.relpath(fact.path, tmp_path) for fact in facts] for pattern, facts in found.items()}
    assert names == {
        "recon/*.mrc": ["recon/TS_1.mrc", "recon/TS_2.mrc"],
        "**/*.mrc": ["recon/TS_1.mrc", "recon/TS_2.mrc", "recon/deep/x.mrc"],
        "log.txt": ["log.txt"],
        "none*": [],
    }
    assert found["log.txt"][0].size_bytes == 4
    with pytest.raises(BadInput, match="leaves the folder"):
        shell.glob(str(tmp_path), ["../*"])


def test_glob_passes_over_what_is_no_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.mrc")
    (tmp_path / "b.mrc").symlink_to("/dev/zero")
    (tmp_path / "c.mrc").mkdir()
    (tmp_path / "d.mrc").symlink_to("/nowhere")
    assert LocalShell().glob(str(tmp_path), ["*.mrc", "a.mrc"]) == {"*.mrc": [], "a.mrc": []}


def test_glob_through_all_folders_follows_no_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    for path in ("a/x.mrc", "a/b/x.mrc", "x.mrc", ".hidden/x.mrc"):
        (tmp_path / path).write_text("x")
    for name in ("again", "once_more", "a/up"):
        (tmp_path / name).symlink_to(tmp_path)
    (tmp_path / "everything").symlink_to("/")
    found = LocalShell().glob(str(tmp_path), ["**/x.mrc", "a/**/x.mrc", "**/b/**", "**"])
    names = {pattern: [os.path.relpath(f.path, tmp_path) for f in facts] for pattern, facts in found.items()}
    assert names == {
        "**/x.mrc": ["a/b/x.mrc", "a/x.mrc", "x.mrc"],
        "a/**/x.mrc": ["a/b/x.mrc", "a/x.mrc"],
        "**/b/**": ["a/b/x.mrc"],
        "**": ["a/b/x.mrc", "a/x.mrc", "x.mrc"],
    }


def test_write_replaces_whole_and_leaves_no_scratch(tmp_path: Path) -> None:
    shell = LocalShell()
    path = tmp_path / "a" / "b.txt"
    shell.write(str(path), b"one")
    shell.write(str(path), b"two")
    assert shell.read(str(path)) == b"two"
    assert shell.read(str(path), offset=1, limit=1) == b"w"
    assert shell.size(str(path)) == 3
    assert [entry.name for entry in path.parent.iterdir()] == ["b.txt"]


def test_failures_are_in_words(tmp_path: Path) -> None:
    shell = LocalShell()
    (tmp_path / "file").write_text("")
    for act in (
        lambda: shell.read(str(tmp_path / "none")),
        lambda: shell.size(str(tmp_path / "none")),
        lambda: shell.write(str(tmp_path / "file" / "below"), b""),
        lambda: shell.make_folder(str(tmp_path / "file")),
        lambda: shell.copy_tree(str(tmp_path / "none"), str(tmp_path / "copy")),
        lambda: shell.run(["/no/program"], env={}, cwd=str(tmp_path), timeout_s=5),
        lambda: shell.run(["/bin/true"], env={}, cwd=str(tmp_path / "none"), timeout_s=5),
        lambda: shell.run(["/bin/sleep", "5"], env={}, cwd=str(tmp_path), timeout_s=0.1),
    ):
        with pytest.raises(AdapterError):
            act()


def test_a_full_disk_is_transient_and_a_missing_folder_is_not() -> None:
    assert explain(OSError(28, "No space left on device"), "/x").transient
    assert "the disk is full" in explain(OSError(28, ""), "/x").message
    assert not explain(OSError(2, ""), "/x").transient


def test_commands_get_their_own_environment_only(tmp_path: Path) -> None:
    done = LocalShell().run(["/usr/bin/env"], env={"ONLY": "this"}, cwd=str(tmp_path), timeout_s=5)
    assert done.stdout == "ONLY=this\n"


def test_threads_that_write_one_file_never_mix_their_texts(tmp_path: Path) -> None:
    path, texts = str(tmp_path / "conf"), [bytes([65 + number]) * 200_000 for number in range(8)]
    write = lambda text: [write_whole(path, text, sync=False) for _ in range(20)]  # noqa: E731
    with ThreadPoolExecutor(len(texts)) as threads:
        list(threads.map(write, texts))
    assert Path(path).read_bytes() in texts
    assert os.listdir(tmp_path) == ["conf"]


def test_a_file_from_beyond_all_calendars(tmp_path: Path) -> None:
    path = Path("/dev/shm") / f"{tmp_path.name}-far.star"  # noqa: S108 - a file system that keeps such times
    path.write_text("data_\n")
    try:
        os.utime(path, (1e15, 1e15))
        facts = LocalShell().glob("/dev/shm", [path.name])[path.name]  # noqa: S108
    finally:
        path.unlink()
    assert [fact.modified_at for fact in facts] == [LATEST]


@pytest.mark.parametrize("text", ["0 up x\n", "99999999999999999999 up 1\n", "-1 up 1\n", "\x00\n"])
def test_an_exit_file_that_no_guard_has_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "exit.me").write_text(text)
    assert _exit_file(str(tmp_path), "me") is None


def test_a_pipe_in_the_place_of_an_exit_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "exit.me")
    with pytest.raises(AdapterError, match="no ordinary file"):
        _exit_file(str(tmp_path), "me")

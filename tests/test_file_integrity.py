"""A file is written whole or not at all, and readable by those that the umask and the caller allow."""

import os

import pytest

from tapgnn.file_integrity import atomic_write, bytes_sha256, file_sha256, write_atomically
from tests.full_disk import small_disk


def test_the_file_has_the_new_content_only_when_the_block_ends(tmp_path):
    path = tmp_path / "new" / "file"
    write_atomically(path, "old")
    with atomic_write(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [found.name for found in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def break_off():
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        break_off()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file_and_leaves_the_old_content(tmp_path):
    with small_disk(tmp_path / "disk", 65_536) as disk:
        write_atomically(disk / "file", b"old")
        with pytest.raises(OSError, match="No space left") as caught:
            write_atomically(disk / "file", bytes(100_000))
        assert caught.value.filename == str(disk / "file")
        assert (disk / "file").read_bytes() == b"old"
        assert [found.name for found in disk.iterdir()] == ["file"]


def test_a_place_that_is_a_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_atomically(tmp_path / "file", "text")
    assert caught.value.filename == str(tmp_path / "file")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_text_is_utf_8_with_its_line_ends_as_they_are(tmp_path):
    write_atomically(tmp_path / "file", "zwölf\r\n13\n")
    assert (tmp_path / "file").read_bytes() == "zwölf\r\n13\n".encode()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_the_umask_and_the_mode_decide_who_may_read(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "shared", "")
        write_atomically(tmp_path / "private", "", mode=0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_sha256(tmp_path / "file") == bytes_sha256(b"abc") == known

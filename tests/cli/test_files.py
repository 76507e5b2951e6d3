"""Files appear whole or not at all."""

from __future__ import annotations

import os
import threading

import pytest

from knoll.cli._files import CannotWrite, folder, whole_file


def test_the_name_is_free_until_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as file:
        file.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail():
        with whole_file(path, "wb") as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_an_error_of_the_disk_is_reported_as_such(tmp_path):
    def fail():
        with whole_file(tmp_path / "a.txt"):
            raise OSError(28, "No space left on device")

    with pytest.raises(CannotWrite, match=r"cannot write .*a\.txt: No space left on device"):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with whole_file(tmp_path / "link.txt") as file:
        file.write("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with whole_file(pipe) as file:
        file.write("through")
    reader.join(10)
    assert read == ["through"]
    assert pipe.is_fifo()


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with whole_file(tmp_path / "whole"):
        pass
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_folder_makes_what_is_missing_and_refuses_what_it_cannot(tmp_path):
    assert folder(tmp_path / "a" / "b").is_dir()
    assert folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match=r"cannot write .*file: File exists\. Choose another path with --out\."):
        folder(tmp_path / "file")

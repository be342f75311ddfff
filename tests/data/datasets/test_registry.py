"""The registry: names, where a data set is found, and that a damaged copy never passes for it."""

import functools
import os
import re
import sys

import numpy as np
import pytest

from tapgnn import Events
from tapgnn.data import (
    DATASETS,
    ReadReport,
    cache_folder,
    dataset_path,
    find_dataset,
    get_dataset,
    is_bipartite,
    load_dataset,
    missing_folder,
    read_tgb,
    stream_dataset,
    write_events,
)
from tapgnn.errors import DataError, DatasetError
from tapgnn.file_integrity import file_sha256

LOCAL = [name for name in DATASETS if name != "reddit"]


@pytest.fixture(autouse=True)
def empty_machine(tmp_path, monkeypatch):
    """No data set is on this machine unless a test puts it there."""
    monkeypatch.delenv("TAPGNN_DATA", raising=False)
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path / "cache"))


def test_the_eight_data_sets_of_the_paper_are_there():
    assert len(DATASETS) == 8
    for entry in DATASETS.values():
        assert entry.url.startswith("https://")
        assert entry.files
        for known in (entry.sha256, *entry.checksums.values()):
            assert known is None or re.fullmatch("[0-9a-f]{64}", known)


def test_an_unknown_name_suggests_the_nearest_and_lists_all():
    with pytest.raises(DatasetError, match=r"'fb-form' \(did you mean fb-forum\?\); the data sets are fb-forum, soc-"):
        get_dataset("fb-form")
    with pytest.raises(DatasetError, match="there is no data set 'fb-form'"):
        load_dataset("fb-form")


def test_a_data_set_that_is_not_here_says_how_to_get_it():
    assert find_dataset("fb-forum") is None
    with pytest.raises(DatasetError, match="run 'tapgnn datasets download fb-forum', or set TAPGNN_DATA to a folder"):
        load_dataset("fb-forum")


def test_the_folder_of_the_user_wins_over_the_cache(tmp_path, monkeypatch):
    for folder in ("cache", "mine"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "reddit.csv").write_text("")
    assert find_dataset("reddit") == tmp_path / "cache" / "reddit.csv"
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path / "mine"))
    assert find_dataset("reddit") == tmp_path / "mine" / "reddit.csv"
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path / "elsewhere"))
    assert find_dataset("reddit") == tmp_path / "cache" / "reddit.csv"


def test_wikipedia_with_features_is_preferred(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    (tmp_path / "wikipedia-nofeatures.csv").write_text("")
    assert find_dataset("wikipedia").name == "wikipedia-nofeatures.csv"
    (tmp_path / "wikipedia.csv").write_text("")
    assert find_dataset("wikipedia").name == "wikipedia.csv"


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named as on Linux")
def test_the_cache_lies_where_the_platform_keeps_such_files(tmp_path, monkeypatch):
    monkeypatch.delenv("TAPGNN_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "tapgnn"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "tapgnn"


def test_a_shortened_copy_is_refused_under_the_name_and_read_by_its_path(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    path = tmp_path / "fb-forum.edges"
    path.write_text("1,2,3\n2,3,4\n")
    with pytest.raises(DatasetError, match=r"fb-forum\.edges is damaged, or not a known copy of fb-forum"):
        load_dataset("fb-forum")
    (tmp_path / "fb-forum.edges.sha256").write_text(file_sha256(path))
    with pytest.raises(DatasetError, match="contains 2 events, but fb-forum has 33,720"):
        load_dataset("fb-forum")
    with pytest.raises(DatasetError, match="contains 2 events, but fb-forum has 33,720"):
        list(stream_dataset("fb-forum", 10))
    assert len(load_dataset(path)) == 2


def test_a_copy_with_one_other_byte_is_refused_under_the_name_although_its_rows_are_as_many(
    data_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path))
    good = (data_folder / "fb-forum.edges").read_bytes()
    path = tmp_path / "fb-forum.edges"
    path.write_bytes(good)
    whole = load_dataset("fb-forum")
    row = good.split(b"\n")[100]
    path.write_bytes(good.replace(row, row[:-1] + (b"1" if row[-1:] == b"0" else b"0"), 1))
    assert len(load_dataset(path)) == len(whole)
    for read in (load_dataset, lambda name: list(stream_dataset(name, 10_000))):
        with pytest.raises(DatasetError, match=r"is damaged, .* download the file again, pass its path"):
            read("fb-forum")
    path.write_bytes((data_folder / "fb-forum.networkrepository.edges").read_bytes())
    assert len(load_dataset("fb-forum")) == len(whole)


def test_a_folder_that_is_not_there_is_mentioned(tmp_path, monkeypatch):
    assert missing_folder() == ""
    monkeypatch.setenv("TAPGNN_DATA", str(tmp_path / "nowhere"))
    assert "nowhere, which is not a folder" in missing_folder()
    with pytest.raises(DatasetError, match=r"TAPGNN_DATA is .*nowhere, which is not a folder"):
        load_dataset("fb-forum")


def test_the_command_that_is_named_is_one_that_works(tmp_path):
    with pytest.raises(DatasetError, match=r"run 'tapgnn datasets download fb-forum', or"):
        load_dataset("fb-forum")
    with pytest.raises(DatasetError, match=r"run 'tapgnn datasets download reddit --unverified', or"):
        load_dataset("reddit")
    assert all(("--unverified" in entry.command) == (entry.sha256 is None) for entry in DATASETS.values())


def test_a_log_in_chunks_is_the_log(data_folder, monkeypatch):
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    whole = load_dataset("fb-forum")
    chunks = list(stream_dataset("fb-forum", 10_000))
    assert [len(chunk) for chunk in chunks] == [len(chunk) for chunk in whole.chunks(10_000)]
    assert chunks[-1].vocabulary == whole.vocabulary


def test_a_path_is_read_with_the_options_of_the_reader(tmp_path):
    write_events(Events.from_arrays(["a", "b"], ["b", "c"], [2.0, 1.0]), tmp_path / "log.csv")
    report = ReadReport()
    events = load_dataset(str(tmp_path / "log.csv"), src="dst", dst="src", report=report)
    assert [events.vocabulary.ids[row] for row in events.src] == ["c", "b"]
    assert report.rows == 2
    assert dataset_path(tmp_path / "log.csv") == tmp_path / "log.csv"
    with pytest.raises(DataError, match="does not exist"):
        load_dataset("nowhere.csv")


@pytest.mark.parametrize("name", LOCAL)
def test_the_real_files_hold_what_is_registered(data_folder, monkeypatch, name):
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    entry, path = get_dataset(name), find_dataset(name)
    events = load_dataset(name)
    assert len(events.vocabulary) == entry.nodes
    assert is_bipartite(events) is entry.bipartite
    assert file_sha256(path) in (entry.sha256, entry.checksums.get(path.name))


@pytest.mark.parametrize("name", [name for name in LOCAL if name != "wikipedia"])
def test_two_roles_of_nodes_are_what_makes_a_data_set_bipartite(data_folder, name):
    rows = (data_folder / f"{name}.nodes").read_text().splitlines()
    role = rows[0].split(",").index("role")
    assert (len({row.split(",")[role] for row in rows[1:]}) == 2) is DATASETS[name].bipartite
    assert len(rows) - 1 == DATASETS[name].nodes


def test_the_checksum_of_a_download_is_that_of_the_file_as_it_is_served(data_folder):
    assert file_sha256(data_folder / "fb-forum.networkrepository.edges") == DATASETS["fb-forum"].sha256


def test_tgb_without_its_package_or_files_is_one_line(monkeypatch, tmp_path):
    monkeypatch.delenv("TAPGNN_DATA", raising=False)
    monkeypatch.setenv("TAPGNN_CACHE", str(tmp_path))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "tgb.linkproppred.dataset", None)
        with pytest.raises(DatasetError, match="needs the package py-tgb"):
            read_tgb("tgbl-wiki")
    pytest.importorskip("tgb", reason="py-tgb is not installed")
    for name in ("tgbl-wiki", "tgbn-trade"):
        with pytest.raises(DatasetError, match="does not exist; download it with py-tgb"):
            read_tgb(name, root="no-such-folder")
        with pytest.raises(DatasetError, match=rf"{name}.* does not exist; download it with py-tgb"):
            load_dataset(name)


def test_tgb_data_is_the_registered_data_set_with_its_events_where_its_files_are_missing(monkeypatch, data_folder):
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    monkeypatch.setattr("tapgnn.data.datasets.registry.has_tgb", lambda name: False)
    plain, found = load_dataset("wikipedia"), load_dataset("tgbl-wiki")
    assert dataset_path("tgbl-wiki") == dataset_path("wikipedia")
    for column in ("src", "dst", "time"):
        np.testing.assert_array_equal(getattr(found, column), getattr(plain, column))
    assert sum(len(chunk) for chunk in stream_dataset("tgbl-wiki", 50_000)) == len(plain)
    with pytest.raises(DatasetError, match="tgbl-coin"):
        load_dataset("tgbl-coin")


def test_tgb_files_are_read_through_its_package(tmp_path, monkeypatch):
    info = pytest.importorskip("tgb.utils.info", reason="py-tgb is not installed")
    root = os.path.relpath(tmp_path, info.PROJ_DIR)
    version = int(info.DATA_VERSION_DICT["tgbl-wiki"])
    (tmp_path / "tgbl_wiki").mkdir()
    file = tmp_path / "tgbl_wiki" / f"tgbl-wiki_edgelist{f'_v{version}' if version > 1 else ''}.csv"
    file.write_text("user,item,time,label,features\n0,0,5,0,0.5,1.5\n1,0,3,0,2.5,3.5\n0,1,9,0,4.5,5.5\n")
    events = read_tgb("tgbl-wiki", root=root)
    assert events.time.tolist() == [3.0, 5.0, 9.0]
    assert list(events.vocabulary.ids) == [1, 2, 0, 3]
    assert {name: column.tolist() for name, column in events.columns.items()} == {
        "f0": [2.5, 0.5, 4.5],
        "f1": [3.5, 1.5, 5.5],
    }
    monkeypatch.setattr("tapgnn.data.datasets.registry.read_tgb", functools.partial(read_tgb, root=root))
    monkeypatch.setattr("tapgnn.data.datasets.registry.tgb_file", lambda name: file)
    monkeypatch.setattr("tapgnn.data.datasets.registry.has_tgb", lambda name: True)
    assert load_dataset("tgbl-wiki").time.tolist() == [3.0, 5.0, 9.0]
    assert [len(chunk) for chunk in stream_dataset("tgbl-wiki", 2)] == [2, 1]
    monkeypatch.undo()
    file.write_text("broken")
    for old in (tmp_path / "tgbl_wiki").glob("*.pkl"):
        old.unlink()
    with pytest.raises(DatasetError, match="py-tgb cannot read"):
        read_tgb("tgbl-wiki", root=root)

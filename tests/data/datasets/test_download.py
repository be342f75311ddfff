"""Download against a real local server: it resumes, verifies, retries, and never leaves a part under the final name."""

import io
import random
import zipfile
from dataclasses import replace

import pytest

from tapgnn.data import Dataset, download
from tapgnn.errors import DatasetError
from tapgnn.file_integrity import file_sha256
from tests.data.datasets.site import BODY, digest, served_site

OTHER = BODY[::-1]
ENTRY = Dataset("tiny", "http://unused.invalid/tiny.edges", "edges", 97, 40_000, False, ("tiny.edges",))


def zipped(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), body)
    return stream.getvalue()


@pytest.fixture
def site():
    with served_site() as site:
        yield site


def fetch(site, folder, path="/tiny.edges", **options):
    options.setdefault("sha256", digest(BODY))
    return download(ENTRY, folder, url=site.url(path), wait=0, **options)


def files(folder):
    """All but the notes of checksums."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".sha256")


def test_a_verified_file_arrives_whole_with_progress(site, tmp_path):
    seen = []
    path = fetch(site, tmp_path / "new" / "folder", progress=lambda have, total: seen.append((have, total)))
    assert path.read_bytes() == BODY
    assert files(path.parent) == ["tiny.edges"]
    assert seen[-1] == (len(BODY), len(BODY))
    assert [have for have, _ in seen] == sorted(have for have, _ in seen)


def test_what_is_here_and_right_is_not_fetched_again(site, tmp_path):
    fetch(site, tmp_path)
    fetch(site, tmp_path)
    assert len(site.asked) == 1
    (tmp_path / "tiny.edges").write_bytes(BODY[:-5])
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert len(site.asked) == 2


def test_a_cut_connection_is_continued_where_it_broke(site, tmp_path):
    site.cuts = [100_000, 50_000, None]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert site.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_continues_the_part_of_an_earlier_one(site, tmp_path):
    site.cuts = [100_000]
    with pytest.raises(DatasetError, match="run the command again, it continues where it stopped"):
        fetch(site, tmp_path, retries=0)
    assert files(tmp_path) == ["tiny.edges.part"]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert site.asked == [None, "bytes=100000-"]


def test_a_part_that_is_already_whole_is_not_fetched_again(site, tmp_path):
    (tmp_path / "tiny.edges.part").write_bytes(BODY)
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert site.asked == [f"bytes={len(BODY)}-"]


def test_a_part_longer_than_the_file_is_thrown_away(site, tmp_path):
    (tmp_path / "tiny.edges.part").write_bytes(BODY + b"more")
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert site.asked == [f"bytes={len(BODY) + 4}-", None]


def test_a_server_that_ignores_ranges_starts_over(site, tmp_path):
    site.ranges, site.cuts = False, [100_000, 120_000, None]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert files(tmp_path) == ["tiny.edges"]


def test_a_server_that_answers_with_another_range_starts_over(site, tmp_path):
    site.shift, site.cuts = 7, [100_000, None, None]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert site.asked == [None, "bytes=100000-", None]


def test_a_file_that_changes_between_attempts_is_never_mixed(site, tmp_path):
    site.cuts = [100_000]

    def swap(have, total):
        site.bodies["/tiny.edges"] = OTHER

    path = fetch(site, tmp_path, sha256=digest(OTHER), progress=swap)
    assert path.read_bytes() == OTHER
    assert site.asked == [None, "bytes=100000-"]


def test_a_wrong_checksum_leaves_nothing(site, tmp_path):
    with pytest.raises(DatasetError, match=rf"SHA256 .* expected {'0' * 64} but got {digest(BODY)}; nothing was kept"):
        fetch(site, tmp_path, sha256="0" * 64)
    assert files(tmp_path) == []


def test_a_wrong_file_never_replaces_a_good_one(site, tmp_path):
    fetch(site, tmp_path)
    site.bodies["/tiny.edges"] = OTHER
    with pytest.raises(DatasetError, match="SHA256"):
        fetch(site, tmp_path, sha256="0" * 64)
    assert (tmp_path / "tiny.edges").read_bytes() == BODY


def test_a_missing_page_is_an_error_at_once(site, tmp_path):
    with pytest.raises(DatasetError, match="answered 404"):
        fetch(site, tmp_path, "/none.edges")
    assert len(site.asked) == 1
    assert files(tmp_path) == []


def test_a_busy_server_is_asked_again(site, tmp_path):
    site.codes = [503, 500, 429, None]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert len(site.asked) == 4


def test_a_server_that_stays_down_is_given_up(site, tmp_path):
    site.codes = [503] * 9
    with pytest.raises(DatasetError, match=r"3 attempts \(it answered 503"):
        fetch(site, tmp_path, retries=2)
    assert len(site.asked) == 3


def test_no_server_is_one_line(site, tmp_path):
    with pytest.raises(DatasetError) as caught:
        download(ENTRY, tmp_path, url="http://127.0.0.1:1/tiny.edges", sha256=digest(BODY), retries=1, wait=0)
    assert "\n" not in str(caught.value)
    assert "2 attempts" in str(caught.value)


def test_without_a_length_only_the_checksum_tells_a_cut(site, tmp_path):
    site.length = False
    assert fetch(site, tmp_path).read_bytes() == BODY
    (tmp_path / "tiny.edges").unlink()
    site.cuts = [1000]
    with pytest.raises(DatasetError, match="SHA256"):
        fetch(site, tmp_path)
    assert files(tmp_path) == []


def test_without_a_checksum_nothing_is_fetched_unless_asked_for(site, tmp_path):
    with pytest.raises(
        DatasetError, match=r"no checksum .*'tapgnn datasets download tiny --unverified' to accept .*--sha256"
    ):
        fetch(site, tmp_path, sha256=None)
    assert site.asked == []
    assert fetch(site, tmp_path, sha256=None, unverified=True).read_bytes() == BODY


def test_an_unverified_download_never_continues_an_old_part(site, tmp_path):
    (tmp_path / "tiny.edges.part").write_bytes(b"of another version")
    assert fetch(site, tmp_path, sha256=None, unverified=True).read_bytes() == BODY
    assert site.asked == [None]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "tiny.edges", ""])
def test_only_web_addresses_are_fetched(tmp_path, url):
    with pytest.raises(DatasetError, match="is not an http or https address"):
        download(ENTRY, tmp_path, url=url or "nothing", sha256=digest(BODY))


def test_a_checksum_of_another_kind_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="64 hexadecimal digits"):
        download(ENTRY, tmp_path, sha256="d41d8cd98f00b204e9800998ecf8427e")


def test_a_zip_is_unpacked_and_its_member_verified(site, tmp_path):
    site.bodies["/tiny.zip"] = zipped(readme_html=b"<html>", folder__tiny_edges=BODY)
    site.cuts = [1000, None]
    path = fetch(site, tmp_path, "/tiny.zip")
    assert path.read_bytes() == BODY
    assert files(tmp_path) == ["tiny.edges"]
    assert file_sha256(path) == digest(BODY)


def test_the_one_member_with_the_right_ending_will_do(site, tmp_path):
    site.bodies["/tiny.zip"] = zipped(readme_html=b"<html>", renamed_edges=BODY)
    assert fetch(site, tmp_path, "/tiny.zip").read_bytes() == BODY


@pytest.mark.parametrize("name", ["../tiny.edges", "/etc/tiny.edges", "..\\..\\tiny.edges"])
def test_a_member_cannot_choose_where_it_is_written(site, tmp_path, name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, BODY)
    site.bodies["/tiny.zip"] = stream.getvalue()
    folder = tmp_path / "inner"
    assert fetch(site, folder, "/tiny.zip").read_bytes() == BODY
    assert files(tmp_path) == ["inner"]
    assert files(folder) == ["tiny.edges"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (zipped(readme_html=b"<html>"), "exactly one tiny.edges; it contains 'readme.html'"),
        (zipped(a_edges=BODY, b_edges=BODY), "exactly one tiny.edges"),
        (zipped(), "it contains nothing"),
        (b"<html>please log in</html>", "damaged"),
        (zipped(tiny_edges=BODY)[:-50], "damaged"),
        (zipped(tiny_edges=OTHER), "SHA256"),
    ],
)
def test_a_wrong_archive_leaves_nothing(site, tmp_path, body, says):
    site.bodies["/tiny.zip"] = body
    with pytest.raises(DatasetError, match=says):
        fetch(site, tmp_path, "/tiny.zip")
    assert files(tmp_path) == []


def test_a_damaged_member_leaves_nothing(site, tmp_path):
    body = bytearray(zipped(tiny_edges=random.Random(0).randbytes(5000)))
    body[2000] ^= 0xFF
    site.bodies["/tiny.zip"] = bytes(body)
    with pytest.raises(DatasetError, match="damaged"):
        fetch(site, tmp_path, "/tiny.zip", sha256=None, unverified=True)
    assert files(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_one_line(site, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(DatasetError, match="cannot be written"):
        fetch(site, tmp_path / "taken")


def test_the_checksum_of_a_file_that_the_registry_does_not_know_is_kept_beside_it(site, tmp_path):
    path = fetch(site, tmp_path, sha256=None, unverified=True)
    assert (tmp_path / "tiny.edges.sha256").read_text() == f"{digest(BODY)}  tiny.edges\n"
    assert ENTRY.known_checksums(path) == {digest(BODY)}
    known = replace(ENTRY, sha256=digest(BODY))
    download(known, tmp_path, url=site.url("/tiny.edges"), wait=0)
    assert not (tmp_path / "tiny.edges.sha256").exists()

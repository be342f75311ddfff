"""Columns: each role is found by name, by place, or as the caller asks."""

import gzip

import pytest

from tapgnn.data import read_events
from tests.data.logs import put, table


def test_jodie_has_more_columns_than_names_and_numbers_users_and_items_apart(tmp_path):
    rows = [[0, 0, 0.0, 0, *range(172)], [1, 0, 36.0, 1, *range(172)]]
    text = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    text += "".join(",".join(map(str, row)) + "\n" for row in rows)
    for name, format in (("wikipedia.csv", None), ("other.txt", "jodie")):
        events = read_events(put(tmp_path, name, text), format=format)
        assert list(events.columns) == [f"f{place}" for place in range(172)]
        assert [row[:4] for row in table(events)] == [("u0", "i0", 0.0, 0), ("u1", "i0", 36.0, 1)]
        assert [column[1] for column in events.columns.values()] == list(range(172))


EDGES = {
    "plain.edges": "1,2,10\n2,3,20\n",
    "repository.edges": "% bip weighted\n% 2 3 4\n1 2 1 10\n2 3 -1 20\n",
    "header.edges": "from_node_id,to_node_id,timestamp,state_label\n1,2,10.0,0\n2,3,20.0,0\n",
    "snap.txt": "# Directed graph\n# FromNodeId\tToNodeId\tTime\n1\t2\t10\n# between\n2\t3\t20\n",
    "snap.txt.gz": gzip.compress(b"1 2 10\n2  3\t20 \n"),
    "bitcoin.txt": "1,2,4,10\n2,3,-10,20\n",
    "spaced.edges": "1, 2, 10\n2, 3, 20\n",
}
WEIGHTS = {"repository.edges": {"weight": [1.0, -1.0]}, "bitcoin.txt": {"weight": [4.0, -10.0]}}


@pytest.mark.parametrize("name", EDGES)
def test_edges_and_snap_put_time_last_and_a_weight_before_it(tmp_path, name):
    events = read_events(put(tmp_path, name, EDGES[name]))
    assert [row[:3] for row in table(events)] == [(1, 2, 10.0), (2, 3, 20.0)]
    assert {key: column.tolist() for key, column in events.columns.items()} == WEIGHTS.get(name, {})


def test_columns_can_be_named_or_numbered(tmp_path):
    path = put(tmp_path, "odd.csv", "when,payer,payee,amount,from\n1,ann,shop,9.5,x\n")
    events = read_events(path, src="payer", dst="payee", time="when", features=["amount"])
    assert table(events) == [("ann", "shop", 1.0, None, (9.5,))]
    path = put(tmp_path, "bare.csv", "1,ann,shop,9.5,1\n")
    events = read_events(path, time="1", src="2", dst="3", features=["4"], label="5")
    assert table(events) == [("ann", "shop", 1.0, 1, (9.5,))]
    path = put(tmp_path, "digits.csv", "src,dst,time,0,1\n5,6,7,8,9\n")
    assert table(read_events(path, features=["0", "1"])) == [(5, 6, 7.0, None, (8.0, 9.0))]
    path = put(tmp_path, "year.csv", "when,payer,payee,2024\n1,ann,shop,9.5\n")
    events = read_events(path, src="payer", dst="payee", time="when", features=["2024"])
    assert table(events) == [("ann", "shop", 1.0, None, (9.5,))]
    assert len(read_events(put(tmp_path, "time.csv", "a,b,time\nc,d,4\n"), header=False, skip_bad_rows=True)) == 1

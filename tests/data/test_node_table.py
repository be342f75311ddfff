"""Node tables: what is known of nodes, encoded on the training part, for nodes of one kind or two."""

import json

import numpy as np
import pandas as pd
import pytest

from tapgnn.data.node_table import NodeEncoder, read_node_table
from tapgnn.data.schema import Schema
from tapgnn.errors import ConfigError, DataError
from tests.data.logs import put

SCHEMA = Schema("card_id", "merchant_id", "timestamp")
ROWS = [f"m{row},{('food', 'travel')[row % 2]},{'' if row == 3 else row * 10},shop {row}" for row in range(20)]
TEXT = "\n".join(["merchant_id,category,size,name", *ROWS]) + "\n"


@pytest.fixture
def table(tmp_path):
    return read_node_table(put(tmp_path, "merchants.csv", TEXT), SCHEMA)


def test_ids_and_columns_are_found(table):
    assert table.id == "merchant_id"
    assert table.ids.tolist() == [f"m{row}" for row in range(20)]
    assert table.kinds == {"category": "category", "size": "number"}
    assert table.suggestions[0].startswith("node table: column 'name' is text that hardly repeats")


def test_a_frame_gives_what_a_file_gives(table, tmp_path):
    frame = pd.read_csv(put(tmp_path, "merchants.csv", TEXT))
    found = read_node_table(frame, SCHEMA, "merchant_id")
    assert found.ids.tolist() == table.ids.tolist()
    np.testing.assert_array_equal(found.columns["size"], table.columns["size"])


def test_encoders_know_the_nodes_of_training_alone(table):
    known = np.arange(20) < 10
    encoder = NodeEncoder.fit(table, known)
    assert encoder.encoder.categories["category"] == ("food", "travel")
    assert encoder.encoder.numbers["size"].knots.max() <= 90
    features = encoder.features(table.columns)
    assert features.shape == (20, encoder.width) == (20, 2 + 4)
    np.testing.assert_array_equal(features[3, :2], [0, 1])
    np.testing.assert_array_equal(encoder.missing()[0], [0, 1, 1, 0, 0, 0])
    again = NodeEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(again.features(table.columns), features)


def test_a_later_table_is_read_as_the_first_was(table, tmp_path):
    later = put(tmp_path, "later.csv", "size,merchant_id,category\n7,m99,unheard of\n")
    found = read_node_table(later, SCHEMA, table.id, table.kinds)
    assert found.columns["category"].tolist() == ["unheard of"]
    with pytest.raises(DataError, match="has no column 'category'"):
        read_node_table(put(tmp_path, "less.csv", "size,merchant_id\n7,m99\n"), SCHEMA, table.id, table.kinds)
    with pytest.raises(DataError, match=r"bad.csv line 2: size 'big' is not a finite number"):
        read_node_table(
            put(tmp_path, "bad.csv", "size,merchant_id,category\nbig,m9,x\n"), SCHEMA, table.id, table.kinds
        )


def test_where_nodes_are_of_two_kinds_the_column_of_ids_says_which(table, tmp_path):
    two = Schema("card_id", "merchant_id", "timestamp", bipartite=True)
    assert table.internal_ids(two)[0] == "merchant_id:m0"
    other = read_node_table(put(tmp_path, "shops.csv", TEXT.replace("merchant_id", "shop")), two, "shop")
    with pytest.raises(ConfigError, match="'shop' is neither 'card_id' nor 'merchant_id'"):
        other.internal_ids(two)


def test_what_describes_nobody_is_refused(table, tmp_path):
    with pytest.raises(ConfigError, match="no node of the training events is in the node table"):
        NodeEncoder.fit(table, np.zeros(20, dtype=bool))
    lone = read_node_table(put(tmp_path, "lone.csv", "merchant_id\nm1\nm2\n"), SCHEMA)
    with pytest.raises(ConfigError, match="no column besides the ids"):
        NodeEncoder.fit(lone, np.ones(2, dtype=bool))
    with pytest.raises(DataError, match="has no column 'card_id' or 'merchant_id'"):
        read_node_table(put(tmp_path, "odd.csv", "shop,size\nm1,3\n"), SCHEMA)
    for values in ({}, {"id": 3, "kinds": {}, "encoder": {"numbers": {}, "categories": {}}}):
        with pytest.raises(ConfigError):
            NodeEncoder.from_dict(values)

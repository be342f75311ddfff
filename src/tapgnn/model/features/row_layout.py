"""Where each number stands in the rows of a state, and the floors beside them.

Apart from the code that updates and reads the rows, so that a saved state can be read without loading a compiler.
"""


class StatisticColumns:
    """Of node statistics, the first of two columns, as source and as destination; see `node_statistics`."""

    COUNT, LAST, SEEN, RECENT = 0, 2, 4, 6


class PartnerColumns:
    """Of recent partners: the columns, and then the blocks with a column a slot; see `recent_partners`."""

    FIRST, BEGAN, AT, NEW, RECENT = 1, 2, 3, 4, 6
    KEY, LAST, SEEN, OWN, OUT, BLOCKS = 0, 1, 2, 3, 4, 6


class PairColumns:
    """Of what is known of a pair at a query; see `recent_partners.pair_facts`."""

    MET, PAUSE, TICKS, OWN_EVENTS, COUNTS, WIDTH = 0, 1, 2, 3, 5, 7


# Beside one event, so that the logarithm of a decayed count levels off.
COUNT_FLOOR = 0.1
# Keeps the cosine of an empty sketch at 0, and that of one long faded small.
COSINE_FLOOR = 1e-3

"""Recent links: the encoding of the time since each of the latest events, and their features."""

import numpy as np
import torch

from tapgnn.baselines.sampled.recent_links import recent_links
from tapgnn.baselines.shared.temporal_attention import EventHistory, FixedTimeEncoding
from tests.baselines.shared.test_learner import random_log


def test_the_inputs_are_the_cosines_of_the_ages_and_the_features_and_zero_without_a_link():
    log = random_log(features=2)
    past = EventHistory(FixedTimeEncoding(log, 6), 2)
    node, time = np.array([0, 1, 2, -1, 99]), log.time[-1] + np.array([0.0, 1.0, -30.0, 1.0, 1.0])
    assert not recent_links(past, node, time, 4).inputs.any()
    past.append(log)
    met, inputs = recent_links(past, node, time, 4)
    assert met.mask[:3].any(axis=1).all()
    assert inputs.shape == (5, 4, 8)
    for query in range(5):
        for place in range(4):
            event = met.event[query, place]
            wanted = torch.zeros(8)
            if event >= 0:
                assert log.time[event] < time[query]
                ages = past.encoding.frequency * (time[query] - log.time[event])
                wanted = torch.cat([ages.cos().float(), torch.from_numpy(log.features[event])])
            torch.testing.assert_close(inputs[query, place], wanted, rtol=1e-4, atol=1e-4)

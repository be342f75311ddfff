"""The encoding of time keeps its digits, on tensors and on arrays, however many turns it takes off."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.compiled.parallel import view
from tapgnn.model.time_encoding import TimeEncoding, encode_times

TIMES = st.lists(st.floats(-1e3, 1e3), max_size=20)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@given(times=TIMES, phase=st.floats(-10.0, 10.0))
def test_waves_are_cosines_of_exact_phases(kind, times, phase):
    encoding = TimeEncoding(9, 1e-5).to(kind)
    torch.nn.init.constant_(encoding.phase, phase)
    time = torch.tensor(times, dtype=torch.float64)
    exact = torch.cos(time.unsqueeze(1) * encoding.frequency.double() + encoding.phase.double()).detach()
    waves = torch.from_numpy(encode_times(view(time), view(encoding.frequency), view(encoding.phase)))
    assert waves.dtype == kind
    torch.testing.assert_close(waves.double(), exact, rtol=0.0, atol=2e-7)
    torch.testing.assert_close(encoding(time).detach().double(), exact, rtol=0.0, atol=2e-7)


def test_what_never_was_has_no_waves():
    encoding = TimeEncoding(4, 1e-5)
    waves = encode_times(np.array([np.inf, 0.0]), view(encoding.frequency), view(encoding.phase))
    assert not waves[0].any()
    np.testing.assert_allclose(waves[1], 1.0, atol=2e-7)

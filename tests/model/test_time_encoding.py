"""The encoding of time keeps its digits, with and without gradients, however many turns it takes off."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.model.time_encoding import TimeEncoding

TIMES = st.lists(st.floats(-1e3, 1e3), max_size=20)


@given(times=TIMES, phase=st.floats(-10.0, 10.0))
def test_float32_waves_without_gradients_are_cosines_of_exact_phases(times, phase):
    encoding = TimeEncoding(9, 1e-5)
    torch.nn.init.constant_(encoding.phase, phase)
    time = torch.tensor(times, dtype=torch.float64)
    exact = torch.cos(time.unsqueeze(1) * encoding.frequency.double() + encoding.phase.double())
    with torch.no_grad():
        waves = encoding(time)
    assert waves.dtype == torch.float32
    torch.testing.assert_close(waves.double(), exact.detach(), rtol=0.0, atol=2e-7)
    torch.testing.assert_close(encoding(time).double(), exact, rtol=0.0, atol=1e-7)


@given(times=TIMES)
def test_float64_waves_are_the_same_without_gradients(times):
    encoding = TimeEncoding(9, 1e-5).double()
    time = torch.tensor(times, dtype=torch.float64)
    with torch.no_grad():
        waves = encoding(time)
    assert torch.equal(waves, encoding(time).detach())

"""Every kernel: the scan form equals the definition, in outputs and in gradients, from any carried state."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.errors import ConfigError
from tapgnn.kernels import KERNELS, Adaptive
from tapgnn.kernels.flow import Flow

from ..streams import KERNEL_NAMES, streams, tiny_model


def gradients(model, embedding):
    weights = torch.cos(torch.arange(embedding.numel(), dtype=torch.float64)).view_as(embedding)
    model.zero_grad()
    (embedding * weights).sum().backward()
    return {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@given(data=st.data(), roles=st.booleans(), features=st.sampled_from([0, 2]), layers=st.integers(1, 3))
def test_the_scan_equals_the_definition_in_outputs_and_gradients(kernel, data, roles, features, layers):
    events = data.draw(streams(max_events=15, features=features))
    model = tiny_model(
        kernel, events.vocabulary, roles=roles, self_connection=roles, layers=layers, edge_features=features
    )
    trace, _ = model.advance(events, model.empty_state())
    direct = model.advance_directly(events)
    torch.testing.assert_close(trace.embedding, direct, rtol=1e-10, atol=1e-10)
    by_scan, by_definition = gradients(model, trace.embedding), gradients(model, direct)
    assert by_scan.keys() == by_definition.keys()
    assert any(grad.abs().max() > 0 for grad in by_scan.values())
    for name, grad in by_scan.items():
        torch.testing.assert_close(grad, by_definition[name], rtol=1e-8, atol=1e-10, msg=name)


@pytest.mark.parametrize("kernel", ["gcn", "mean", "pool", "attention", "adaptive"])
@given(events=streams(max_events=25), most=st.integers(1, 60))
def test_direct_aggregation_by_blocks_of_links_gives_the_same(kernel, events, most):
    model = tiny_model(kernel, events.vocabulary)
    whole, cut = model.advance_directly(events), []

    def blocks(flow):
        cut.append(flow)
        return flow_blocks(flow, most)

    flow_blocks = Flow.blocks
    with mock.patch.object(Flow, "blocks", blocks):
        torch.testing.assert_close(model.advance_directly(events), whole, rtol=1e-12, atol=1e-12)
    for flow in cut:
        parts = [part.neighbourhood() for part in flow_blocks(flow, most)]
        for found, links in zip(zip(*parts, strict=True), flow.neighbourhood(), strict=True):
            assert torch.equal(torch.cat(found), links)


def test_the_table_names_the_kernels():
    assert tuple(KERNELS) == KERNEL_NAMES


def test_rates_start_from_spread_half_lives_never_turn_negative_and_two_are_pinned():
    kernel = Adaptive(8, rates=3)
    by_time, by_events = torch.log(torch.tensor(2.0)) / kernel.rate()
    expected = torch.tensor([1 / 3, 1 / 30, 1 / 300], dtype=torch.float64)
    torch.testing.assert_close(by_time[2:5], expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(by_events[5:], expected, rtol=1e-5, atol=0)
    with torch.no_grad():
        kernel.log_rate -= 100.0
    assert (kernel.rate()[:, :2] == 0).all()
    assert (kernel.rate() >= 0).all()


def test_the_rates_of_a_kernel_must_fit_its_channels():
    assert Adaptive(7, rates=2).rate().shape == (2, 6)
    assert Adaptive(2, rates=0).rate().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ConfigError, match="lower rates"):
        Adaptive(6, rates=3)

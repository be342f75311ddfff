"""Sweep: search the settings of model and training that are best on the validation events, on Optuna.

A trial trains on the training events of a protocol and is judged on its validation events, by the metric `select`; one
that is worse than the median of the others at a validation is stopped there. The test events are left alone. All trials
are kept in one SQLite file: a sweep that was killed anywhere goes on where it was, without the trial at work.

    width=32,64,128         any of these values
    learning_rate=1e-4..0.01   any value between them, on a logarithmic scale where the upper end is at least ten times
                               the lower; whole numbers where the setting takes nothing else

Where all settings have lists of values and no number of trials is given, every combination is tried once; else the
sampler is Optuna's TPE.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from tapgnn.data.schema import Schema
from tapgnn.errors import ConfigError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.protocols import ProtocolName, find_protocol
from tapgnn.events import Events, events_fingerprint
from tapgnn.model import Config
from tapgnn.training.link_prediction import TrainingProgress

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

FILE, TRIALS = "sweep.db", 30
# Of a setting that is not the same for all trials, the one that says how they are judged would decide nothing.
FIXED = ("seed", "lag", "select", "preset")


@dataclass(frozen=True)
class Space:
    """The settings that vary, as they were written; `values` by name."""

    written: Mapping[str, str]
    values: Mapping[str, BaseDistribution]

    @property
    def combinations(self) -> int | None:
        """How many there are; None where a setting has a range."""
        sizes = [len(getattr(value, "choices", ())) for value in self.values.values()]
        return math.prod(sizes) if all(sizes) else None

    def grid(self) -> Iterator[dict[str, Any]]:
        """All of them."""
        for chosen in itertools.product(*(getattr(value, "choices", ()) for value in self.values.values())):
            yield dict(zip(self.values, chosen, strict=True))


@dataclass(frozen=True)
class Sweep:
    """The finished trials in their order, as plain values, and the settings and the validation metric of the best."""

    trials: list[dict[str, Any]]
    settings: dict[str, Any]
    validation: float


Listener = Callable[[Mapping[str, Any], int, int], None]


def parse_space(written: Sequence[str]) -> Space:
    """The settings that vary, each as NAME=A,B,... or NAME=LOW..HIGH."""
    _optuna()
    kinds, texts = known_settings(), {}
    for text in written:
        name, sign, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not values.strip():
            raise ConfigError(f"--vary takes NAME=A,B,... or NAME=LOW..HIGH, such as width=32,64, not {text!r}")
        if name not in kinds:
            raise ConfigError(f"--vary {text}: there is no setting {name!r}; those that vary are {', '.join(kinds)}")
        if name in texts:
            raise ConfigError(f"--vary {text}: {name} is given twice; write all of its values into one --vary")
        texts[name] = values.strip()
    if not texts:
        raise ConfigError("nothing varies; pass --vary NAME=A,B,... at least once, such as --vary width=32,64,128")
    return Space(texts, {name: _distribution(name, values, kinds[name]) for name, values in texts.items()})


def known_settings() -> dict[str, type]:
    """The settings of model and training that can vary, with the type of a value."""
    measured = {"origin", "span", "unit", "events", "node_features", "edge_features", "edge_categories"}
    hints = {**get_type_hints(Config), **get_type_hints(TAPGNN)}
    names = [field.name for kind in (TAPGNN, Config) for field in fields(kind) if field.name in hints]
    found: dict[str, type] = {}
    for name in dict.fromkeys(names):
        kinds = [kind for kind in (hints[name], *get_args(hints[name])) if kind in (bool, int, float, str)]
        if kinds and get_origin(hints[name]) is not tuple and name not in {*measured, *FIXED}:
            found[name] = kinds[0]
    return found


def _distribution(name: str, text: str, kind: type) -> BaseDistribution:
    """The values of a setting."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    low, sign, high = text.partition("..")
    if not sign:
        return CategoricalDistribution([_value(name, part, kind) for part in text.split(",")])
    if kind not in (int, float):
        raise ConfigError(f"--vary {name}={text}: {name} is no number; list its values, as in {name}=A,B")
    ends = _value(name, low, kind), _value(name, high, kind)
    if not ends[0] < ends[1]:
        raise ConfigError(f"--vary {name}={text}: {low} is not below {high}; write {name}={high}..{low}")
    wide = 0 < 10 * ends[0] <= ends[1]
    return (IntDistribution if kind is int else FloatDistribution)(*ends, log=wide)


def _value(name: str, text: str, kind: type) -> Any:
    words = {"true": True, "false": False}
    try:
        return words[text.strip().lower()] if kind is bool else kind(text.strip())
    except (KeyError, ValueError):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise ConfigError(f"--vary {name}: {text.strip()!r} is not {expected}") from None


def sweep(
    events: Events,
    estimator: TAPGNN,
    space: Space,
    folder: str | Path,
    trials: int | None = None,
    protocol: ProtocolName = "strict",
    schema: Schema | None = None,
    listener: Listener | None = None,
) -> Sweep:
    """Do the trials that the folder does not hold yet; settings that do not vary are those of the estimator.

    The listener gets every finished trial, how many there are, and of how many. Ctrl-C keeps the finished trials, and
    is raised.
    """
    optuna = _optuna()
    split = find_protocol(protocol).split(events)
    estimator.config(), estimator.settings()
    count = trials if trials is not None else space.combinations or TRIALS
    if count < 1:
        raise ConfigError(f"trials must be at least 1, not {count}")
    work = {
        "data_sha256": events_fingerprint(events),
        "protocol": protocol,
        "space": dict(space.written),
        "settings": estimator.resolved(),
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    storage = optuna.storages.RDBStorage(f"sqlite:///{Path(folder) / FILE}")
    try:
        study = _study(optuna, storage, json.loads(json.dumps(work)), Path(folder))
        in_full = trials is None and space.combinations is not None
        while (done := len(_finished(study))) < count:
            # A sampler of its own for each trial, so that a resumed sweep does not repeat what the first one drew.
            study.sampler = optuna.samplers.TPESampler(seed=estimator.seed + done)
            if in_full and not study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,)):
                tried = [trial.params for trial in _finished(study)]
                study.enqueue_trial(next(each for each in space.grid() if each not in tried))
            trial = study.ask(dict(space.values))
            _perform(optuna, study, trial, estimator, (split.train, split.valid), schema)
            ended = _finished(study)
            if listener is not None:
                listener(_plain(ended[-1]), len(ended), count)
        return _summarised(study)
    finally:
        storage.engine.dispose()


def _study(optuna: Any, storage: Any, work: Mapping[str, Any], folder: Path) -> Study:
    """The study in the storage, new or continued; one of other data or settings is an error."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1)
    study: Study = optuna.create_study(
        storage=storage, study_name="sweep", direction="maximize", load_if_exists=True, pruner=pruner
    )
    kept = study.user_attrs.get("work")
    if kept is None:
        study.set_user_attr("work", work)
    elif kept != work:
        other = ", ".join(name for name in work if kept.get(name) != work[name])
        raise ConfigError(f"{folder} holds a sweep of other {other}; pass another --out, or the same options to resume")
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _perform(
    optuna: Any, study: Study, trial: Trial, estimator: TAPGNN, parts: tuple[Events, Events], schema: Schema | None
) -> None:
    """Train with the settings of a trial, and store how it ended."""
    state = optuna.trial.TrialState
    model = with_settings(estimator, trial.params)

    def listen(progress: TrainingProgress) -> None:
        if progress.validation is not None:
            trial.report(progress.validation, len(progress.points))
            if trial.should_prune():
                raise optuna.TrialPruned

    try:
        model.fit(*parts, schema=schema, listener=listen)
    except optuna.TrialPruned:
        study.tell(trial, state=state.PRUNED)
    except ConfigError as error:
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=state.FAIL)
    else:
        if model.history_.interrupted:
            raise KeyboardInterrupt
        study.tell(trial, model.history_.best)


def with_settings(estimator: TAPGNN, settings: Mapping[str, Any]) -> TAPGNN:
    """The estimator with other settings: parameters of its own, or options of its model."""
    params = estimator.get_params()
    own = {name: value for name, value in settings.items() if name in params}
    options = {name: value for name, value in settings.items() if name not in params}
    return TAPGNN(**{**params, **own, "options": {**(estimator.options or {}), **options} or None})


def _finished(study: Study) -> list[FrozenTrial]:
    """The trials that ended, failed ones with their error included; one that was killed does not count."""
    trials = study.get_trials(deepcopy=False)
    return [trial for trial in trials if trial.state.name in ("COMPLETE", "PRUNED") or "error" in trial.user_attrs]


def _plain(trial: FrozenTrial) -> dict[str, Any]:
    """A trial as plain values; of a pruned one the metric is that of its last validation."""
    value = trial.value if trial.state.name == "COMPLETE" else trial.intermediate_values.get(trial.last_step or 0)
    ended = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}[trial.state.name]
    found = {"number": trial.number, "state": ended, "validation": value, "settings": trial.params}
    return {**found, **({"error": trial.user_attrs["error"]} if "error" in trial.user_attrs else {})}


def _summarised(study: Study) -> Sweep:
    trials = [_plain(trial) for trial in _finished(study)]
    complete = [trial for trial in trials if trial["state"] == "complete"]
    if not complete:
        raise ConfigError(f"no trial was completed; the first one failed with: {trials[0].get('error')}")
    best = max(complete, key=lambda trial: float(trial["validation"]))
    return Sweep(trials, dict(best["settings"]), float(best["validation"]))


def _optuna() -> Any:
    """Optuna, quiet."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("tapgnn sweep needs the package optuna; run pip install 'tapgnn[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna

"""Contestants take turns, A B A B …, each turn in a fresh process; medians count, if ours is no worse."""

from __future__ import annotations

import datetime
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.case import Case, Contestant, Quality, Target
from benchmarks.worker import save_data

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Row:
    """What one contestant did over all its runs."""

    contestant: str
    status: str = "ok"  # "ok", "not installed", "failed: reason"
    seconds: float | None = None  # median over the runs
    spread: float | None = None  # (slowest - fastest) / median
    peak_mb: float | None = None  # largest over the runs, beyond the data
    quality: dict[str, float] = field(default_factory=dict)
    worse_than_peer: bool = False  # on a peer's row: ours gave a worse answer than this peer
    ratio: float | None = None  # on a peer's row: peer's seconds / ours; None where ours is worse
    runs: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Verdict:
    """A target and what became of it."""

    target: float
    against: str  # the fastest of the peers that ran
    ratio: float | None
    outcome: str  # "met", "missed", "worse", "not measured"


@dataclass
class Outcome:
    """A finished case: rows, verdicts, and what the figures depend on."""

    case: str
    group: str
    about: str
    rows: list[Row]
    verdicts: list[Verdict]
    problems: list[str]  # what makes --strict fail
    threads: int
    repeats: int
    calls: int
    warmup: bool
    memory_limit: float | None
    date: str
    machine: dict[str, str | int]
    versions: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain data for docs/benchmarks.json (single runs left out)."""
        plain = asdict(self)
        for row in plain["rows"]:
            del row["runs"]
        return plain


def run_case(
    case: Case,
    *,
    registry: str = "benchmarks.cases",
    threads: int,
    repeats: int | None = None,
    timeout: float = 3600.0,
    log: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Make the data once, let the contestants take turns, judge."""
    repeats = case.repeats if repeats is None else repeats
    rows = {c.name: Row(c.name) for c in case.contestants}
    for contestant in case.contestants:
        if absent := machine.missing(contestant.needs):
            rows[contestant.name].status = "not installed"
            log(f"{case.name}: {contestant.name}: {', '.join(absent)} not installed")
    with tempfile.TemporaryDirectory(prefix="knoll-bench-") as folder:
        data = Path(folder, "data")
        data.mkdir()
        save_data(case.data(), data)
        for turn in range(repeats):
            for contestant in case.contestants:
                row = rows[contestant.name]
                if row.status != "ok":
                    continue
                answer = one_run(case, contestant, data, registry, threads, timeout)
                if "error" in answer:
                    row.status = f"failed: {answer['error']}"
                    log(f"{case.name}: {contestant.name}: {row.status}")
                else:
                    row.runs.append(answer)
                    log(f"{case.name}: {contestant.name} {turn + 1}/{repeats}: {answer['seconds']:.4g} s")
    for row in rows.values():
        _summarise(row)
    return _judge(case, list(rows.values()), threads, repeats)


def one_run(
    case: Case,
    contestant: Contestant,
    data: Path,
    registry: str,
    threads: int,
    timeout: float,
    *,
    python: str = sys.executable,
    root: Path = ROOT,
) -> dict[str, Any]:
    """Time a contestant of a checkout in a fresh process of its interpreter; return the answer of the worker."""
    with tempfile.TemporaryDirectory(prefix="knoll-run-") as folder:
        answer = Path(folder, "answer.json")
        command = [python, "-m", "benchmarks.worker", "--registry", registry, "--case", case.name]
        command += ["--contestant", contestant.name, "--data", str(data), "--threads", str(threads)]
        command += ["--answer", str(answer)]
        inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        paths = [str(root), *map(os.path.abspath, inherited)]  # the run has a working directory of its own
        environment = os.environ | machine.thread_environment(threads) | {"PYTHONPATH": os.pathsep.join(paths)}
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that a timeout also ends what the contestant started
        )
        try:
            _, errors = process.communicate(timeout=timeout)
        except BaseException as reason:  # Ctrl-C too: leave no orphan that eats the CPU of the next run
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(reason, subprocess.TimeoutExpired):
                return {"error": f"no answer within {timeout:g} s"}
            raise
        if not answer.exists():
            last = (errors.strip().splitlines() or ["no message"])[-1]
            how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit {process.returncode}"
            return {"error": f"process ended with {how}: {last}"[:200]}
        return dict(json.loads(answer.read_text()))


def _summarise(row: Row) -> None:
    """Medians of the time and of the judge's numbers over the runs; the largest peak of memory."""
    if row.status != "ok":
        row.runs.clear()
        return
    seconds = [run["seconds"] for run in row.runs]
    row.seconds = statistics.median(seconds)
    row.spread = (max(seconds) - min(seconds)) / row.seconds
    peaks = [run["peak_bytes"] for run in row.runs if run["peak_bytes"] is not None]
    row.peak_mb = max(peaks) / 1e6 if peaks else None
    for key in row.runs[0]["quality"]:
        row.quality[key] = statistics.median(run["quality"][key] for run in row.runs)


def _no_worse(case: Case, ours: Row, peer: Row) -> bool:
    """Each of our answers against each of the peer's: one lucky run must not hide a bad one."""
    pairs: list[tuple[Quality, Quality]] = [
        (mine["quality"], theirs["quality"]) for mine in ours.runs for theirs in peer.runs
    ]
    return all(case.not_worse(mine, theirs) for mine, theirs in pairs)


def _judge(case: Case, rows: list[Row], threads: int, repeats: int) -> Outcome:
    ours, peers = rows[0], rows[1:]
    problems = []
    if ours.seconds is None:
        problems.append(f"{case.name}: {ours.contestant}: {ours.status}")
    else:
        for peer in (p for p in peers if p.seconds is not None):
            peer.worse_than_peer = not _no_worse(case, ours, peer)
            if peer.worse_than_peer:
                problems.append(f"{case.name}: the answer is worse than that of {peer.contestant}")
            elif peer.seconds is not None:
                peer.ratio = peer.seconds / ours.seconds
        if case.memory_limit is not None and (ours.peak_mb is None or ours.peak_mb > case.memory_limit):
            problems.append(f"{case.name}: {ours.peak_mb} MB beyond the data, allowed {case.memory_limit}")
    verdicts = [_verdict(target, ours, peers) for target in case.targets]
    problems += [
        f"{case.name}: target {v.target:g} against {v.against}: {v.outcome}"
        for v in verdicts
        if v.outcome in ("missed", "not measured")
    ]
    return Outcome(
        case=case.name,
        group=case.group,
        about=case.about,
        rows=rows,
        verdicts=verdicts,
        problems=problems,
        threads=threads,
        repeats=repeats,
        calls=case.calls,
        warmup=case.warmup is not None,
        memory_limit=case.memory_limit,
        date=datetime.date.today().isoformat(),
        machine=machine.describe(),
        versions=machine.versions(need for c in case.contestants for need in ("numpy", *c.needs)),
    )


def _verdict(target: Target, ours: Row, peers: list[Row]) -> Verdict:
    among = [p for p in peers if not target.against or p.contestant in target.against]
    ran = [p for p in among if p.seconds is not None]
    if ours.seconds is None or not ran:
        return Verdict(target.ratio, " / ".join(p.contestant for p in among), None, "not measured")
    if any(p.worse_than_peer for p in ran):
        worse = next(p for p in ran if p.worse_than_peer)
        return Verdict(target.ratio, worse.contestant, None, "worse")
    fastest = min(ran, key=lambda p: p.seconds or 0.0)
    met = fastest.ratio is not None and fastest.ratio >= target.ratio
    return Verdict(target.ratio, fastest.contestant, fastest.ratio, "met" if met else "missed")

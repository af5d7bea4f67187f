"""Jobs that run side by side, each with a line on the terminal."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from threading import Event
from typing import TYPE_CHECKING

from cdcbus.plugins.errors import CdcError

if TYPE_CHECKING:
    from rich.console import Console


def side_by_side(
    jobs: Mapping[str, Callable[[Event], str]], doing: str, console: "Console"
) -> None:
    """Runs all jobs concurrently; each returns what to print when it is done, and gives up soon
    when the event it gets is set.

    Returns when all have ended; raises CdcError with the sentences of those that failed.
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(finished_text=" "), TextColumn("{task.description}"))
    failures: list[str] = []
    cancelled = Event()
    started = time.monotonic()
    lines = Progress(*columns, console=console, disable=not console.is_terminal)
    with lines as progress, ThreadPoolExecutor(len(jobs)) as pool:
        tasks = {}
        futures: dict[Future[str], str] = {}
        for name, job in jobs.items():
            tasks[name] = progress.add_task(f"  {name:<18} {doing}", total=1)
            futures[pool.submit(job, cancelled)] = name
        try:
            for future in as_completed(futures):
                name = futures[future]
                try:
                    said = future.result()
                except CdcError as error:
                    failures.append(str(error))
                    progress.update(
                        tasks[name], completed=1, description=f"[red]✗[/] {name:<18} failed"
                    )
                    continue
                line = f"{name:<18} {said} [dim]({time.monotonic() - started:.1f} s)"
                progress.update(tasks[name], completed=1, description=f"[green]✓[/] {line}")
                if not console.is_terminal:
                    console.print(line, highlight=False)
        except BaseException:
            # Ctrl-C, or an unforeseen error: leaving the block waits for the jobs
            cancelled.set()
            raise
    if failures:
        raise CdcError("\n".join(failures))

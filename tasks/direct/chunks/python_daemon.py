"""Like `consumer/spark/python_daemon.py`, for workers that load chunks."""

from cdcbus.consumer.spark import python_daemon

if __name__ == "__main__":
    python_daemon.leave_out_archives()
    # Before the fork, so that each worker has it already.
    import cdcbus.tasks.direct.chunks.chunk_loader  # noqa: F401

    python_daemon.main()

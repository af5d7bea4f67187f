"""On the path of a fetch task's process: a small table has many chunks in its snapshot."""

from cdcbus.producer.snapshot import chunks

chunks.FIRST_ROWS = 40
chunks.CHUNK_BYTES = 8_000

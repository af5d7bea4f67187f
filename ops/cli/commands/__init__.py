"""Commands beside `cdcbus task`, one module each."""

"""The two gears of a consumer task, and what both do with a batch."""

"""What refuses a task file that looks as if it protected rows, and does not."""

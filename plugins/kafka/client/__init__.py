"""What every client of Kafka needs, whether it reads, sends or asks: its options, the reasons why
it gets no answer, and calls that a stop ends."""

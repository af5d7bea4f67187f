"""The Spark application, its Kafka source and its executors."""

"""The platform: PostgreSQL, an S3 store, MLflow, Prefect and workers, in containers or natively by one table."""

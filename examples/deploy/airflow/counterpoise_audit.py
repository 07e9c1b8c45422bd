"""An hourly audit in Airflow 2.10 or 3: what is new in a capture, and a failed task if there are critical findings.

The worker needs counterpoise with the extras spark and report, and Java 17. `capture --follow` writes the capture meanwhile.
"""

from datetime import datetime, timedelta

try:
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.operators.bash import BashOperator

with DAG(
    "counterpoise_audit",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # one writer per folder
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
):
    BashOperator(
        task_id="audit",
        bash_command="counterpoise audit s3://captures/shop --since last --out s3://audits/shop --fail-on critical",
    )

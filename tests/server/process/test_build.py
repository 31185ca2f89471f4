"""What Spark is told of the store the warehouse is in."""

from __future__ import annotations

import importlib.metadata

from server.process.build import store_conf
from server.settings.settings import read_settings
from sql.spark.session.settings import hadoop_version


def test_a_warehouse_on_s3_is_all_a_user_sets() -> None:
    conf = store_conf(read_settings({"SLUICE_WAREHOUSE": "s3://bucket/lake"}))
    assert conf == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
        "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{hadoop_version()}",
    }
    files = importlib.metadata.files("pyspark") or []
    assert f"hadoop-client-runtime-{hadoop_version()}.jar" in {file.name for file in files}


def test_spark_is_told_the_region_that_the_server_goes_by() -> None:
    set_ = {"SLUICE_WAREHOUSE": "s3://bucket/lake", "AWS_DEFAULT_REGION": "eu-central-1"}
    key = "spark.hadoop.fs.s3a.endpoint.region"
    assert store_conf(read_settings(set_))[key] == "eu-central-1"
    assert store_conf(read_settings(set_ | {"AWS_REGION": "eu-west-1"}))[key] == "eu-west-1"


def test_jars_that_are_named_are_not_fetched() -> None:
    set_ = {"SLUICE_WAREHOUSE": "s3://bucket/lake", "SLUICE_SPARK_JARS": "/a.jar,/b.jar"}
    assert store_conf(read_settings(set_))["spark.jars"] == "/a.jar,/b.jar"
    assert "spark.jars.packages" not in store_conf(read_settings(set_))
    more = store_conf(read_settings(set_ | {"SLUICE_SPARK_PACKAGES": "g:a:1"}))
    assert more["spark.jars.packages"] == "g:a:1"
    assert store_conf(read_settings({})) == {}

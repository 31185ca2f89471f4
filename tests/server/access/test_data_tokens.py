"""Credentials of the store for one table's directory, from a real token service (moto's)."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session

from model.errors import Forbidden, NotImplementedHere, Unavailable
from model.location import Location
from server.access.data_tokens import DataTokens, Wanted, session_policy
from server.settings.settings import read_settings
from tests.fix_s3 import Bucket

ROLE = "arn:aws:iam::123456789012:role/lake"


def wanted(**more: Any) -> Wanted:
    given: dict[str, Any] = {"principal": "ada", "location": Location.parse("s3://lake/w/d.db/t"), "write": False, "remove": False}
    return Wanted(**given | more)


def tokens(tmp_path: Path, **settings: Any) -> DataTokens:
    return DataTokens(replace(read_settings({"SLUICE_DATA": str(tmp_path)}), **settings))


def test_without_settings_there_are_none(tmp_path: Path) -> None:
    none = tokens(tmp_path)
    assert not none.configured
    with pytest.raises(NotImplementedHere, match="SLUICE_DATA_TOKEN_ROLE"):
        none.of(wanted(), administrator=True)
    with pytest.raises(Forbidden):
        tokens(tmp_path, data_token=(("k", "v"),)).of(wanted(), administrator=False)


def test_credentials_of_the_role_are_short_lived_and_kept_for_the_next_who_asks_the_same(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    handed_out = tokens(tmp_path, data_token_role=ROLE, data_token=(("fs.s3.endpoint", bucket.endpoint),))
    table = Location.parse(f"s3://{bucket.name}/lake/d.db/t")
    token = handed_out.of(wanted(location=table), administrator=False)
    left = token.expires_at_millis / 1000 - time.time()
    assert 1800 < left <= 3600
    assert token.options["fs.s3.endpoint"] == bucket.endpoint
    client = get_session().create_client(
        "sts",
        region_name="us-east-1",
        endpoint_url=bucket.endpoint,
        aws_access_key_id=token.options["fs.s3.accessKeyId"],
        aws_secret_access_key=token.options["fs.s3.accessKeySecret"],
        aws_session_token=token.options["fs.s3.securityToken"],
    )
    assert client.get_caller_identity()["Arn"] == "arn:aws:sts::123456789012:assumed-role/lake/sluice-ada"
    assert handed_out.of(wanted(location=table), administrator=False) == token
    for other in (wanted(location=table, write=True), wanted(location=table, principal="bob"), wanted(location=table.parent)):
        assert handed_out.of(other, administrator=False).options != token.options


def test_a_token_service_that_does_not_answer_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(Unavailable, match="gives no credentials of the role"):
        tokens(tmp_path, data_token_role=ROLE).of(wanted(), administrator=True)


@pytest.mark.parametrize(
    ("may", "actions"),
    [
        ({}, {"s3:GetObject"}),
        ({"write": True}, {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}),
        ({"write": True, "remove": True}, {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"}),
    ],
)
def test_the_policy_reaches_the_tables_directory_and_nothing_beside_it(may: dict[str, bool], actions: set[str]) -> None:
    objects, listing = session_policy(wanted(**may))["Statement"]
    assert (set(objects["Action"]), objects["Resource"]) == (actions, "arn:aws:s3:::lake/w/d.db/t/*")
    assert (listing["Action"], listing["Resource"]) == (["s3:ListBucket"], "arn:aws:s3:::lake")
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["w/d.db/t/*", "w/d.db/t"]}}


def test_characters_of_a_name_are_no_patterns_in_the_policy() -> None:
    objects, _ = session_policy(wanted(location=Location.parse("s3://lake/w/d.db/t*")))["Statement"]
    assert objects["Resource"] == "arn:aws:s3:::lake/w/d.db/t${*}/*"
    assert len(json.dumps(session_policy(wanted(write=True, remove=True)))) < 2048, "what token services take"

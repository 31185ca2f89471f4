"""Credentials of the store for one table's directory, from a real token service (moto's)."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import httpx
import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session

from model.errors import Forbidden, NotImplementedHere, Unavailable
from model.location import Location
from model.options.option import Option
from server.access.data_tokens import DataTokens, Wanted, session_policy
from server.settings.options import DATA_TOKEN, DATA_TOKEN_ROLE, DATA_TOKEN_SHARED
from server.settings.settings import read_settings
from tests.fix_s3 import Bucket
from tests.serving import in_background

ROLE = "arn:aws:iam::123456789012:role/lake"
_SESSION = get_session()
"""Of all clients: each session reads its descriptions of services anew."""


def wanted(**more: Any) -> Wanted:
    given: dict[str, Any] = {"principal": "ada", "location": Location.parse("s3://lake/w/d.db/t"), "write": False, "remove": False}
    return Wanted(**given | more)


def tokens(tmp_path: Path, **settings: Any) -> DataTokens:
    read = read_settings({"SLUICE_DATA": str(tmp_path)})
    named: dict[str, Option[Any]] = {"data_token": DATA_TOKEN, "data_token_role": DATA_TOKEN_ROLE, "data_token_shared": DATA_TOKEN_SHARED}
    for name, value in settings.items():
        read = read.with_value(named[name], value)
    return DataTokens(read)


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
    assert 3600 + 1800 < left <= 7200, "clients ask for others an hour before the end: with an hour they did so before every call"
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


class Strict:
    """A token service whose role allows an hour; where it is, the times it was asked for, and the code by which it refuses."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[int] = []
        self.code = "ValidationError"
        self.most = 3600


@pytest.fixture
def strict() -> Iterator[Strict]:
    service = Strict()
    asked = service.asked

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            asked.append(seconds := int(sent["DurationSeconds"][0]))
            until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
            given = (
                f"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>k{len(asked)}</AccessKeyId><SecretAccessKey>s"
                f"</SecretAccessKey><SessionToken>t</SessionToken><Expiration>{until.isoformat()}</Expiration></Credentials>"
                "</AssumeRoleResult></AssumeRoleResponse>"
            )
            refused = (
                f"<ErrorResponse><Error><Type>Sender</Type><Code>{service.code}</Code><Message>The requested DurationSeconds exceeds the "
                "MaxSessionDuration set for this role.</Message></Error></ErrorResponse>"
            )
            text = (refused if seconds > service.most else given).encode()
            self.send_response(400 if seconds > service.most else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as http:
        in_background(http)
        service.url = f"http://127.0.0.1:{http.server_port}"
        yield service
        http.shutdown()


def asking(service: Strict, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ENDPOINT_URL": service.url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("code", ["ValidationError", "InvalidParameterValue", "InvalidArgument"], ids=["aws", "minio", "ceph"])
def test_a_role_that_allows_an_hour_is_asked_for_an_hour(
    tmp_path: Path, strict: Strict, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    strict.code = code
    asking(strict, monkeypatch)
    handed_out = tokens(tmp_path, data_token_role=ROLE)
    token = handed_out.of(wanted(), administrator=True)
    assert 1800 < token.expires_at_millis / 1000 - time.time() <= 3600
    assert handed_out.of(wanted(), administrator=True) == token, "the token service is not asked as often as clients ask"
    handed_out.of(wanted(write=True), administrator=True)
    assert strict.asked == [7200, 3600, 3600], "what was refused is remembered"
    assert "gives no credentials" in caplog.text


def test_a_request_that_is_refused_for_another_reason_shortens_no_later_one(
    tmp_path: Path, strict: Strict, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict.code, strict.most = "SomethingElse", 0
    asking(strict, monkeypatch)
    handed_out = tokens(tmp_path, data_token_role=ROLE)
    with pytest.raises(Unavailable, match="SomethingElse"):
        handed_out.of(wanted(), administrator=True)
    strict.most = 7200
    handed_out.of(wanted(), administrator=True)
    assert strict.asked == [7200, 3600, 7200]


ROLE_OF_THE_STORE = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
DATA, SNAPSHOT, SCHEMA = "t/bucket-0/data-1.parquet", "t/snapshot/snapshot-1", "t/schema/schema-0"
OF_A_BRANCH, TAG = "t/branch/branch-b/schema/schema-0", "t/tag/tag-x"
OUTSIDE = ("t2/bucket-0/data-1.parquet", "t-1/schema/schema-0", "u/bucket-0/data-1.parquet", "t")


def client_of(service: str, bucket: Bucket, **keys: str) -> Any:
    return _SESSION.create_client(service, region_name="us-east-1", endpoint_url=bucket.endpoint, **keys)


@pytest.fixture
def guarded(bucket: Bucket) -> Iterator[Callable[[Wanted], Any]]:
    """Clients of a store that asks its policies: a role's own here, as moto asks them and not those of a session, and no conditions."""
    iam = client_of("iam", bucket, aws_access_key_id="key", aws_secret_access_key="secret")
    root = f"root-{bucket.name}"
    iam.create_user(UserName=root)
    iam.put_user_policy(UserName=root, PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
    key = iam.create_access_key(UserName=root)["AccessKey"]
    owner = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
    s3 = client_of("s3", bucket, **owner)
    for name in (DATA, SNAPSHOT, SCHEMA, OF_A_BRANCH, TAG, *OUTSIDE):
        s3.put_object(Bucket=bucket.name, Key=f"lake/d.db/{name}", Body=b"x")

    def of(wanted: Wanted) -> Any:
        role = f"role-{uuid4().hex[:12]}"
        iam = client_of("iam", bucket, **owner)
        arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(ROLE_OF_THE_STORE))["Role"]["Arn"]
        iam.put_role_policy(RoleName=role, PolicyName="session", PolicyDocument=json.dumps(session_policy(wanted)))
        given = client_of("sts", bucket, **owner).assume_role(RoleArn=arn, RoleSessionName="ada")["Credentials"]
        names = {"aws_access_key_id": "AccessKeyId", "aws_secret_access_key": "SecretAccessKey", "aws_session_token": "SessionToken"}
        return client_of("s3", bucket, **{name: given[key] for name, key in names.items()})

    assert httpx.post(f"{bucket.endpoint}/moto-api/reset-auth", content="0").status_code == 200
    yield of
    assert httpx.post(f"{bucket.endpoint}/moto-api/reset-auth", content="inf").status_code == 200


def allowed(call: Callable[..., Any], **request: Any) -> bool:
    try:
        call(**request)
    except ClientError as refused:
        if refused.response["Error"]["Code"] not in ("AccessDenied", "403"):
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("may", "writes", "removes"),
    [
        ({}, (), ()),
        ({"write": True}, (DATA, TAG), ()),
        ({"write": True, "remove": True}, (DATA, TAG, SNAPSHOT, SCHEMA, OF_A_BRANCH), (DATA, TAG, SNAPSHOT, SCHEMA, OF_A_BRANCH)),
    ],
)
def test_a_store_lets_who_has_them_do_so_much_and_no_more(
    guarded: Callable[[Wanted], Any], bucket: Bucket, may: dict[str, bool], writes: tuple[str, ...], removes: tuple[str, ...]
) -> None:
    s3 = guarded(wanted(location=Location.parse(f"s3://{bucket.name}/lake/d.db/t"), **may))
    inside = (DATA, TAG, SNAPSHOT, SCHEMA, OF_A_BRANCH)
    for name in (*inside, *OUTSIDE):
        place = {"Bucket": bucket.name, "Key": f"lake/d.db/{name}"}
        assert allowed(s3.get_object, **place) is (name in inside), name
        assert allowed(s3.put_object, **place, Body=b"y") is (name in writes), name
        assert allowed(s3.delete_object, **place) is (name in removes), name
    assert not allowed(s3.list_buckets)


@pytest.mark.parametrize(
    ("may", "actions"),
    [
        ({}, {"s3:GetObject"}),
        ({"write": True}, {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}),
        ({"write": True, "remove": True}, {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"}),
    ],
)
def test_the_policy_reaches_the_tables_directory_and_nothing_beside_it(may: dict[str, bool], actions: set[str]) -> None:
    objects, listing, *denied = session_policy(wanted(**may))["Statement"]
    assert (set(objects["Action"]), objects["Resource"]) == (actions, "arn:aws:s3:::lake/w/d.db/t/*")
    assert (listing["Action"], listing["Resource"]) == (["s3:ListBucket"], "arn:aws:s3:::lake")
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["w/d.db/t/*"]}}, "names of w/d.db/t2 are another table's"
    assert bool(denied) is (may == {"write": True})


def test_characters_of_a_name_are_no_patterns_in_the_policy() -> None:
    objects, *_ = session_policy(wanted(location=Location.parse("s3://lake/w/d.db/t*")))["Statement"]
    assert objects["Resource"] == "arn:aws:s3:::lake/w/d.db/t${*}/*"
    assert len(json.dumps(session_policy(wanted(write=True)))) < 2048, "what token services take"


def test_a_name_too_long_for_a_policy_is_said_so(tmp_path: Path) -> None:
    long = Location.parse(f"s3://lake/{'d' * 180}.db/{'t' * 190}")
    with pytest.raises(NotImplementedHere, match="too long a name for the policy"):
        tokens(tmp_path, data_token_role=ROLE).of(wanted(location=long, write=True), administrator=False)


def test_fixed_keys_never_leave_beside_those_of_a_role(tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    fixed = (
        ("fs.s3.endpoint", bucket.endpoint),
        ("fs.s3a.access.key", "mine"),
        ("fs.s3a.secret.key", "mine"),
        ("fs.s3a.session.token", "mine"),
    )
    token = tokens(tmp_path, data_token_role=ROLE, data_token=fixed).of(wanted(), administrator=True)
    assert token.options["fs.s3.endpoint"] == bucket.endpoint
    assert "mine" not in token.options.values()


@pytest.mark.parametrize(
    "code",
    ["MalformedPolicyDocument", "Throttling", "ThrottlingException", "RequestLimitExceeded", "ExpiredTokenException", "RequestExpired"],
)
def test_a_token_service_that_is_asked_too_often_shortens_nothing(
    tmp_path: Path, strict: Strict, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """To AWS that is a bad request, too, and the next request may well be answered."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    strict.code, strict.most = code, 3600
    asking(strict, monkeypatch)
    handed_out = tokens(tmp_path, data_token_role=ROLE)
    with pytest.raises(Unavailable, match=code):
        handed_out.of(wanted(), administrator=True)
    strict.most = 7200
    handed_out.of(wanted(), administrator=True)
    assert strict.asked == [7200, 7200]

"""Credentials with which a client reaches a table's files itself: for that table's directory, for a time, to read or to write."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from model.errors import Forbidden, NotImplementedHere, Unavailable
from model.location import Location
from model.options.masking import names_secret
from server.settings.options import DATA_TOKEN, DATA_TOKEN_ROLE, DATA_TOKEN_ROLE_SECONDS, DATA_TOKEN_SHARED
from server.settings.settings import Settings

if TYPE_CHECKING:
    from botocore.client import BaseClient

_log = logging.getLogger(__name__)
FIXED_SECONDS = 12 * 3600
"""Clients renew a token an hour before its end (`paimon-rest.md` §5.5); this spares them asking at every read."""
CERTAIN_SECONDS = 3600
"""What every role allows; with so short a time clients ask before every call to a file."""
_ASKED_BEFORE_END_SECONDS = 3600
"""So long before the end clients ask for others."""
_KEPT_SECONDS = 1800
"""Credentials are handed to those who ask next for so long at least, and serve a client so long before it asks again, where they can."""
_NOT_THE_TIME = ("Throttl", "TooMany", "LimitExceeded", "SlowDown", "Busy", "Expired", "PackedPolicy", "MalformedPolicy")
"""In codes of answers that say something else of a request: AWS tells also who asks too often that it is a bad one."""
_TIMEOUT_SECONDS = 10
_READ = ("s3:GetObject",)
_WRITE = ("s3:PutObject", "s3:AbortMultipartUpload")
_REMOVE = ("s3:DeleteObject",)
_SERVERS_OWN = ("snapshot/*", "schema/*", "branch/*/s*")
"""What the server alone writes in a table's directory: which rows and columns there are. `branch/*/s*` are the same of branches."""
_LONGEST_POLICY = 2048
"""What token services take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whose credentials, for which directory, and to do what there."""

    principal: str
    location: Location
    write: bool
    remove: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataToken:
    """Options of a client's file system, and when they end in milliseconds since 1970."""

    options: Mapping[str, str]
    expires_at_millis: int


class DataTokens:
    """Hands them out: of a role of the store (`data-token.role`), or the fixed ones of the settings where everybody may have them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._handed_out: LRUCache[Wanted, DataToken] = LRUCache(10_000)
        self._sts: BaseClient | None = None
        self._seconds = settings[DATA_TOKEN_ROLE_SECONDS]
        """How long credentials of the role are asked for: less than the setting where the token service has refused it."""

    @property
    def configured(self) -> bool:
        """Whether there are any."""
        return bool(self._settings[DATA_TOKEN]) or self._settings[DATA_TOKEN_ROLE] is not None

    def of(self, wanted: Wanted, *, administrator: bool) -> DataToken:
        """Credentials for a caller who may read the table whole.

        Raises `NotImplementedHere` where none are configured, `Forbidden` where only those for administrators are, and `Unavailable`
        where the store's token service does not answer.
        """
        settings = self._settings
        role, pairs = settings[DATA_TOKEN_ROLE], settings[DATA_TOKEN]
        if role is not None and wanted.location.scheme == "s3":
            return self._of_role(wanted, role)
        if not pairs:
            raise NotImplementedHere("This server hands out no data tokens: neither SLUICE_DATA_TOKEN_ROLE nor SLUICE_DATA_TOKEN is set.")
        if not administrator and not settings[DATA_TOKEN_SHARED]:
            raise Forbidden(
                "The data token of this server opens all files its key reaches, so that only administrators get it. Read and write the "
                "table by SQL, or have SLUICE_DATA_TOKEN_ROLE set; SLUICE_DATA_TOKEN_SHARED=true says that whoever may read one table may "
                "read and write all files."
            )
        return DataToken(options=dict(pairs), expires_at_millis=_millis(time.time() + FIXED_SECONDS))

    def _of_role(self, wanted: Wanted, role: str) -> DataToken:
        with self._lock:
            known = self._handed_out.get(wanted)
        least = max(self._seconds // 2, min(self._seconds - _KEPT_SECONDS, _ASKED_BEFORE_END_SECONDS + _KEPT_SECONDS))
        if known is not None and known.expires_at_millis - _millis(time.time()) > least * 1000:
            return known
        made = self._assumed(wanted, role)
        with self._lock:
            self._handed_out[wanted] = made
        return made

    def _assumed(self, wanted: Wanted, role: str) -> DataToken:
        policy = json.dumps(session_policy(wanted), separators=(",", ":"))
        if len(policy) > _LONGEST_POLICY:
            raise NotImplementedHere(
                f"The directory {wanted.location} is too long a name for the policy of a data token: "
                f"{len(policy)} characters of {_LONGEST_POLICY}. Read and write the table by SQL."
            )
        request = {
            "RoleArn": role,
            "RoleSessionName": _session_name(wanted.principal),
            "Policy": policy,
        }
        credentials = self._asked(request)["Credentials"]
        options = {
            "fs.s3.accessKeyId": credentials["AccessKeyId"],
            "fs.s3.accessKeySecret": credentials["SecretAccessKey"],
            "fs.s3.securityToken": credentials["SessionToken"],
            # Java's spelling of the same.
            "s3.access-key": credentials["AccessKeyId"],
            "s3.secret-key": credentials["SecretAccessKey"],
            "s3.session-token": credentials["SessionToken"],
        }
        open_to_all = {key: value for key, value in self._settings[DATA_TOKEN] if not names_secret(key)}
        return DataToken(options=open_to_all | options, expires_at_millis=_millis(credentials["Expiration"].timestamp()))

    def _asked(self, request: Mapping[str, str]) -> Mapping[str, Any]:
        """The token service's answer: for the time that is set, or, where that is refused, for the one that every role allows."""
        from botocore.exceptions import BotoCoreError, ClientError

        seconds = self._seconds
        try:
            return self._assume(request, seconds)
        except (BotoCoreError, ClientError) as problem:
            if seconds > CERTAIN_SECONDS and _may_be_too_long(problem):
                with contextlib.suppress(BotoCoreError, ClientError):  # then it was not the time, and the first answer tells more
                    answer = self._assume(request, CERTAIN_SECONDS)
                    self._seconds = CERTAIN_SECONDS
                    _log.warning(
                        "The store's token service gives no credentials of the role %s for %d s, so that they last an hour and clients of "
                        "Paimon ask for them before every call to a file: %s",
                        request["RoleArn"], seconds, problem,
                    )  # fmt: skip
                    return answer
            raise Unavailable(f"The store's token service gives no credentials of the role {request['RoleArn']}: {problem}") from problem

    def _assume(self, request: Mapping[str, str], seconds: int) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._client().assume_role(**request, DurationSeconds=seconds)
        return answer

    def _client(self) -> Any:
        with self._lock:
            if self._sts is None:
                from botocore.config import Config
                from botocore.session import get_session

                config = Config(connect_timeout=_TIMEOUT_SECONDS, read_timeout=_TIMEOUT_SECONDS, retries={"mode": "standard"})
                session = get_session()
                region = session.get_config_variable("region") or "us-east-1"
                self._sts = session.create_client("sts", region_name=region, config=config)
            return self._sts


def session_policy(wanted: Wanted) -> dict[str, Any]:
    """What the credentials may do at most, whatever the role may: nothing outside the table's directory.

    A store cannot let somebody write new objects and keep them from writing over old ones: who may append and not delete is kept from
    the files that say which snapshots and schemas there are, and no others (`docs/security.md`).
    """
    prefix = _literal("/".join(wanted.location.parts))
    bucket = f"arn:aws:s3:::{wanted.location.authority}"
    actions = [*_READ, *(_WRITE if wanted.write else ()), *(_REMOVE if wanted.remove else ())]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": actions, "Resource": f"{bucket}/{prefix}/*"},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": bucket,
            # With the slash: without it the list goes on with tables whose names begin like this one's.
            "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*"]}},
        },
    ]
    if wanted.write and not wanted.remove:
        statements.append({"Effect": "Deny", "Action": list(_WRITE), "Resource": [f"{bucket}/{prefix}/{part}" for part in _SERVERS_OWN]})
    return {"Version": "2012-10-17", "Statement": statements}


def _may_be_too_long(problem: Exception) -> bool:
    """Whether a time beyond the role's maximum, or beyond the hour that a role's credentials get for another, may be what is refused.

    Each token service has a code of its own for it: AWS `ValidationError`, MinIO `InvalidParameterValue`, Ceph `InvalidArgument`.
    """
    answer = getattr(problem, "response", None) or {}
    if answer.get("ResponseMetadata", {}).get("HTTPStatusCode") != HTTPStatus.BAD_REQUEST:
        return False
    return not any(said in answer.get("Error", {}).get("Code", "") for said in _NOT_THE_TIME)


def _literal(path: str) -> str:
    """A path in a policy, where some characters of names mean patterns."""
    return "".join(f"${{{c}}}" if c in "*?$" else c for c in path)


def _session_name(principal: str) -> str:
    """The principal as the store's own log shows it."""
    return ("sluice-" + "".join(c if c.isascii() and (c.isalnum() or c in "=,.@-") else "-" for c in principal))[:64]


def _millis(seconds: float) -> int:
    return int(seconds * 1000)
